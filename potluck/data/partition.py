"""A partition: who holds which rows, and which classes each one tells apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.core.errors import DataError
from potluck.core.labels import LabelSpace, label_space


@dataclass(frozen=True, eq=False)
class Partition:
    """For each participant the rows it holds (sorted; no row is held twice) and its label space."""

    indices: list[NDArray[Any]]
    labels: list[LabelSpace]

    def __post_init__(self) -> None:
        people, spaces = len(self.indices), len(self.labels)
        if people != spaces or not people:
            raise DataError(f"{people} shares and {spaces} label spaces; expected one of each for everyone.")
        rows, holders = np.unique(np.concatenate(self.indices), return_counts=True)
        if (holders > 1).any():
            twice = rows[holders > 1][0]
            raise DataError(f"Row {twice} is held twice; expected every row in one share at most.")


def with_all_labels(shares: Sequence[NDArray[Any]], y: NDArray[Any]) -> Partition:
    """A partition where everyone tells all classes apart, whether or not it holds rows of each."""
    everything = label_space(np.unique(y), "y")
    return Partition([np.sort(share) for share in shares], [everything] * len(shares))


def with_own_labels(shares: Sequence[Sequence[NDArray[Any]]], labels: Sequence[NDArray[Any]]) -> Partition:
    """A partition where everyone holds rows of some classes, in pieces, and tells only these apart."""
    whole = [np.sort(np.concatenate(pieces)) for pieces in shares]
    return Partition(whole, [label_space(own, "y") for own in labels])
