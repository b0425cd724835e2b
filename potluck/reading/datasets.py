"""Data that come item by item: a torch Dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from potluck.core.errors import DataError
from potluck.core.randomness import drawing
from potluck.core.samples import RowReader, Samples
from potluck.reading.arrays import as_inputs


@dataclass(frozen=True, eq=False)
class Items:
    """The items of a dataset.

    Args:
        inputs: their inputs.
        y: their raw targets.
    """

    inputs: Samples
    y: Any


def is_dataset(data: Any) -> bool:
    """Whether data come item by item."""
    return isinstance(data, torch.utils.data.Dataset)


def as_items(data: Any, owner: str) -> Items:
    """Inputs and targets, and what reads the inputs anew where that makes a difference: where items are augmented."""
    rows, drew = drawing(lambda: [data[index] for index in range(len(data))])
    if not rows:
        raise DataError(f"{owner}: the Dataset is empty.")
    x = torch.stack([torch.as_tensor(row[0]) for row in rows])
    y = [row[1].cpu().numpy() if isinstance(row[1], Tensor) else row[1] for row in rows]
    again, _ = drawing(lambda: torch.as_tensor(data[0][0]))
    if not torch.equal(again, x[0]):
        raise DataError(
            f"{owner}: reading item 0 of the {type(data).__name__} twice gave different inputs, and not because of "
            f"the global generators of torch, numpy or Python, which were seeded: so no seed decides what they "
            f"are. Draw from one of these, as torch.rand(...) does, or augment in the plan (`augment`)."
        )
    return Items(Samples({"x": as_inputs(x, owner)}, _reader(data, x.dtype) if drew else None), y)


def _reader(data: Any, dtype: torch.dtype) -> RowReader:
    return lambda rows: torch.stack([torch.as_tensor(data[index][0]) for index in rows.tolist()]).to(dtype)
