"""A partition: which rows and which label space each participant has."""

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
    """The rows and the label space of each participant.

    Args:
        indices: for each participant the numbers of its rows, sorted; no row belongs to two participants.
        labels: for each participant its label space; empty where the targets are values.
    """

    indices: list[NDArray[Any]]
    labels: list[LabelSpace]

    def __post_init__(self) -> None:
        people, spaces = len(self.indices), len(self.labels)
        if people != spaces or not people:
            raise DataError(
                f"{people} sets of rows and {spaces} label spaces; expected one of each for every participant."
            )
        rows, holders = np.unique(np.concatenate(self.indices), return_counts=True)
        if (holders > 1).any():
            twice = rows[holders > 1][0]
            raise DataError(f"Row {twice} belongs to two participants; expected every row at one participant at most.")


def with_all_labels(shares: Sequence[NDArray[Any]], y: NDArray[Any]) -> Partition:
    """A partition where every label space has all classes, whether or not the participant has rows of each.

    Where the targets are values there are no labels.
    """
    everything = () if y.dtype.kind == "f" else label_space(np.unique(y), "y")
    return Partition([np.sort(share) for share in shares], [everything] * len(shares))


def with_own_labels(shares: Sequence[Sequence[NDArray[Any]]], labels: Sequence[NDArray[Any]]) -> Partition:
    """A partition where each participant has rows of some classes, in pieces, and only these in its label space."""
    whole = [np.sort(np.concatenate(pieces)) for pieces in shares]
    return Partition(whole, [label_space(own, "y") for own in labels])
