"""Merges that need all answers together: these wait on disk, and are worked on a block at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from potluck.methods.spool import Spool, Spooled
from potluck.methods.windows import Part, window

BLOCK_VALUES = 2**21
"""About how many values of all senders are worked on at a time."""

BITS = 30
"""For how many senders at once it is told in one number which of them hold a position."""

Holders = tuple[str, ...]
"""Those who hold the same positions."""


class Waiting(NamedTuple):
    """A part that waits on disk.

    Args:
        sender: whose it is.
        part: the part, but for its values.
        spooled: where its values are.
    """

    sender: str
    part: Part
    spooled: Spooled


class SpooledMerge(ABC):
    """What all such merges have in common.

    Args:
        old: the whole tensors as they are, which stay where nobody sends anything.
    """

    def __init__(self, old: Mapping[str, Tensor]) -> None:
        self._old = old
        self._spool = Spool()
        self._waiting: dict[str, list[Waiting]] = defaultdict(list)

    def take(self, sender: str, part: Part) -> None:
        """Has a part wait."""
        kept = part.of(part.value.new_empty(0))
        self._waiting[part.key].append(Waiting(sender, kept, self._spool.put(part.value)))

    def results(self) -> dict[str, Tensor]:
        """What was merged, by key, of the keys of which anybody sent something."""
        for waiting in self._waiting.values():
            waiting.sort(key=lambda one: one.sender)  # the order in which answers came must not decide a tie
        return {key: self._merged(key) for key in self._waiting}

    def holders(self) -> dict[str, int]:
        """How many have sent something of each key."""
        return {key: len(waiting) for key, waiting in self._waiting.items()}

    def _merged(self, key: str) -> Tensor:
        """The new values, in the type of the old ones; the old ones where nobody holds anything."""
        found = self._old[key].clone(memory_format=torch.contiguous_format)
        rows_of = found.view(-1) if self._is_whole(key) else found
        for rows, stack in self._blocks(key):
            merged = self._merged_block(key, stack)
            values = merged if found.is_floating_point() else merged.round()
            rows_of[rows] = torch.where(merged.isnan(), rows_of[rows], values.to(found.dtype))
        return found

    @abstractmethod
    def _merged_block(self, key: str, stack: Tensor) -> Tensor:
        """One value for each position of a block; NaN where nobody holds it."""

    def _is_whole(self, key: str) -> bool:
        """Whether all have sent the whole of it, in order, so that it may be cut into blocks anywhere."""
        shape = tuple(self._old[key].shape)
        return all(
            one.part.mask is None
            and one.spooled.shape == shape
            and not any(isinstance(position, Tensor) for position in one.part.at or ())
            for one in self._waiting[key]
        )

    def _blocks(self, key: str) -> Iterator[tuple[slice, Tensor]]:
        """Rows of a whole, a block after the other, and what each sender has of them: NaN where it has nothing."""
        waiting, shape = self._waiting[key], self._old[key].shape
        if self._is_whole(key):
            flat = [self._spool.get(one.spooled).reshape(-1) for one in waiting]
            for rows in _slices(len(flat[0]), len(flat)):
                yield rows, torch.stack([values[rows].double() for values in flat])
            return
        for rows in _slices(shape[0], len(waiting) * shape[1:].numel()):
            stack = torch.full((len(waiting), rows.stop - rows.start, *shape[1:]), torch.nan, dtype=torch.float64)
            for into, one in zip(stack, waiting, strict=True):
                self._put(into, rows, one)
            yield rows, stack

    def _put(self, into: Tensor, rows: slice, one: Waiting) -> None:
        """Copies what a sender has of some rows of a whole to where it belongs."""
        value, mask = self._spool.get(one.spooled), one.part.mask
        first, *others = one.part.at or [0] * value.ndim
        places = torch.arange(first, first + len(value)) if isinstance(first, int) else first
        inside = ((places >= rows.start) & (places < rows.stop)).nonzero().squeeze(1)
        if len(inside):
            found = value[inside].double()
            if mask is not None:
                found = torch.where(mask.expand(value.shape)[inside] > 0, found, torch.nan)
            into[window([places[inside] - rows.start, *others], found.shape)] = found


class CoordinateMerge(SpooledMerge):
    """A merge of each position by itself.

    Args:
        old: the whole tensors as they are.
        merged: one value for each position, of stacked values with NaN where somebody has none.
    """

    def __init__(self, old: Mapping[str, Tensor], merged: Callable[[Tensor], Tensor]) -> None:
        super().__init__(old)
        self._rule = merged

    def _merged_block(self, key: str, stack: Tensor) -> Tensor:
        return self._rule(stack)


class DistanceMerge(SpooledMerge):
    """A merge of all positions that the same participants hold as one: of whole models, where all hold the same.

    Args:
        old: the whole tensors as they are.
        shares: each sender's share of the result, by the squared distances between any two, and their weights.
    """

    def __init__(self, old: Mapping[str, Tensor], shares: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__(old)
        self._rule = shares
        self._shares: dict[Holders, Tensor] = {}

    def results(self) -> dict[str, Tensor]:
        weights: dict[str, list[float]] = defaultdict(list)
        for waiting in self._waiting.values():
            waiting.sort(key=lambda one: one.sender)
            for one in waiting:
                weights[one.sender].append(one.part.weight)
        squared: dict[Holders, Tensor] = {}
        for key in self._waiting:
            for _, stack in self._blocks(key):
                for holders, values, _ in self._held(key, stack):
                    # Counters, as of batches, would outweigh everything that is trained.
                    apart = torch.cdist(values, values).square() if self._old[key].is_floating_point() else 0
                    squared[holders] = squared.get(holders, torch.zeros(len(values), len(values)).double()) + apart
        for holders, apart in squared.items():
            means = [sum(weights[name]) / len(weights[name]) for name in holders]
            self._shares[holders] = self._rule(apart, torch.tensor(means, dtype=torch.float64))
        return super().results()

    def _merged_block(self, key: str, stack: Tensor) -> Tensor:
        merged = torch.full_like(stack[0], torch.nan).flatten()
        for holders, values, positions in self._held(key, stack):
            merged[positions] = self._shares[holders] @ values
        return merged.view(stack.shape[1:])

    def _held(self, key: str, stack: Tensor) -> Iterator[tuple[Holders, Tensor, Tensor]]:
        """The positions that the same senders hold: who they are, their values there, and where that is."""
        names, flat = [one.sender for one in self._waiting[key]], stack.flatten(1)
        covered = ~flat.isnan()
        kinds = _kinds(covered)
        for kind in range(int(kinds.max()) + 1 if len(kinds) else 0):
            positions = (kinds == kind).nonzero().squeeze(1)
            rows = covered[:, positions[0]].nonzero().squeeze(1)
            if len(rows):
                yield tuple(names[row] for row in rows.tolist()), flat[rows][:, positions], positions


def _kinds(covered: Tensor) -> Tensor:
    """A number for each column, the same for columns that are the same."""
    kinds = torch.zeros(covered.shape[1], dtype=torch.int64)
    if bool(covered.all()):
        return kinds
    for rows in torch.split(covered, BITS):
        bits = (rows.long() << torch.arange(len(rows))[:, None]).sum(dim=0)
        kinds = torch.unique(kinds * 2**BITS + bits, return_inverse=True)[1]
    return kinds


def _slices(length: int, width: int) -> Iterator[slice]:
    """A length in blocks, where ``width`` values belong to each position."""
    size = max(1, BLOCK_VALUES // max(1, width))
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))
