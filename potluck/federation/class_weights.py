"""Class weights: how much each label of a participant's training data counts, as a plan says."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from potluck.core.classification import Classification, LabelTask
from potluck.core.errors import SettingsError, nearest
from potluck.core.labels import UNLABELLED
from potluck.core.plan import ClassWeight
from potluck.core.positions import PerPosition
from potluck.core.samples import Samples
from potluck.core.tasks import Task


def with_class_weights(samples: Samples, task: Task, setting: ClassWeight, owner: str) -> Samples:
    """Training data whose ``weight`` says how much each sample's label counts, beside a weight of its own.

    Of a label at each position it is a weight for each position.
    """
    if setting is None:
        return samples
    if not isinstance(task, Classification | PerPosition):
        raise SettingsError(
            f"{owner}: the plan has class_weight = {setting!r}, but a sample or position of a task of "
            f"{type(task).__name__} has not one class each. Give samples weights: data=(x, y, weight)."
        )
    y = samples.y
    known = y != UNLABELLED
    of_class = balanced(y[known], task.outputs) if setting == "balanced" else _named(setting, task, owner)
    weight = torch.where(known, of_class[y.clamp(min=0)], 1.0)
    if "weight" in samples.columns:
        weight = weight * samples.columns["weight"].reshape(-1, *[1] * (y.ndim - 1))
    return samples.with_targets(weight=weight)


def balanced(y: Tensor, classes: int) -> Tensor:
    """A weight for each class, with which all that occur count the same: n / (k · n_c), as scikit-learn has it."""
    counts = torch.bincount(y, minlength=classes).double()
    return torch.where(counts > 0, len(y) / ((counts > 0).sum() * counts.clamp(min=1)), 1.0)


def _named(weights: str | Mapping[str | int, float], task: LabelTask, owner: str) -> Tensor:
    """The weights of the labels that are named, and 1 for the others."""
    assert not isinstance(weights, str)
    place = {str(label): position for position, label in enumerate(task.labels)}  # in files all keys are text
    found = torch.ones(task.outputs, dtype=torch.float64)
    for label, weight in weights.items():
        if str(label) not in place:
            raise SettingsError(f"{owner}: class_weight names a label {label!r}.{nearest(str(label), place)}")
        found[place[str(label)]] = weight
    return found
