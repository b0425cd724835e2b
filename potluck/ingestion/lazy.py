"""Inputs that are read when they are needed, batch by batch, since they are too large to be held in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from potluck.core.errors import DataError
from potluck.core.inputs import InputKind, InputKinds, check_finite, flat, nested
from potluck.core.samples import InputSource, Samples

PRELOAD_BYTES = 256 * 2**20
"""Up to how many bytes inputs are read into memory at the start, unless ``preload`` says otherwise."""

CHUNK = 64
"""How many rows are read at a time where all of them are looked at."""

Preload = bool | str
"""Whether inputs are read into memory at the start: True, False, or "auto", for those that are not large."""

Fetch = Callable[[list[int]], Any]
"""Row numbers → the inputs of these rows, in their order: a tensor, or a dict or tuple of them."""


def preloads(preload: Preload, size: int, owner: str) -> bool:
    """Whether inputs of so many bytes are read into memory at the start."""
    if preload not in (True, False, "auto"):
        raise DataError(f'{owner}: preload is {preload!r}; expected True, False or "auto".')
    return size <= PRELOAD_BYTES if preload == "auto" else bool(preload)


class Store:
    """Where rows are read from.

    Args:
        fetch: reads rows.
        rows: how many there are.
        like: one row, for what all of them look like.
        finite: whether no row holds NaN or infinity; by default None, for not knowing before all have been read.
    """

    def __init__(self, fetch: Fetch, rows: int, like: Any, finite: bool | None = None) -> None:
        self._fetch, self.rows = fetch, rows
        self.like = {name: column[:0] for name, column in flat(like).items()}
        self._finite = finite if any(column.is_floating_point() for column in self.like.values()) else True
        self.kinds: InputKinds = {name: InputKind.of(column) for name, column in self.like.items()}

    def read(self, rows: list[int]) -> Any:
        """The inputs of these rows."""
        return self._fetch(rows) if rows else nested(self.like)["x"]

    def check_finite(self, owner: str) -> None:
        """Raises DataError where inputs hold NaN or infinity; once it is known that none does, nothing is read."""
        if self._finite is None:
            for rows in chunks(range(self.rows)):
                for column in flat(self.read(rows)).values():
                    check_finite(column, f"{owner}, rows {rows[0]} to {rows[-1]}")
            self._finite = True


class LazyRows(InputSource):
    """Some rows of a store.

    Args:
        store: the store.
        rows: which of its rows; by default all.
    """

    def __init__(self, store: Store, rows: Tensor | None = None) -> None:
        self._store = store
        self._rows = torch.arange(store.rows) if rows is None else rows

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, rows: Tensor) -> Any:
        return self._store.read(self._rows[rows].tolist())

    def take(self, rows: Tensor) -> InputSource:
        return LazyRows(self._store, self._rows[rows])

    def kinds(self) -> InputKinds:
        return self._store.kinds

    def types(self) -> Hashable:
        return tuple(
            (name, str(column.dtype), tuple(column.shape)) for name, column in sorted(self._store.like.items())
        )

    def digest(self) -> bytes:
        found = hashlib.sha256()
        for rows in chunks(self._rows.tolist()):
            for name, column in sorted(flat(self._store.read(rows)).items()):
                found.update(name.encode() + column.contiguous().view(torch.uint8).numpy().tobytes())
        return found.digest()

    def then(self, other: Samples) -> InputSource:
        """All rows in their order; what floats are in, these decide."""
        parts = [Samples({}, source=self), other.inputs()]
        like, ends = self._store.like, torch.tensor([len(part) for part in parts]).cumsum(0)

        def fetch(rows: list[int]) -> Any:
            asked = torch.tensor(rows)
            whole = {name: torch.empty(len(rows), *row.shape[1:], dtype=row.dtype) for name, row in like.items()}
            for part, end in zip(parts, ends.tolist(), strict=True):
                places = ((end - len(part) <= asked) & (asked < end)).nonzero().squeeze(1)
                if len(places):
                    for name, column in flat(part.at(asked[places] - end + len(part))).items():
                        whole[name][places] = column.to(whole[name].dtype)
            return nested(whole)["x"]

        return LazyRows(Store(fetch, int(ends[-1]), nested(like)["x"]))

    def for_network(self, owner: str) -> Samples:
        self._store.check_finite(owner)
        return Samples({}, source=self)


def chunks(rows: Sequence[int]) -> Iterator[list[int]]:
    """Rows, a few at a time."""
    for start in range(0, len(rows), CHUNK):
        yield list(rows[start : start + CHUNK])
