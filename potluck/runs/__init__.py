"""Runs: a folder with the settings as run, the history, checkpoints and a summary."""

from potluck.runs.checkpoint import CheckpointError
from potluck.runs.folder import RunFolder

__all__ = ["CheckpointError", "RunFolder"]
