"""Tasks: what is learned. A task knows how targets are encoded, the loss, what an output means, and the metrics."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from potluck.core.errors import DataError, SettingsError
from potluck.core.labels import LabelSpace
from potluck.core.metrics import (
    Array,
    Graded,
    Metrics,
    MetricSetting,
    checked,
    computed,
    less_is_better,
    metric_name,
    of_user,
)
from potluck.core.stable_names import readable_name

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Task(ABC):
    """What is learned. Its settings are plain values, so that tasks can be compared, written down and sent to others.

    What is left open, such as the labels, is found in a participant's data (``fitted``). A task of one's own is a
    frozen dataclass that fills in the abstract methods.

    Args:
        metrics: what is measured, by scikit-learn's names, or functions of (truth, answers); the first is the headline,
            by which runs are compared. By default the task's usual ones.
    """

    KIND: ClassVar[str]
    """Its short form, as in ``Participant(task="regression")``."""
    KNOWN: ClassVar[Mapping[str, Any]] = {}
    """The metrics that there are, by name."""
    USUAL: ClassVar[tuple[str, ...]] = ()
    """The metrics that are measured by default."""

    ESTIMATORS: ClassVar[bool] = False
    """Whether estimators can do it: then it has ``of_estimator``."""

    metrics: tuple[MetricSetting, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "metrics", checked(self.metrics, self.KNOWN) or self.USUAL)
        if not self.metrics:
            raise SettingsError(f"{type(self).__name__} has no metrics; pass `metrics`, or set USUAL and KNOWN.")

    # What is learned.

    @property
    def labels(self) -> LabelSpace:
        """The labels that it tells apart, if it is about labels."""
        return ()

    @property
    @abstractmethod
    def outputs(self) -> int:
        """How many numbers a model puts out for each sample, or position: a builder gets it as ``classes``."""

    @property
    def kind(self) -> Hashable:
        """What is equal for tasks whose answers can be compared."""
        return self.KIND, self.labels, self.outputs

    def __str__(self) -> str:
        return f"labels {list(self.labels)}" if self.labels else f"{self.KIND} of {self.outputs}"

    def fitted(self, raw: Array | None, owner: str) -> Self:
        """The task with what it left open found in a participant's targets."""
        return self

    def common(self, others: Iterable[Task]) -> Task:
        """What the server knows of several participants' tasks: all their labels."""
        return self

    @property
    def encoded(self) -> Task:
        """The same task on encoded targets, as objectives see it: without what tells participants apart."""
        return self

    def unlike(self, other: Task) -> str | None:
        """Why one network's output would mean something else to another participant, if it would."""
        return None

    def described(self) -> dict[str, Any]:
        """Its settings as plain values, the same in every process."""
        return {"task": self.KIND, **{f.name: _plain(getattr(self, f.name)) for f in fields(self)}}

    def shared_settings(self) -> dict[str, Any]:
        """The settings that others receive, and may build the task by: nothing about a participant's own targets."""
        return {}

    # Targets.

    def targets_in(self, inputs: Any, owner: str) -> Array | None:
        """Targets that are in the inputs, where data come without others; None where there are none."""
        return None

    def of_columns(self, columns: Sequence[Any], owner: str) -> Self:
        """The task with what it left open found in the names of the columns in which targets were brought."""
        return self

    def in_order(self, raw: Array, columns: Sequence[Any], owner: str) -> Array:
        """Targets whose columns have names, in the order in which the task knows them."""
        return raw

    @abstractmethod
    def encode(self, raw: Array, owner: str, *, strict: bool = True) -> Tensor:
        """Targets as a tensor, a row for each sample, checked. Unless ``strict``, what does not fit is unknown."""

    def unknown(self, rows: int) -> Tensor:
        """The encoded targets of samples that have none."""
        raise DataError(f"A task of {type(self).__name__} needs targets for all samples.")

    @abstractmethod
    def known(self, y: Tensor) -> Tensor:
        """Of encoded targets, which rows are known."""

    @abstractmethod
    def decode(self, y: Tensor) -> Array:
        """Encoded targets as the user knows them: what an estimator is fitted on."""

    # Models.

    def shapes(self, y: Tensor) -> tuple[Shape, ...]:
        """The shapes that a model's output may have for samples with these targets."""
        return ((len(y), self.outputs),)

    @abstractmethod
    def loss(self, outputs: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of plain training, a mean over samples, weighted where there are weights."""

    @abstractmethod
    def answers(self, outputs: Tensor) -> Tensor:
        """What a model's outputs mean: probabilities, or values in the user's units; a row for each sample."""

    def of_estimator(self, model: Any, rows: Any, owner: str) -> Tensor:
        """A fitted estimator's answers, of a task that ``ESTIMATORS`` can do."""
        raise NotImplementedError(f"{type(self).__name__} has no `of_estimator`.")

    @abstractmethod
    def said(self, answers: Tensor) -> Array:
        """Answers as the user knows them: the most probable labels, or the values."""

    # What is shared. These serve methods in which models learn from each other's answers.

    @property
    def columns(self) -> LabelSpace:
        """What the columns of answers are for: labels, or the numbers of values."""
        return self.labels or tuple(range(self.outputs))

    @property
    def bounds(self) -> dict[str, Any]:
        """What is true of all answers, as a ``TensorSpec`` says it."""
        return {}

    def soft(self, outputs: Tensor, temperature: float = 1.0) -> Tensor:
        """What others receive of a model's outputs: probabilities at a temperature, or values in the user's units."""
        return self.answers(outputs / temperature)

    def outputs_for(self, answers: Tensor) -> Tensor:
        """Outputs that mean these answers, for a model that has none, such as a tree."""
        raise SettingsError(f"Answers to a task of {type(self).__name__} are not turned into outputs.")

    def taught(self, soft: Tensor) -> Tensor:
        """What others sent, as a target of one's own."""
        return soft

    def settled(self, soft: Tensor) -> Tensor:
        """What others sent, as if it were known: the likeliest label, or the value."""
        return self.taught(soft)

    def no_targets(self, rows: int) -> Tensor:
        """The soft targets of samples of which nobody sent anything; they count in no distance."""
        return torch.full((rows, self.outputs), torch.nan)

    def losses(self, outputs: Tensor, y: Tensor) -> Tensor:
        """The loss of each sample; 0 where the target is unknown."""
        raise SettingsError(f"A task of {type(self).__name__} has no loss for each sample.")

    def distances(self, outputs: Tensor, soft: Tensor, temperature: float = 1.0) -> Tensor:
        """How far outputs are from soft targets, for each sample; 0 where there are none."""
        raise SettingsError(f"A task of {type(self).__name__} has no distance to soft targets.")

    # Metrics.

    @property
    def headline(self) -> str:
        """The metric by which runs are compared."""
        return metric_name(self.metrics[0])

    def grade(self, answers: Tensor, y: Tensor) -> float:
        """How good answers are by the headline: more is better, and none are as bad as those of a diverged model."""
        if not bool(torch.isfinite(answers).all()):
            return -math.inf
        found = self.measure(answers, y)[0][self.headline]
        if found is None:
            return -math.inf
        return -found if less_is_better(self.headline) else found

    @property
    def nothing(self) -> Metrics:
        """The metrics where nothing was tested."""
        return dict.fromkeys(self._named)

    @cached_property
    def _named(self) -> dict[str, MetricSetting]:
        return {metric_name(metric): metric for metric in self.metrics}

    @abstractmethod
    def tested(self, answers: Tensor, y: Tensor) -> Graded:
        """Answers beside the truth, as the metrics named in ``KNOWN`` compare them."""

    def measure(self, answers: Tensor, y: Tensor) -> tuple[Metrics, dict[str, str]]:
        """The metrics of answers to samples with these targets; and of those that are empty, why."""
        known = self.known(y)
        if not bool(known.all()):
            answers, y = answers[known], y[known]
        if not len(y):
            return self.nothing, dict.fromkeys(self.nothing, "there are no test samples with a target")
        tested = self.tested(answers, y)
        found, reasons = self._quick(tested), dict[str, str]()
        for name, metric in self._named.items():
            if found.get(name) is None:
                found[name], why = computed(partial(self._computed, metric, tested, answers, y))
                reasons |= {name: why} if why else {}
        return {name: found[name] for name in self._named}, reasons

    def _quick(self, tested: Graded) -> Metrics:
        """Metrics that are found quicker than one by one."""
        return {}

    def _computed(self, metric: MetricSetting, tested: Graded, answers: Tensor, y: Tensor) -> float:
        if isinstance(metric, str):
            return float(self.KNOWN[metric](tested))
        return of_user(metric, self.decode(y), self.said(answers), tested.probabilities)


def weighted_mean(losses: Tensor, weight: Tensor | None) -> Tensor:
    """The mean of a loss for each sample."""
    if weight is None:
        return losses.mean()
    weight = weight.to(losses.dtype)
    return (weight * losses).sum() / weight.sum()


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list | range):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, str | int | float | bool | None) else readable_name(value)
