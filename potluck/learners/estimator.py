"""Estimators: scikit-learn's, or anything else with fit, predict and perhaps predict_proba. Black boxes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import has_fit_parameter
from torch import Tensor

from potluck.core.errors import ModelError
from potluck.core.learner import Learner
from potluck.core.plan import Plan
from potluck.core.randomness import derive
from potluck.core.requests import Fitted, Job
from potluck.core.samples import Samples
from potluck.core.tasks import Task
from potluck.learners import serialization


class Estimator(Learner):
    """Fits its estimator from scratch on rows of numbers and the participant's own targets, as its owner would."""

    def __init__(self, model: Any, task: Task) -> None:
        self.model = model
        self.task = task
        self._types: list[str] = []

    @property
    def takes_weights(self) -> bool:
        return bool(has_fit_parameter(self.model, "sample_weight"))

    def check(self, samples: Samples, task: Task, plan: Plan, owner: str) -> None:
        """An estimator finds its classes when it is fitted: nothing can be wrong before."""

    def fit(self, job: Job, device: torch.device) -> Fitted:
        """The task's loss stands for 'your own way of learning targets': the only objective an estimator has."""
        if not job.fit.plain:
            raise ModelError(f"{job.owner}: {type(self.model).__name__} cannot be trained with gradients.")
        samples = job.samples
        rows = torch.arange(len(samples))
        x = samples.x if samples.reader is None else samples.read(rows, derive(job.seed, "items", 0))
        weights: dict[str, Any] = {}
        if "weight" in samples.columns and self.takes_weights:
            weights = {"sample_weight": samples.columns["weight"].double().numpy()}
        with _seeded(self.model, derive(job.seed, "estimator") % 2**32):
            try:
                self.model.fit(_rows(x), self.task.decode(samples.y), **weights)
            except ValueError as error:
                raise ModelError(f"{job.owner}: {type(self.model).__name__} could not be fitted: {error}") from error
        return Fitted(steps=1, weighted=bool(weights) or "weight" not in samples.columns)

    def state(self) -> dict[str, Any]:
        return {"estimator": serialization.dump_estimator(self.model)}

    def restore(self, state: dict[str, Any]) -> None:
        self.model = serialization.load_estimator(state["estimator"], self.model, self._types)

    def check_keepable(self, samples: Samples, owner: str) -> None:
        few = samples.few_of_each()
        self._types = serialization.try_out(self.model, _rows(few.x), self.task.decode(few.y), owner)

    def read(self, job: Job, device: torch.device) -> Any:
        return job.reading.of_estimator(job, lambda samples: self.answers(samples, job.owner))

    def answers(self, samples: Samples, owner: str = "an estimator") -> Tensor:
        """What the task makes of its predictions."""
        return self.task.of_estimator(self.model, _rows(samples.x), owner)


def _rows(x: Tensor) -> np.ndarray[Any, Any]:
    """Estimators read tables: everything about one sample in one row."""
    rows: np.ndarray[Any, Any] = x.reshape(len(x), -1).numpy()
    return rows


@contextmanager
def _seeded(model: Any, seed: int) -> Iterator[None]:
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
