"""Runs: a folder with the settings as run, the history, checkpoints and a summary."""

from potluck.runs.callbacks import Callback
from potluck.runs.checkpoint import CheckpointError
from potluck.runs.early_stopping import EarlyStopping
from potluck.runs.folder import RunFolder

__all__ = ["Callback", "CheckpointError", "EarlyStopping", "RunFolder"]
