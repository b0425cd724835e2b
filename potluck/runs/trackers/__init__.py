"""Trackers: what keeps runs elsewhere, too: in files, with TensorBoard, MLflow, or Weights & Biases."""

from potluck.core.registry import Registry
from potluck.runs.trackers.files import CsvFile, JsonLines
from potluck.runs.trackers.mlflow import MLflow
from potluck.runs.trackers.tensorboard import TensorBoard
from potluck.runs.trackers.tracker import TrackedRun, Tracker
from potluck.runs.trackers.wandb import WandB

TRACKERS = Registry(
    "trackers", {"csv": CsvFile, "jsonl": JsonLines, "tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}
)
"""By name, as run files have them."""

__all__ = ["TRACKERS", "CsvFile", "JsonLines", "MLflow", "TensorBoard", "TrackedRun", "Tracker", "WandB"]
