"""Preprocessing: a participant's own scikit-learn transformer between its data and its model."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from potluck.core.errors import DataError, ModelError, SettingsError
from potluck.core.randomness import all_seeded, derive
from potluck.core.samples import Samples
from potluck.core.tasks import Task
from potluck.ingestion.user_data import read_inputs
from potluck.learners import serialization
from potluck.learners.estimator import seeding, table_rows


class Preprocessing:
    """A copy of a transformer, fitted on a participant's training rows alone, and what it makes of any inputs.

    Args:
        transformer: anything with ``fit`` and ``transform``; it stays as it is.
        owner: whose it is.
    """

    def __init__(self, transformer: Any, owner: str) -> None:
        if not callable(getattr(transformer, "fit", None)) or not callable(getattr(transformer, "transform", None)):
            raise SettingsError(
                f"{owner}: preprocess is {transformer!r}; expected a scikit-learn transformer, an object with fit and "
                f"transform, such as StandardScaler()."
            )
        self.transformer = copy.deepcopy(transformer)
        self._owner, self._types = owner, list[str]()

    def fit(self, samples: Samples, task: Task, seed: int) -> None:
        """Fits it on the training rows."""
        y = task.decode(samples.y) if bool(task.known(samples.y).all()) else None
        with seeding(self.transformer, derive(seed, self._owner, "preprocess") % 2**32):
            try:
                self.transformer.fit(table_rows(samples.x), y)
            except Exception as error:  # whatever a stranger's code cannot do with these rows
                raise ModelError(f"{self._owner}: {self._kind} could not be fitted: {error}") from error

    def __call__(self, samples: Samples) -> Samples:
        """These samples with what the transformer makes of their inputs."""
        return samples.with_inputs(self._transformed(self.transformer, samples))

    def _transformed(self, transformer: Any, samples: Samples) -> Samples:
        try:
            with all_seeded(0):
                found = transformer.transform(table_rows(samples.x))
        except Exception as error:
            raise DataError(f"{self._owner}: {self._kind} cannot transform these inputs: {error}") from error
        inputs = read_inputs(found, f"{self._owner} (preprocess)")
        if len(inputs) != len(samples):
            raise DataError(
                f"{self._owner}: {self._kind} made {len(inputs)} rows of {len(samples)}; expected one of each."
            )
        return inputs

    def state(self) -> Tensor:
        """What a checkpoint stores of it."""
        return serialization.dump_estimator(self.transformer)

    def restore(self, state: Tensor) -> None:
        """Restores what ``state`` returned."""
        self.transformer = serialization.load_estimator(state, self.transformer, self._types)

    def check_keepable(self, samples: Samples) -> None:
        """Raises ModelError unless a checkpoint can store it, and it does the same when read back."""
        few = samples.take(torch.arange(min(5, len(samples))))

        def answer(transformer: Any) -> Any:
            made = self._transformed(transformer, few)
            return [made.source.digest()] if made.source else [c.numpy().tobytes() for c in made.columns.values()]

        self._types = serialization.try_out(self.transformer, lambda fitted: None, answer, self._owner)

    @property
    def _kind(self) -> str:
        return type(self.transformer).__name__
