"""Estimators: scikit-learn's, or anything else with fit, predict and perhaps predict_proba. Black boxes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import has_fit_parameter
from torch import Tensor

from potluck.core.classification import Classification
from potluck.core.errors import ModelError, PotluckError
from potluck.core.job import Job
from potluck.core.learner import Learner
from potluck.core.plan import Plan
from potluck.core.randomness import derive
from potluck.core.requests import Fitted
from potluck.core.samples import Samples
from potluck.core.tasks import Task
from potluck.learners import serialization


class Estimator(Learner):
    """Fits its estimator from scratch on the participant's own rows and targets, as its owner would.

    One that wants labels 0…k−1, as XGBoost does, is fitted on the numbers of those labels that occur.

    Args:
        model: an object with ``fit`` and ``predict``.
        task: what is learned.
        occurring: of one that is fitted already, which labels were in the rows it was fitted on, as positions.
        numbered: whether it knows them as 0…k−1, and not by their names; by default False.
    """

    def __init__(self, model: Any, task: Task, occurring: Sequence[int] = (), numbered: bool = False) -> None:
        self.model = model
        self.task = task
        self.occurring = list(occurring)
        self.numbered = numbered
        self._types: list[str] = []
        self._changed: dict[str, tuple[Any, Any]] = {}
        """Settings that its last ``fit`` changed, as XGBoost does with its objective: before and after."""

    @property
    def takes_weights(self) -> bool:
        return _weight_parameter(self.model) is not None

    def check(self, samples: Samples, task: Task, plan: Plan, owner: str) -> None:
        """An estimator finds its classes when it is fitted: before, only its task can be wrong."""
        if not task.ESTIMATORS:
            raise ModelError(
                f"{owner}: {type(self.model).__name__} cannot do a task of {type(task).__name__}; bring a torch module."
            )

    def fit(self, job: Job, device: torch.device) -> Fitted:
        """The task's loss stands for 'your own way of learning targets': the only objective an estimator has."""
        if not job.fit.plain:
            raise ModelError(f"{job.owner}: {type(self.model).__name__} cannot be trained with gradients.")
        samples = job.samples
        rows = torch.arange(len(samples))
        x = samples.x if samples.reader is None else samples.read(rows, derive(job.seed, "items", 0))
        weights: dict[str, Any] = {}
        if "weight" in samples.columns and (name := _weight_parameter(self.model)):
            weights = {name: samples.columns["weight"].double().numpy()}
        for name, (before, after) in self._changed.items():
            if _settings(self.model).get(name) == after:  # else its owner has chosen another one since
                self.model.set_params(**{name: before})
        settings = _settings(self.model)
        with seeding(self.model, derive(job.seed, "estimator") % 2**32):
            try:
                self._fit(self.model, x, samples.y, **weights)
            except Exception as error:  # whatever a stranger's code cannot do with these rows
                raise ModelError(f"{job.owner}: {type(self.model).__name__} could not be fitted: {error}") from error
        left = _settings(self.model)
        self._changed = {name: (was, left[name]) for name, was in settings.items() if left.get(name, was) != was}
        return Fitted(steps=1, weighted=bool(weights) or "weight" not in samples.columns)

    def _fit(self, model: Any, x: Any, y: Tensor, **weights: Any) -> None:
        """Fits a model to targets as its owner knows them; or, where it refuses labels, to their numbers."""
        rows = table_rows(x)
        if not isinstance(self.task, Classification):
            model.fit(rows, self.task.decode(y), **weights)
            return
        occurring, numbers = (found.numpy() for found in torch.unique(y, return_inverse=True))
        self.occurring = occurring.tolist()
        if not self.numbered:
            named = self.task.decode(y)
            try:
                model.fit(rows, named, **weights)
            except (ValueError, TypeError) as refused:
                if np.array_equal(named, numbers):
                    raise
                try:
                    model.fit(rows, numbers, **weights)
                except Exception:
                    raise refused from None  # the reason is another one
                self.numbered = True
            return
        model.fit(rows, numbers, **weights)

    def state(self) -> dict[str, Any]:
        stored = serialization.dump_estimator(self.model)
        changed = {name: list(both) for name, both in self._changed.items()}
        return {"estimator": stored, "occurring": self.occurring, "numbered": self.numbered, "changed": changed}

    def restore(self, state: dict[str, Any]) -> None:
        self.model = serialization.load_estimator(state["estimator"], self.model, self._types)
        self.occurring, self.numbered = list(state["occurring"]), state["numbered"]
        self._changed = {name: (before, after) for name, (before, after) in state["changed"].items()}

    def check_keepable(self, samples: Samples, owner: str) -> None:
        few, twin = samples.few_of_each(), Estimator(self.model, self.task)

        def fit(model: Any) -> None:
            twin._fit(model, few.x, few.y)

        def answer(model: Any) -> Any:
            return np.asarray(model.predict(table_rows(few.x))).tolist()

        self._types = serialization.try_out(self.model, fit, answer, owner)

    def read(self, job: Job, device: torch.device) -> Any:
        return job.reading.of_estimator(job, lambda samples: self.answers(samples, job.owner))

    def answers(self, samples: Samples, owner: str = "an estimator") -> Tensor:
        """What the task makes of its predictions."""
        what, count = f"{owner}: {type(self.model).__name__}", len(samples)
        try:
            found = self._answers(table_rows(samples.x), count, owner)
        except PotluckError:
            raise
        except Exception as error:  # whatever a stranger's code cannot do with these rows
            raise ModelError(f"{what} could not answer: {error}") from error
        if len(found) != count:
            raise ModelError(f"{what} answers {len(found)} of {count} samples; expected all of them.")
        return found

    def _answers(self, rows: Any, count: int, owner: str) -> Tensor:
        if not self.numbered:
            return self.task.of_estimator(self.model, rows, owner)
        numbers = Classification(tuple(range(len(self.occurring))))
        found = torch.zeros(count, self.task.outputs)
        found[:, self.occurring] = numbers.of_estimator(self.model, rows, owner)
        return found


def _settings(model: Any) -> dict[str, Any]:
    """Those settings of an estimator, and of those within it, that are plain values."""
    found = model.get_params() if hasattr(model, "get_params") else {}
    return {name: value for name, value in found.items() if isinstance(value, str | int | float | None)}


def table_rows(x: Any) -> Any:
    """Inputs as estimators read them: everything about one sample in one row; a table as it is."""
    if isinstance(x, Tensor):
        return x.reshape(len(x), -1).numpy()
    if isinstance(x, Mapping | tuple):
        what = sorted(x) if isinstance(x, Mapping) else len(x)
        raise ModelError(
            f"an estimator reads one table, and there are several inputs: {what}. Put them into one array or DataFrame."
        )
    return x


def _weight_parameter(model: Any) -> str | None:
    """Under which name an estimator's ``fit`` takes sample weights; of a pipeline, its last step's."""
    if steps := getattr(model, "steps", None):
        name, last = steps[-1]
        inner = _weight_parameter(last)
        return None if inner is None else f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(model, "sample_weight") else None


@contextmanager
def seeding(model: Any, seed: int) -> Iterator[None]:
    """Gives an estimator without a fixed random_state one derived from the federation's seed, for one fit."""
    settings = model.get_params() if hasattr(model, "get_params") else {}
    free = [name for name, value in settings.items() if name.endswith("random_state") and value is None]
    if free:
        model.set_params(**dict.fromkeys(free, seed))
    try:
        yield
    finally:
        if free:
            model.set_params(**dict.fromkeys(free))
