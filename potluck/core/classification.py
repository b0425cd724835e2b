"""Tasks about labels: one for each sample, or any number of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.core.errors import DataError, ModelError, SettingsError
from potluck.core.labels import (
    UNLABELLED,
    Label,
    decode,
    encode,
    label_space,
    no_labels,
    plain_label,
    plain_labels,
    union,
)
from potluck.core.metrics import OF_LABELS, Array, Graded, Metrics, quick
from potluck.core.tasks import Task, weighted_mean

QUICK = ("accuracy", "loss", "macro_f1", "balanced_accuracy")
"""What is measured of labels by default."""

LEAST = 1e-6
"""The least probability that an answer counts as, so that it has a logarithm."""


@dataclass(frozen=True)
class LabelTask(Task):
    """What tasks about labels have in common.

    Args:
        labels: the labels, strings or integers; by default (), for those in the participant's data.
        metrics: as in ``Task``.
    """

    KNOWN = OF_LABELS

    labels: Any = ()  # any list of labels; a LabelSpace from then on

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.labels, str) or not isinstance(self.labels, Iterable):
            raise SettingsError(f"labels is {self.labels!r}; expected a list of strings or integers.")
        object.__setattr__(self, "labels", label_space(self.labels, type(self).__name__))

    @property
    def outputs(self) -> int:
        return len(self.labels)

    def common(self, others: Iterable[Task]) -> Task:
        """The labels of all."""
        return replace(self, labels=union([self.labels, *(other.labels for other in others)]))

    @property
    def encoded(self) -> Task:
        return _of_positions(type(self), self.outputs)

    def shared_settings(self) -> dict[str, Any]:
        return {"labels": list(self.labels)}


@lru_cache(maxsize=1024)
def _of_positions(kind: type[LabelTask], outputs: int) -> Task:
    return kind(tuple(range(outputs)))


@dataclass(frozen=True)
class Classification(LabelTask):
    """Each sample has one label. A model puts out a number for each: the logits of their probabilities.

    Args:
        labels: as in ``LabelTask``.
        metrics: as in ``Task``; by default accuracy, the cross-entropy (``loss``), macro F1 and balanced accuracy.
    """

    KIND: ClassVar[str] = "classification"
    ESTIMATORS: ClassVar[bool] = True
    USUAL: ClassVar[tuple[str, ...]] = QUICK

    def fitted(self, raw: Array | None, owner: str) -> Classification:
        if self.labels:
            return self
        if raw is None:
            raise no_labels(owner)
        _check_one_each(raw, owner)
        found = label_space(np.unique(plain_labels(raw, owner)), owner)
        return replace(self, labels=found)

    def encode(self, raw: Array, owner: str, *, strict: bool = True) -> Tensor:
        _check_one_each(raw, owner)
        return encode(raw, self.labels, owner, strict=strict)

    def unknown(self, rows: int) -> Tensor:
        return torch.full((rows,), UNLABELLED)

    def known(self, y: Tensor) -> Tensor:
        return y != UNLABELLED

    def decode(self, y: Tensor) -> Array:
        return decode(y, self.labels)

    def loss(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Cross-entropy."""
        return weighted_mean(F.cross_entropy(outputs, y, reduction="none"), weight)

    def answers(self, outputs: Tensor) -> Tensor:
        return outputs.softmax(dim=-1)

    @property
    def bounds(self) -> dict[str, Any]:
        return {"low": 0, "high": 1, "row_sum": 1}

    def settled(self, soft: Tensor) -> Tensor:
        return soft.argmax(dim=1)

    def outputs_for(self, answers: Tensor) -> Tensor:
        """The logarithms of probabilities."""
        return answers.clamp(min=LEAST).log()

    def no_targets(self, rows: int) -> Tensor:
        return torch.zeros(rows, self.outputs)

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        known: Tensor = y != UNLABELLED
        return F.cross_entropy(outputs, y.clamp(min=0), reduction="none") * known

    def distances(self, outputs: Tensor, soft: Tensor, temperature: float = 1.0) -> Tensor:
        """Cross-entropy to soft labels; 0 where they are all 0."""
        return -(soft * torch.log_softmax(outputs / temperature, dim=-1)).sum(dim=-1)

    def of_estimator(self, model: Any, rows: Any, owner: str) -> Tensor:
        """Probabilities over the labels; all on one label where the estimator names only that."""
        position = {label: index for index, label in enumerate(self.labels)}

        def place(label: Any) -> int:
            known = plain_label(label, owner)
            if known not in position:
                raise ModelError(f"{owner}: {type(model).__name__} answers {known!r}; expected one of its labels")
            return position[known]

        if hasattr(model, "predict_proba"):
            columns = [place(label) for label in getattr(model, "classes_", self.labels)]
            found = torch.from_numpy(np.asarray(model.predict_proba(rows))).float()
            if len(columns) > 1 and (found.ndim != 2 or found.shape[1] != len(columns)):
                raise ModelError(
                    f"{owner}: {type(model).__name__} puts out probabilities of shape {tuple(found.shape)}; expected "
                    f"{len(columns)} for each sample, one for each of its classes."
                )
            result = torch.zeros(len(found), len(self.labels))
            result[:, columns] = torch.ones(len(found), 1) if len(columns) == 1 else found  # of one, some tell two
            return result
        said = [place(label) for label in model.predict(rows)]
        return F.one_hot(torch.tensor(said), len(self.labels)).float()

    def said(self, answers: Tensor) -> Array:
        return decode(answers.argmax(dim=1), self.labels)

    def tested(self, answers: Tensor, y: Tensor) -> Graded:
        table = answers.double().numpy()
        certain = bool(((table == 0) | (table == 1)).all())
        return Graded(y.numpy(), table.argmax(axis=1), None if certain else table)

    def _quick(self, tested: Graded) -> Metrics:
        return quick(tested) if any(metric in QUICK for metric in self.metrics) else {}


@dataclass(frozen=True)
class MultiLabel(LabelTask):
    """Each sample has any number of labels. A model puts out a logit for each of them.

    Targets are a table of 0 and 1 with a column for each label, or for each sample a list or set of its labels. Of a
    DataFrame the labels are the names of its columns, of a table without names they are 0, 1, ….

    Args:
        labels: as in ``LabelTask``. They are sorted, and a table's columns are in that order.
        metrics: as in ``Task``; by default average precision, macro F1 and the share of samples that are right in all
            labels (``accuracy``).
    """

    KIND: ClassVar[str] = "multilabel"
    ESTIMATORS: ClassVar[bool] = True
    USUAL: ClassVar[tuple[str, ...]] = ("average_precision", "f1_macro", "accuracy")

    def fitted(self, raw: Array | None, owner: str) -> MultiLabel:
        if self.labels:
            return self
        if raw is None:
            raise no_labels(owner)
        found: Iterable[Label] = range(raw.shape[1]) if raw.ndim == 2 else {v for row in raw for v in _set(row, owner)}
        return replace(self, labels=tuple(found))

    def of_columns(self, columns: Sequence[Any], owner: str) -> MultiLabel:
        return self if self.labels else replace(self, labels=tuple(plain_label(name, owner) for name in columns))

    def in_order(self, raw: Array, columns: Sequence[Any], owner: str) -> Array:
        """A table's columns in the order of the labels. A table must have them all, and no others."""
        places = {plain_label(name, owner): place for place, name in enumerate(columns)}
        if set(places) != set(self.labels):
            raise DataError(
                f"{owner}: targets have the columns {list(places)}; expected one for each label: {list(self.labels)}."
            )
        return raw[:, [places[label] for label in self.labels]]

    def encode(self, raw: Array, owner: str, *, strict: bool = True) -> Tensor:
        if raw.ndim == 2:
            if raw.shape[1] != self.outputs or not np.isin(raw, (0, 1)).all():
                raise DataError(
                    f"{owner}: labels of shape {raw.shape}; expected a table of 0 and 1 with {self.outputs} columns, "
                    f"one for each label, or a list of labels for each sample."
                )
            return torch.from_numpy(np.asarray(raw, dtype=np.int8))
        if raw.ndim != 1:
            raise DataError(f"{owner}: labels of shape {raw.shape}; expected a table of 0 and 1, or lists of labels.")
        place = {label: index for index, label in enumerate(self.labels)}
        table = torch.zeros(len(raw), self.outputs, dtype=torch.int8)
        for row, labels in zip(table, raw, strict=True):
            for label in _set(labels, owner):
                if label in place:
                    row[place[label]] = 1
                elif strict:
                    raise DataError(
                        f"{owner}: the data holds label {label!r}, which is not in its label space "
                        f"{list(self.labels)}. Remove it, or add it to `labels`."
                    )
        return table

    def unknown(self, rows: int) -> Tensor:
        return torch.full((rows, self.outputs), UNLABELLED, dtype=torch.int8)

    def known(self, y: Tensor) -> Tensor:
        return (y != UNLABELLED).all(dim=1)

    def decode(self, y: Tensor) -> Array:
        """A table of 0 and 1."""
        if bool((y == UNLABELLED).any()):
            raise DataError("Some samples have no labels; expected 0 or 1 of each label.")
        return y.numpy().astype(int)

    def loss(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Binary cross-entropy, the mean over labels."""
        losses = F.binary_cross_entropy_with_logits(outputs, y.to(outputs.dtype), reduction="none")
        return weighted_mean(losses.mean(dim=-1), weight)

    def answers(self, outputs: Tensor) -> Tensor:
        return outputs.sigmoid()

    @property
    def bounds(self) -> dict[str, Any]:
        return {"low": 0, "high": 1}

    def settled(self, soft: Tensor) -> Tensor:
        return (soft > 0.5).to(torch.int8)

    def outputs_for(self, answers: Tensor) -> Tensor:
        """The logarithms of the odds."""
        return answers.clamp(LEAST, 1 - LEAST).logit()

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        return self.distances(outputs, torch.where(y == UNLABELLED, torch.nan, y.to(outputs.dtype)))

    def distances(self, outputs: Tensor, soft: Tensor, temperature: float = 1.0) -> Tensor:
        """Binary cross-entropy, the mean over labels."""
        known, target = ~soft.isnan(), soft.nan_to_num().to(outputs.dtype)
        each = F.binary_cross_entropy_with_logits(outputs / temperature, target, reduction="none")
        return (each * known).mean(dim=-1)

    def of_estimator(self, model: Any, rows: Any, owner: str) -> Tensor:
        """Probabilities of each label, as scikit-learn's estimators tell them: a table, or a table for each label."""
        if not hasattr(model, "predict_proba"):
            return torch.from_numpy(np.asarray(model.predict(rows))).float().reshape(len(rows), self.outputs)
        tables = model.predict_proba(rows)
        if isinstance(tables, list):  # for each label a column for each class, of which there may be one
            kinds = getattr(model, "classes_", None) or [np.array([0, 1])] * len(tables)
            tables = np.stack([_share_of_yes(table, of) for table, of in zip(tables, kinds, strict=True)], axis=1)
        return torch.from_numpy(np.asarray(tables)).float().reshape(len(rows), self.outputs)

    def said(self, answers: Tensor) -> Array:
        """A table of 0 and 1: which labels are more probable than not."""
        return (answers > 0.5).numpy().astype(int)

    def tested(self, answers: Tensor, y: Tensor) -> Graded:
        table = answers.double().numpy()
        certain = bool(((table == 0) | (table == 1)).all())
        return Graded(y.numpy().astype(int), self.said(answers), None if certain else table)


def _check_one_each(raw: Array, owner: str) -> None:
    if raw.ndim != 1:
        raise DataError(
            f"{owner}: {len(raw)} inputs but labels of shape {raw.shape}; expected one label for each. For several "
            f"labels, or one at each position, say so: task=MultiLabel(), task=PerPosition()."
        )


def _set(labels: Any, owner: str) -> set[Label]:
    """The labels of one sample."""
    if isinstance(labels, str) or not isinstance(labels, Collection):
        raise DataError(f"{owner}: {labels!r} is one label; expected a list or set of labels for each sample.")
    return {plain_label(label, owner) for label in labels}


def _share_of_yes(table: Array, kinds: Array) -> Array:
    """Of a label's classes 0 and 1 the probability of 1; 0 where it never occurred in training."""
    yes = [column for column, kind in enumerate(kinds) if kind == 1]
    return table[:, yes[0]] if yes else np.zeros(len(table))
