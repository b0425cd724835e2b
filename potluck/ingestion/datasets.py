"""Data that come item by item, or column by column from a file: torch Datasets, Hugging Face's, numpy's memory maps."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from potluck.core.errors import DataError, nearest
from potluck.core.inputs import flat, nested
from potluck.core.randomness import all_seeded, derive, drawing
from potluck.core.samples import RowReader, Samples
from potluck.ingestion.arrays import as_inputs
from potluck.ingestion.hugging_face import HuggingFaceRows, is_hugging_face
from potluck.ingestion.lazy import LazyRows, Preload, Store, chunks, preloads


@dataclass(frozen=True, eq=False)
class Items:
    """What was read of a dataset.

    Args:
        inputs: the inputs.
        y: the raw targets; None where there are none.
        weight: the samples' weights; None where there are none.
    """

    inputs: Samples
    y: Any = None
    weight: Any = None


@dataclass(frozen=True, eq=False)
class ItemColumns:
    """Which part of an item is what.

    Args:
        owner: whose it is.
        target: the name of the target in an item that is a dict; by default an item is a tuple that begins with input
            and target, or an input alone.
        weight: the name of the sample's weight in an item that is a dict; by default there is none.
        inputs_alone: whether an item is nothing but inputs.
    """

    owner: str
    target: str | None = None
    weight: str | None = None
    inputs_alone: bool = False

    def of(self, item: Any, kind: str) -> tuple[Any, Any, Any]:
        """Inputs, target and weight of an item."""
        if self.inputs_alone:
            return _inputs(_one_or_all(item), self.owner), None, None
        alone = isinstance(item, Tensor | np.ndarray) or hasattr(item, "getbands")  # a picture of Pillow's
        if self.target is None and (alone or (isinstance(item, tuple) and len(item) == 1)):
            return _inputs(_one_or_all(item), self.owner), None, None
        if isinstance(item, Mapping):
            return self._of_named(item, kind)
        if self.target is not None:
            raise DataError(f"{self.owner}: {self.target!r} names a target, but items of {kind} are {_text(item)}.")
        if not isinstance(item, tuple | list) or len(item) not in (2, 3):
            raise DataError(
                f"{self.owner}: items of {kind} are {_text(item)}; expected (input, target), or a dict, whose "
                f"target is named: data=(dataset, 'label')."
            )
        return _inputs(item[0], self.owner), item[1], item[2] if len(item) == 3 else None

    def _of_named(self, item: Mapping[str, Any], kind: str) -> tuple[Any, Any, Any]:
        names = [str(name) for name in item]
        if self.target is None:
            raise DataError(
                f"{self.owner}: items of {kind} are dicts of {', '.join(names)}, and nothing says which of these is "
                f"the target; expected it beside the dataset: data=(dataset, {_likely(names)!r}), or (dataset, None) "
                f"where all of them are inputs."
            )
        for name in filter(None, (self.target, self.weight)):
            if name not in item:
                raise DataError(f"{self.owner}: items of {kind} hold no {name!r}.{nearest(name, names)}")
        rest = {name: part for name, part in item.items() if name not in (self.target, self.weight)}
        return (
            _inputs(_one_or_all(rest), self.owner),
            item[self.target],
            None if self.weight is None else item[self.weight],
        )


def is_dataset(data: Any) -> bool:
    """Whether data come item by item."""
    return isinstance(data, Dataset | DataLoader) or is_hugging_face(data)


def as_items(data: Any, parts: ItemColumns, preload: Preload = "auto") -> Items:
    """Inputs, targets and weights of a dataset, and what reads the inputs anew where that makes a difference."""
    owner, kind = parts.owner, type(data).__name__
    _check(data, owner)
    if is_hugging_face(data):
        data = HuggingFaceRows(data)
    if not len(data):
        raise DataError(f"{owner}: the Dataset is empty.")
    first, _ = drawing(lambda: parts.of(data[0], kind)[0])
    held = preloads(preload, len(data) * sum(c.numel() * c.element_size() for c in flat(first).values()), owner)
    columns: list[dict[str, Tensor]] = []
    y: list[Any] = []
    weight: list[Any] = []
    finite = True

    def read_all() -> None:
        nonlocal finite
        for rows in chunks(range(len(data))):
            items = [parts.of(data[row], kind) for row in rows]
            stacked = _stacked([item[0] for item in items], owner)
            finite = finite and all(bool(c.isfinite().all()) for c in stacked.values() if c.is_floating_point())
            if held:
                columns.append(stacked)
            y.extend(item[1] for item in items)
            weight.extend(item[2] for item in items)

    _, drew = drawing(read_all)

    def read(rows: list[int]) -> Any:
        return nested(_stacked([parts.of(data[row], kind)[0] for row in rows], owner, like))["x"]

    def read_seeded(rows: list[int]) -> Any:
        """One reading of each row, the same whenever it is asked for, and with whichever others."""
        found = []
        for row in rows:
            with all_seeded(derive(0, "item", row)):
                found.append(read([row]))
        return nested(_together([flat(one) for one in found]))["x"]

    like = {name: column.dtype for name, column in _stacked([first], owner).items()}
    _check_seeds_decide(read, kind, owner)
    one = read_seeded if drew else read
    reader: RowReader | None = (lambda rows: read(rows.tolist())) if drew else None
    if held:
        if drew:
            columns = [flat(one(rows)) for rows in chunks(range(len(data)))]
        inputs = Samples(_together(columns), reader)
    else:
        inputs = Samples({}, reader, LazyRows(Store(one, len(data), one([0]), finite or None)))
    return Items(inputs, _unless_none(y), _unless_none(weight))


def as_memory_map(x: np.memmap[Any, Any], owner: str, preload: Preload) -> Samples:
    """A numpy memory map: its rows are read from the file when they are needed, where it is large."""
    if x.ndim == 0 or x.dtype.kind not in "fiub" or preloads(preload, x.nbytes, owner):
        return Samples({"x": as_inputs(np.array(x), owner)})
    path = str(x.filename)
    whole = isinstance(x.base, mmap.mmap) and x.filename is not None

    def fetch(rows: list[int]) -> Tensor:
        # Opened each time, so that what was read of the file counts as nobody's memory for longer than it is used.
        opened = np.memmap(path, x.dtype, "r", x.offset, x.shape) if whole else x
        return torch.from_numpy(np.array(opened[rows]))

    return Samples({}, source=LazyRows(Store(fetch, len(x), fetch([0]))))


def _check(data: Any, owner: str) -> None:
    kind = type(data).__name__
    if isinstance(data, DataLoader):
        raise DataError(
            f"{owner}: data is a DataLoader; expected its Dataset, {kind}.dataset. Batches and their order are the "
            f"plan's: Plan(batch_size=…)."
        )
    if isinstance(data, IterableDataset) or (is_hugging_face(data) and data.num_rows is None):
        raise DataError(
            f"{owner}: {kind} can only be read from its beginning to its end; expected a map-style Dataset, with "
            f"__len__ and __getitem__, since each epoch goes through the samples in another order. Write it to a file "
            f"once (numpy.lib.format.open_memmap), or put its items into a list."
        )
    if isinstance(data, Mapping):
        raise DataError(f"{owner}: data holds several datasets: {', '.join(map(str, data))}; expected one of them.")
    if not hasattr(data, "__len__"):
        raise DataError(f"{owner}: {kind} has no length; expected a Dataset with __len__ and __getitem__.")


def _check_seeds_decide(read: Any, kind: str, owner: str) -> None:
    first, again = (flat(drawing(lambda: read([0]))[0]) for _ in range(2))
    if not all(map(torch.equal, first.values(), again.values())):
        raise DataError(
            f"{owner}: reading item 0 of the {kind} twice gave different inputs, and not because of the global "
            f"generators of torch, numpy or Python, which were seeded: so no seed decides what they are. Draw from one "
            f"of these, as torch.rand(...) does, or augment in the plan (`augment`)."
        )


def _one_or_all(inputs: Any) -> Any:
    """The inputs of an item; of a dict or tuple with one of them, that one."""
    if not isinstance(inputs, Mapping | tuple) or len(inputs) != 1:
        return inputs
    return next(iter(inputs.values() if isinstance(inputs, Mapping) else inputs))


def _inputs(x: Any, owner: str) -> Any:
    """The inputs of one item as tensors."""
    if isinstance(x, Mapping):
        return {name: _tensor(part, f"{owner}, input {name!r}") for name, part in x.items()}
    if isinstance(x, tuple):
        return tuple(_tensor(part, owner) for part in x)
    return _tensor(x, owner)


def _tensor(x: Any, owner: str) -> Tensor:
    if isinstance(x, Tensor):
        return x.detach().cpu()
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        raise DataError(
            f"{owner}: an item of the Dataset holds {_text(x)}; expected numbers. Have the Dataset turn it into a "
            f"tensor, such as the ids of tokens; or leave it out, as a Hugging Face dataset's remove_columns does; or "
            f"give an estimator the texts in a list."
        )
    if hasattr(x, "getbands") and array.ndim == 3:  # a picture of Pillow's, whose channels come last
        array = np.moveaxis(array, 2, 0)
    return torch.from_numpy(array.copy())


def _stacked(items: list[Any], owner: str, types: Mapping[str, torch.dtype] | None = None) -> dict[str, Tensor]:
    """The inputs of several items as columns."""
    each = [flat(item) for item in items]
    try:
        found = {name: torch.stack([item[name] for item in each]) for name in each[0]}
    except (RuntimeError, KeyError) as error:
        raise DataError(
            f"{owner}: items of the Dataset differ in shape: {error}. Have it bring all of them to one, as by resizing "
            f"pictures and padding texts."
        ) from error
    return found if types is None else {name: column.to(types[name]) for name, column in found.items()}


def _together(parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _unless_none(values: list[Any]) -> Any:
    if all(value is None for value in values):
        return None
    return [value.cpu().numpy() if isinstance(value, Tensor) else value for value in values]


def _likely(names: list[str]) -> str:
    return next((name for name in ("label", "labels", "target", "y") if name in names), names[-1])


def _text(thing: Any) -> str:
    if isinstance(thing, tuple | list):
        return f"a {type(thing).__name__} of {len(thing)}"
    return f"a {type(thing).__name__}"
