"""Trackers by name."""

from __future__ import annotations

from potluck.runs.trackers import TRACKERS, Tracker


def test_each_is_made_without_settings():
    assert list(TRACKERS) == ["csv", "jsonl", "tensorboard", "mlflow", "wandb"]
    assert all(isinstance(TRACKERS[name](), Tracker) for name in TRACKERS)
