"""Metrics of a participant's predictions on labelled samples."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor

Metrics = dict[str, float | None]

Scores = dict[str, Metrics]
"""The metrics of each of a party's models whose answers are reported, by its name."""

NOTHING: Metrics = {"accuracy": None, "loss": None, "macro_f1": None, "balanced_accuracy": None}
"""The metrics of a participant without test data."""


def measure(probabilities: Tensor, y: Tensor) -> Metrics:
    """Accuracy, cross-entropy, macro F1 and balanced accuracy.

    F1 is averaged over the labels that occur in the truth or among the predictions, recall over those in the truth.
    The loss is None for a model that predicts labels without probabilities, or that has diverged.
    """
    table, truth = probabilities.double().numpy(), y.numpy()
    answer, labels = table.argmax(axis=1), table.shape[1]
    right = np.bincount(truth[answer == truth], minlength=labels)
    there = np.bincount(truth, minlength=labels)
    met = there + np.bincount(answer, minlength=labels)
    occurs, met_at_all = there > 0, met > 0
    certain = bool(((table == 0) | (table == 1)).all())
    loss = float(-np.log(table[np.arange(len(truth)), truth].clip(min=1e-12)).mean())
    return {
        "accuracy": float(right.sum() / len(truth)),
        "loss": None if certain or not math.isfinite(loss) else loss,
        "macro_f1": float((2 * right[met_at_all] / met[met_at_all]).mean()),
        "balanced_accuracy": float((right[occurs] / there[occurs]).mean()),
    }
