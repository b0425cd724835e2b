"""Label spaces: the classes of a participant, as its own strings or integers, sorted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import AfterValidator, Field

from potluck.core.errors import DataError

Label = str | int
LabelSpace = tuple[Label, ...]

UNLABELLED = -1
"""Means 'no label' wherever labels are positions in a label space."""


def label_space(values: Iterable[Any], owner: str) -> LabelSpace:
    """The distinct labels among ``values``, sorted. All text or all integers: no library sorts a mixture."""
    labels = {plain_label(value, owner) for value in values}
    if len({type(label) for label in labels}) > 1:
        raise DataError(f"{owner}: labels {list(labels)[:5]} mix text and integers; expected one kind.")
    return _sorted(labels)


def no_labels(owner: str) -> DataError:
    """The error where a label space is to be found and there are inputs alone."""
    return DataError(
        f"{owner}: there are no labels to find the label space in; give them beside the inputs, data=(x, y), or pass "
        f"`labels`."
    )


def encode(y: np.ndarray[Any, Any], labels: LabelSpace, owner: str, *, strict: bool = True) -> torch.Tensor:
    """Turns labels into positions in ``labels``. Others are an error, or UNLABELLED if not ``strict``."""
    distinct, inverse = np.unique(plain_labels(y, owner), return_inverse=True)
    position = {label: index for index, label in enumerate(labels)}
    codes = [position.get(plain_label(value, owner), UNLABELLED) for value in distinct]
    if strict and UNLABELLED in codes:
        stray = distinct[codes.index(UNLABELLED)]
        raise DataError(
            f"{owner}: the data holds label {plain_label(stray, owner)!r}, which is not in its label space "
            f"{list(labels)}. Remove those samples, or add the label to `labels`."
        )
    return torch.tensor(codes, dtype=torch.int64)[torch.from_numpy(inverse.reshape(-1))]


def decode(codes: torch.Tensor, labels: LabelSpace) -> np.ndarray[Any, Any]:
    """Turns positions back into labels."""
    if len(codes) and int(codes.min()) < 0:
        raise DataError("Some samples have no label; expected a label for each.")
    known: np.ndarray[Any, Any] = np.asarray(labels)
    return np.asarray(known[codes.cpu().numpy()])


def union(spaces: Iterable[LabelSpace]) -> LabelSpace:
    """All labels of all participants, sorted (CoFED eq. 15)."""
    return _sorted({label for space in spaces for label in space})


def differing(found: Sequence[Label], expected: Sequence[Label]) -> str:
    """How one label space differs from another, in words that can follow a name."""
    return f"its labels are {some_labels(found)}; expected {some_labels(expected)}"


def some_labels(labels: Sequence[Label]) -> str:
    """A label space for a message."""
    return str(list(labels)) if len(labels) <= 10 else f"{list(labels[:5])} and {len(labels) - 5} more"


def _as_a_space(labels: list[Label]) -> list[Label]:
    if len({type(label) for label in labels}) > 1 or tuple(labels) != _sorted(set(labels)):
        raise ValueError("expected different labels in order, all text or all integers")
    return labels


LabelsFact = Annotated[
    list[Annotated[str, Field(max_length=200)] | Annotated[int, Field(ge=-(2**53), le=2**53)]],
    Field(min_length=1, max_length=2**17),
    AfterValidator(_as_a_space),
]
"""A label space as it is sent: different labels in order, as ``label_space`` makes them."""


def _sorted(labels: Iterable[Label]) -> LabelSpace:
    return tuple(sorted(labels, key=lambda label: (isinstance(label, str), label)))


def plain_labels(y: np.ndarray[Any, Any], owner: str) -> np.ndarray[Any, Any]:
    """Labels in an array that numpy can sort, whatever objects they were."""
    return np.asarray([plain_label(label, owner) for label in y]) if y.dtype.kind == "O" else y


def plain_label(value: Any, owner: str) -> Label:
    """A label as plain text or a plain integer."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool):
        value = int(value)
    if not isinstance(value, str | int):
        advice = ' To learn values, say task="regression".' if isinstance(value, float) else ""
        raise DataError(f"{owner}: label {value!r} is a {type(value).__name__}; expected strings or integers.{advice}")
    return value
