"""What a user gives as data, read: inputs as samples, raw targets, perhaps a weight for each sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from potluck.core.errors import DataError, nearest
from potluck.core.samples import Samples
from potluck.core.tasks import Task
from potluck.ingestion.arrays import as_inputs, as_targets, as_weights
from potluck.ingestion.datasets import ItemColumns, as_items, as_memory_map, is_dataset
from potluck.ingestion.hugging_face import as_frame, is_table, texts_alone
from potluck.ingestion.lazy import Preload
from potluck.ingestion.tables import as_table, is_frame, is_series

DATA_FORMS = (
    "(x, y) or (x, y, weight) of arrays, (frame, 'column') for a DataFrame and its column of labels, or a torch "
    "Dataset of such pairs"
)


@dataclass(frozen=True, eq=False)
class UserData:
    """Data as a user gave them.

    Args:
        inputs: the inputs, and where there are any, sample weights.
        y: the raw targets; None where there are none of their own.
        columns: the names of the targets' columns, where they are in a DataFrame; by default none.
    """

    inputs: Samples
    y: np.ndarray[Any, Any] | None
    columns: tuple[Any, ...] = ()

    def fitted(self, task: Task, owner: str) -> Task:
        """The task with what it left open found in these targets."""
        raw = self.targets(task, owner)
        return (task.of_columns(self.columns, owner) if self.columns else task).fitted(raw, owner)

    def targets(self, task: Task, owner: str) -> np.ndarray[Any, Any] | None:
        """The raw targets: their own, or those that the task finds in the inputs."""
        return task.targets_in(self.inputs.x, owner) if self.y is None else self.y

    def encoded(self, task: Task, owner: str) -> Samples:
        """The inputs with their targets as the task encodes them; unknown ones where there are none."""
        raw = self.targets(task, owner)
        if raw is None:
            return self.inputs.with_targets(y=task.unknown(len(self.inputs)))
        ordered = task.in_order(raw, self.columns, owner) if self.columns else raw
        return self.inputs.with_targets(y=task.encode(ordered, owner))


def read_labelled(data: Any, owner: str, preload: Preload = "auto") -> UserData:
    """Inputs and targets, in any form that ``DATA_FORMS`` names; or inputs alone: an array, dict, or ``(x, None)``."""
    y: Any
    if is_dataset(data):
        items = as_items(data, ItemColumns(owner), preload)
        inputs, y, weight = items.inputs, items.y, items.weight
    elif isinstance(data, tuple | list) and len(data) in (2, 3):
        x, y, weight = (*data, None) if len(data) == 2 else data
        if is_table(x, without=[name for name in (y, weight) if isinstance(name, str)]):
            x, y = _taken(as_frame(x), y, owner)
            x, weight = _taken(x, weight, owner)
            inputs = read_inputs(texts_alone(x), owner)
        elif is_dataset(x) and isinstance(y, str):
            items = as_items(x, ItemColumns(owner, y, weight if isinstance(weight, str) else None), preload)
            inputs, y, weight = items.inputs, items.y, items.weight if isinstance(weight, str) else weight
        else:
            x, y = _taken(x, y, owner)
            x, weight = _taken(x, weight, owner)
            inputs = read_inputs(x, owner, preload)
    elif isinstance(data, np.ndarray | Tensor | Mapping):
        inputs, y, weight = read_inputs(data, owner, preload), None, None
    else:
        raise DataError(f"{owner}: {_not_a_pair(data)}; expected {DATA_FORMS}.")
    if weight is not None:
        inputs = inputs.with_targets(weight=as_weights(weight, len(inputs), owner))
    columns = tuple(y.columns) if is_frame(y) and list(y.columns) != list(range(len(y.columns))) else ()
    return UserData(inputs, None if y is None else as_targets(y, len(inputs), owner), columns)


def read_inputs(x: Any, owner: str, preload: Preload = "auto") -> Samples:
    """Inputs alone."""
    if isinstance(x, Samples):
        return x.inputs()
    if is_table(x):
        x = texts_alone(as_frame(x))
    if is_dataset(x):
        return as_items(x, ItemColumns(owner, inputs_alone=True), preload).inputs
    if isinstance(x, np.memmap):
        return as_memory_map(x, owner, preload)
    table = as_table(x.to_numpy() if is_series(x) else x, owner)
    if table is not None:
        return Samples({}, source=table)
    if isinstance(x, Mapping | tuple):
        return _several(x, owner)
    if hasattr(x, "collect_schema"):
        raise DataError(f"{owner}: inputs are {_kind(x)}, which is not read yet; expected its rows: `x.collect()`.")
    return Samples({"x": as_inputs(x, owner)})


def _several(x: Mapping[Any, Any] | tuple[Any, ...], owner: str) -> Samples:
    """Several inputs, each by its name or in its place."""
    if not x:
        raise DataError(f"{owner}: no inputs; expected at least one.")
    if isinstance(x, Mapping):
        if strange := [name for name in x if not isinstance(name, str) or not name.isidentifier()]:
            raise DataError(f"{owner}: an input is named {strange[0]!r}; expected the name of a keyword argument.")
        return Samples.of({name: as_inputs(part, f"{owner}, input {name!r}") for name, part in x.items()})
    return Samples.of(tuple(as_inputs(part, f"{owner}, input {place}") for place, part in enumerate(x)))


def _taken(x: Any, name: Any, owner: str) -> tuple[Any, Any]:
    """Inputs without a column that was named, and that column, or several; what is no name stays as it is."""
    if _are_columns(name, x):
        return x[[column for column in x.columns if column not in name]], x[name]
    if not isinstance(name, str):
        return x, name
    if is_frame(x) or isinstance(x, Mapping):
        columns = list(x.keys() if isinstance(x, Mapping) else x.columns)
        if name not in columns:
            raise DataError(f"{owner}: there is no column {name!r}.{nearest(name, map(str, columns))}")
        if isinstance(x, Mapping):
            return {column: part for column, part in x.items() if column != name}, x[name]
        return x[[column for column in columns if column != name]], x[name].to_numpy()
    raise DataError(f"{owner}: {name!r} names a column, but the inputs are {_what(x)}; expected a DataFrame.")


def _are_columns(names: Any, x: Any) -> bool:
    """Whether a list names columns of a DataFrame, and does not hold its rows' labels."""
    if not is_frame(x) or not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return False
    return 0 < len(names) == len(set(names)) != len(x) and set(names) <= set(x.columns)


def _not_a_pair(data: Any) -> str:
    if is_frame(data):
        return "data is a DataFrame, and it does not say which of its columns holds the labels"
    return f"data is {_what(data)}"


def _what(thing: Any) -> str:
    if isinstance(thing, tuple | list):
        return f"a {type(thing).__name__} of {len(thing)}"
    return f"an array of shape {tuple(thing.shape)}" if isinstance(thing, np.ndarray | Tensor) else _kind(thing)


def _kind(thing: Any) -> str:
    name = type(thing).__name__
    return f"an {name}" if name[:1] in "AEIOUaeiou" else f"a {name}"
