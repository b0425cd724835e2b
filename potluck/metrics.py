"""What a participant's predictions are worth on labelled samples."""

from __future__ import annotations

import math
import warnings

import torch
from sklearn.metrics import balanced_accuracy_score, f1_score
from torch import Tensor

Metrics = dict[str, float | None]

NOTHING: Metrics = {"accuracy": None, "loss": None, "macro_f1": None, "balanced_accuracy": None}
"""The metrics of a participant without test data."""


def measure(probabilities: Tensor, y: Tensor) -> Metrics:
    """Accuracy, cross-entropy, macro F1 and balanced accuracy.

    The loss of a model that names labels without probabilities, or that has diverged, says nothing: it is None.
    """
    said = probabilities.argmax(dim=1)
    truth, answer = y.numpy(), said.numpy()
    chosen = probabilities.gather(1, y.unsqueeze(1)).squeeze(1).double()
    certain = bool(((probabilities == 0) | (probabilities == 1)).all())
    loss = float(-torch.log(chosen.clamp(min=1e-12)).mean())
    return {
        "accuracy": float((said == y).double().mean()),
        "loss": None if certain or not math.isfinite(loss) else loss,
        "macro_f1": float(f1_score(truth, answer, average="macro", zero_division=0)),
        "balanced_accuracy": _balanced(truth, answer),
    }


def _balanced(truth: object, answer: object) -> float:
    with warnings.catch_warnings():  # answers outside the labels that occur are wrong, not worth a warning
        warnings.simplefilter("ignore", UserWarning)
        return float(balanced_accuracy_score(truth, answer))
