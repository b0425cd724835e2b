"""Runs: a folder that loses nothing. Settings as run, the history, checkpoints, a summary."""

from potluck.runs.checkpoint import CheckpointError
from potluck.runs.folder import RunFolder

__all__ = ["CheckpointError", "RunFolder"]
