"""Label spaces: the classes a participant tells apart, in the participant's own words (strings or integers)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from potluck.errors import DataError

Label = str | int
LabelSpace = tuple[Label, ...]

UNLABELLED = -1
"""Stands for 'no label' wherever labels are positions in a label space."""


def label_space(values: Iterable[Any], owner: str) -> LabelSpace:
    """The distinct labels among ``values``, sorted: integers first, then strings."""
    labels = {_plain(value, owner) for value in values}
    return tuple(sorted(labels, key=lambda label: (isinstance(label, str), label)))


def encode(y: np.ndarray[Any, Any], labels: LabelSpace, owner: str, *, strict: bool = True) -> torch.Tensor:
    """Turns labels into positions in ``labels``. Others are an error, or UNLABELLED if not ``strict``."""
    distinct, inverse = np.unique(y, return_inverse=True)
    position = {label: index for index, label in enumerate(labels)}
    codes = [position.get(_plain(value, owner), UNLABELLED) for value in distinct]
    if strict and UNLABELLED in codes:
        stray = distinct[codes.index(UNLABELLED)]
        raise DataError(
            f"{owner}: the data holds label {_plain(stray, owner)!r}, which is not in its label space "
            f"{list(labels)}. Remove those samples, or add the label to `labels`."
        )
    return torch.tensor(codes, dtype=torch.int64)[torch.from_numpy(inverse.reshape(-1))]


def decode(codes: torch.Tensor, labels: LabelSpace) -> np.ndarray[Any, Any]:
    """Turns positions back into labels."""
    known: np.ndarray[Any, Any] = np.asarray(labels)
    return np.asarray(known[codes.cpu().numpy()])


def union(spaces: Iterable[LabelSpace]) -> LabelSpace:
    """All labels of all participants, sorted (CoFED eq. 15)."""
    return label_space((label for space in spaces for label in space), "the federation")


def _plain(value: Any, owner: str) -> Label:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool):
        value = int(value)
    if not isinstance(value, str | int):
        raise DataError(f"{owner}: label {value!r} is a {type(value).__name__}; expected strings or integers.")
    return value
