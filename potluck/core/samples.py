"""Samples: rows of data as named columns. What belongs to a sample travels with it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from potluck.core.errors import DataError
from potluck.core.inputs import InputKind, InputKinds, check_finite, flat, is_input, kinds_key, nested
from potluck.core.labels import UNLABELLED
from potluck.core.randomness import all_seeded
from potluck.core.tasks import Task

RowReader = Callable[[Tensor], Any]
"""Reads the inputs of some rows anew."""

_FILL = {"y": UNLABELLED, "weight": 1}


class InputSource(ABC):
    """Inputs that are not held as columns: a table for an estimator, or rows that are read when they are needed."""

    @abstractmethod
    def __len__(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def read(self, rows: Tensor) -> Any:
        """The inputs of some rows."""

    @abstractmethod
    def take(self, rows: Tensor) -> InputSource:
        """Some of the rows, in the order given."""

    @abstractmethod
    def kinds(self) -> InputKinds:
        """What one sample's inputs look like."""

    def types(self) -> Hashable:
        """What must be equal for rows of several sources to be stacked."""
        return kinds_key(self.kinds())

    @abstractmethod
    def digest(self) -> bytes:
        """A checksum of all rows."""

    @abstractmethod
    def then(self, other: Samples) -> InputSource:
        """These rows, and after them others' inputs of the same kind."""

    def for_network(self, owner: str) -> Samples:
        """These inputs as a torch module reads them; DataError where it cannot. By default they are read as tensors."""
        return Samples({}, source=self)


@dataclass(frozen=True, eq=False)
class Samples:
    """Columns of equal length: inputs, mostly ``y`` (targets as the task encodes them), perhaps ``weight`` and targets.

    Inputs are the column ``x``, or several: ``x.ids``, ``x.mask``; or they are in a ``source``. There may be none,
    where an objective finds them by itself.

    Args:
        columns: the columns, by name.
        reader: where each reading of the inputs differs, as of a Dataset that augments its items, what reads them anew
            for training; the columns are one reading of them. By default None.
        source: where the inputs are, if they are no columns; by default None.
    """

    columns: Mapping[str, torch.Tensor]
    reader: RowReader | None = None
    source: InputSource | None = None

    def __post_init__(self) -> None:
        # Of a shape, not by len: while a model is traced for export, a number of rows stands for any.
        lengths = {name: column.shape[0] for name, column in self.columns.items()}
        if self.source is not None:
            lengths["x"] = len(self.source)
        first = next(iter(lengths.values()), 0)
        if any(length != first for length in lengths.values()):
            raise DataError(f"Columns of one sample set must have one length; got {lengths}.")

    @classmethod
    def of(cls, inputs: Any, **targets: Tensor) -> Samples:
        """Samples of inputs as a model is called with them: a tensor, a dict, or a tuple."""
        return cls({**flat(inputs), **targets})

    def __len__(self) -> int:
        if self.source is not None:
            return len(self.source)
        return len(next(iter(self.columns.values()))) if self.columns else 0

    @property
    def x(self) -> Any:
        """All inputs, as a model is called with them: a tensor, a dict or a tuple of tensors, or a table."""
        if "x" in self.columns:
            return self.columns["x"]
        return self.at(torch.arange(len(self)))

    @property
    def y(self) -> torch.Tensor:
        if "y" not in self.columns:
            raise DataError("These samples carry no labels.")
        return self.columns["y"]

    @property
    def labelled(self) -> bool:
        return "y" in self.columns

    @property
    def input_columns(self) -> dict[str, Tensor]:
        """The columns that hold inputs."""
        return {name: column for name, column in self.columns.items() if is_input(name)}

    @property
    def kinds(self) -> InputKinds:
        """What one sample's inputs look like."""
        if self.source is not None:
            return self.source.kinds()
        return {name: InputKind.of(column) for name, column in self.input_columns.items()}

    def at(self, rows: Tensor | slice) -> Any:
        """The inputs of some rows, as they are stored."""
        if "x" in self.columns:
            x = self.columns["x"]
            return x[rows] if isinstance(rows, slice) else x.index_select(0, rows.to(x.device))
        if self.source is not None:
            return self.source.read(torch.arange(len(self))[rows] if isinstance(rows, slice) else rows)
        return nested({name: column[rows] for name, column in self.input_columns.items()})["x"]

    def read(self, rows: torch.Tensor, seed: int) -> Any:
        """The inputs of some rows as training sees them: where each reading differs, those of this seed."""
        if self.reader is None:
            return self.at(rows)
        with all_seeded(seed):
            return self.reader(rows)

    def same_inputs(self, other: Samples) -> bool:
        """Whether the inputs are the very same as those of others, and not only equal."""
        mine, others = self.input_columns, other.input_columns
        return (
            self.source is other.source
            and mine.keys() == others.keys()
            and all(column is others[name] for name, column in mine.items())
        )

    def take(self, rows: torch.Tensor) -> Samples:
        """Some of the rows, in the order given."""
        read, index = self.reader, torch.arange(len(self))[rows]
        reader = None if read is None else lambda rows: read(index[rows])
        source = None if self.source is None else self.source.take(index)
        return Samples({name: column[rows] for name, column in self.columns.items()}, reader, source)

    def few_of_each(self, count: int = 5) -> Samples:
        """A few samples of each label, or of all where there is not one label each: enough to try an estimator out."""
        if self.y.ndim > 1:
            return self.take(torch.arange(min(4 * count, len(self))))
        rows = [(self.y == label).nonzero().squeeze(1)[:count] for label in range(int(self.y.max()) + 1)]
        return self.take(torch.cat(rows))

    def with_targets(self, targets: Mapping[str, torch.Tensor] | None = None, **more: torch.Tensor) -> Samples:
        """These samples with further columns, e.g. what a model should answer on each of them."""
        return Samples({**self.columns, **(targets or {}), **more}, self.reader, self.source)

    def inputs(self) -> Samples:
        """These samples without labels and targets."""
        return Samples(self.input_columns, self.reader, self.source)

    def with_inputs(self, inputs: Samples) -> Samples:
        """These samples with other inputs for each."""
        rest = {name: column for name, column in self.columns.items() if not is_input(name)}
        return Samples({**inputs.input_columns, **rest}, inputs.reader, inputs.source)

    def for_network(self, owner: str) -> Samples:
        """These samples as a torch module reads them: tensors without gaps. DataError where they cannot be that."""
        if self.source is not None:
            inputs = self.source.for_network(owner)
            return self if inputs.source is self.source else self.with_inputs(inputs)
        for name, column in self.input_columns.items():
            check_finite(column, owner if name == "x" else f"{owner}, input {name.removeprefix('x.')!r}")
        return self

    @staticmethod
    def concat(parts: Sequence[Samples]) -> Samples:
        """One set after the other. Where a set lacks a column: no label, weight 1, zeros for any target."""
        shapes = {name: column for part in parts for name, column in part.columns.items()}
        source: InputSource | None = None
        if any(part.source is not None for part in parts):
            source = joined(parts)
            shapes = {name: column for name, column in shapes.items() if not is_input(name)}

        def column(part: Samples, name: str) -> torch.Tensor:
            if name in part.columns:
                mine, first = part.columns[name], parts[0].columns.get(name)
                both = first is not None and is_input(name) and first.is_floating_point() and mine.is_floating_point()
                return mine.to(first.dtype) if both and first is not None else mine
            like = shapes[name]
            fill = math.nan if name == "y" and like.is_floating_point() else _FILL.get(name, 0)
            return torch.full((len(part), *like.shape[1:]), fill, dtype=like.dtype)

        whole = Samples({name: torch.cat([column(part, name) for part in parts]) for name in shapes}, source=source)
        if all(part.reader is None for part in parts):
            return whole
        begins = np.cumsum([0, *(len(part) for part in parts)])

        def reader(rows: torch.Tensor) -> Any:
            inputs = flat(whole.at(rows))
            for part, begin in zip(parts, begins, strict=False):
                inside = (begin <= rows) & (rows < begin + len(part))
                if part.reader is not None and inside.any():
                    for name, column in flat(part.reader(rows[inside] - begin)).items():
                        inputs[name][inside] = column.to(inputs[name].dtype)
            return nested(inputs)["x"]

        return Samples(whole.columns, reader, source)


def joined(parts: Sequence[Samples]) -> InputSource:
    """The inputs of sets of which one at least has a source of them."""
    whole = next(part.source for part in parts if part.source is not None).take(torch.arange(0))
    for part in parts:
        whole = whole.then(part)
    return whole


class SharedData:
    """Data that all participants may see, perhaps with targets. Who has the same task shares one copy.

    Args:
        inputs: the inputs, or samples of which only the inputs count.
        y: their labels, if there are any.
        owner: what an error calls them.
        columns: the names of the targets' columns, where they have some.
    """

    def __init__(
        self,
        inputs: Samples | Tensor,
        y: np.ndarray[Any, Any] | None = None,
        owner: str = "public data",
        columns: tuple[Any, ...] = (),
    ) -> None:
        self.inputs = inputs.inputs() if isinstance(inputs, Samples) else Samples({"x": inputs})
        self.y, self.columns, self._owner = y, columns, owner
        self._whole: dict[Task, Samples] = {}
        self._known: dict[Task, Samples | None] = {}

    @property
    def x(self) -> Any:
        """The inputs as they were given."""
        return self.inputs.x

    @cached_property
    def _for_networks(self) -> SharedData:
        """The same data as networks read them."""
        inputs = self.inputs.for_network(self._owner)
        return self if inputs is self.inputs else SharedData(inputs, self.y, self._owner, self.columns)

    def read_by(self, network: bool) -> SharedData:
        """The data as a learner reads them: a network tensors, an estimator what was given."""
        return self._for_networks if network else self

    def for_server(self) -> SharedData:
        """The data as the server's networks read them, or as they were given where no network can."""
        try:
            return self._for_networks
        except DataError:
            return self

    def whole(self, task: Task) -> Samples:
        """All samples; of targets that do not fit the task, such as labels it does not know, none is known."""
        if task not in self._whole:
            raw = task.targets_in(self.x, self._owner) if self.y is None else self.y
            if raw is not None and self.columns:
                raw = task.in_order(raw, self.columns, self._owner)
            known = {} if raw is None else {"y": task.encode(raw, self._owner, strict=False)}
            self._whole[task] = self.inputs.with_targets(known)
        return self._whole[task]

    def known(self, task: Task) -> Samples | None:
        """The samples whose target is known to the task; None if there are none."""
        if task not in self._known:
            whole = self.whole(task)
            if not whole.labelled:
                raise DataError(f"{self._owner}: there are no targets beside the inputs; expected (x, y).")
            rows = task.known(whole.y).nonzero().squeeze(1)
            some = whole if len(rows) == len(whole) else whole.take(rows)
            self._known[task] = some if len(some) else None
        return self._known[task]
