"""An exported model in use: it reads inputs in any form that participants bring, and answers in labels or values."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from potluck.core.errors import DataError, ModelError, nearest
from potluck.core.inputs import call_with, flat, nested, numbers_of
from potluck.core.labels import LabelSpace
from potluck.core.samples import Samples
from potluck.export.estimator_file import NAMES, class_of, read_estimator, read_skops
from potluck.export.facts import ModelFacts
from potluck.export.program_file import read_program
from potluck.export.save import PREPROCESS, PROGRAM
from potluck.federation.model_inputs import ModelInputs
from potluck.ingestion.tables import is_frame
from potluck.ingestion.user_data import read_inputs
from potluck.learners.estimator import Estimator

ROWS = 1024
"""How many inputs a program answers at once."""


def load(path: str | os.PathLike[str], trusted: Collection[str] = ()) -> ExportedModel:
    """A model that ``participant.save`` or ``potluck export`` wrote. Nothing in its files is run but the model itself.

    Args:
        path: the folder.
        trusted: the types beside those that skops knows as harmless that an estimator may consist of; by default none.
    """
    folder = Path(path)
    facts = ModelFacts.read(folder)
    if facts.kind == "torch":
        return ExportedModel(facts, read_program(folder / PROGRAM), _preprocess(facts, folder, trusted))
    model = read_estimator(facts.kind, facts.model, folder / NAMES[facts.kind], trusted)
    if class_of(model) != facts.model:
        raise DataError(f"{folder / NAMES[facts.kind]} holds a {class_of(model)}; expected a {facts.model}.")
    return ExportedModel(facts, model, _preprocess(facts, folder, trusted))


def _preprocess(facts: ModelFacts, folder: Path, trusted: Collection[str]) -> Any:
    return None if facts.preprocess is None else read_skops(folder / PREPROCESS, trusted)


class ExportedModel:
    """A model that left a federation.

    Args:
        facts: what it says of itself.
        model: the torch program, or the fitted estimator.
        preprocess: the fitted transformer between inputs and model; None for none.
    """

    def __init__(self, facts: ModelFacts, model: Any, preprocess: Any) -> None:
        self.facts = facts
        self.model = model
        self.task = facts.build_task()
        self._inputs = ModelInputs(facts.participant, preprocess)
        self._inputs.network = facts.kind == "torch"

    def __repr__(self) -> str:
        return f"ExportedModel({self.facts.participant!r}, {self.facts.model}, {self.task})"

    @property
    def labels(self) -> LabelSpace:
        """What the columns of its probabilities are for; empty for values."""
        return self.facts.labels

    @property
    def names(self) -> LabelSpace:
        """What the columns of its answers are for: labels, or the numbers of values."""
        return self.task.columns

    def predict_proba(self, x: Any) -> np.ndarray[Any, Any]:
        """What it answers, a row for each input: probabilities over ``labels``, or values."""
        samples = self._inputs.read(read_inputs(self._in_columns(x), self.facts.participant))
        answers = self._of_program(samples) if self.facts.kind == "torch" else self._of_estimator(samples)
        found: np.ndarray[Any, Any] = answers.float().numpy()
        return found

    def predict(self, x: Any) -> np.ndarray[Any, Any]:
        """What it answers, as its owner knew targets: the most probable labels, or the values."""
        return self.said(self.predict_proba(x))

    def said(self, answers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """What ``predict_proba`` returned, as its owner knew targets."""
        return self.task.said(torch.from_numpy(answers))

    def _of_estimator(self, samples: Samples) -> Tensor:
        facts = self.facts
        return Estimator(self.model, self.task, facts.occurring, facts.numbered).answers(samples, facts.participant)

    def _of_program(self, samples: Samples) -> Tensor:
        columns = {name: self._as_taken(name, column) for name, column in self._columns_of(samples).items()}
        found = []
        with torch.no_grad():
            for start in range(0, len(samples), ROWS):
                x = nested({name: column[start : start + ROWS] for name, column in columns.items()})["x"]
                args, kwargs = call_with(x)
                found.append(self.model(*args, **kwargs))
        return torch.cat(found)

    def _columns_of(self, samples: Samples) -> dict[str, Tensor]:
        """The columns that hold inputs, if they are those that the program takes."""
        columns = flat(samples.x)
        names = {name.removeprefix("x.") for name in columns}
        if names != set(self.facts.inputs):
            raise DataError(f"{self._who}: inputs are {sorted(names)}; expected {sorted(self.facts.inputs)}.")
        return columns

    def _as_taken(self, name: str, column: Tensor) -> Tensor:
        """A column of the shape and type that the program takes. Bytes and floats mean different things."""
        about = self.facts.inputs[name.removeprefix("x.")]
        dtype: torch.dtype = getattr(torch, about.dtype)
        kinds = numbers_of(column.dtype), numbers_of(dtype)
        if tuple(column.shape[1:]) != about.shape or (kinds[0] != kinds[1] and kinds != ("integers", "floats")):
            raise DataError(
                f"{self._who}: each input has the shape {tuple(column.shape[1:])} in {kinds[0]}; expected "
                f"{about.shape} in {kinds[1]}."
            )
        return column.to(dtype)

    def _in_columns(self, x: Any) -> Any:
        """Of a table with names, the columns that it was trained on, in their order and of their kind."""
        wanted = self.facts.columns
        if wanted is None or not is_frame(x):
            return x
        there = [str(name) for name in x.columns]
        for column in wanted:
            if column.name not in there:
                raise DataError(f"{self._who}: the table has no column {column.name!r}.{nearest(column.name, there)}")
        found = x[[column.name for column in wanted]]
        for column in wanted:
            if column.categories is not None:
                found = _categorical(found, column.name, column.categories)
        return found

    @property
    def _who(self) -> str:
        return f"{self.facts.participant}'s model"


def _categorical(frame: Any, name: str, categories: tuple[Any, ...]) -> Any:
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise ModelError(f"The column {name!r} is a category of pandas'; expected a pandas DataFrame.")
    return frame.assign(**{name: pd.Categorical(frame[name], categories=list(categories))})
