"""What a plan does to inputs, its transform and its augmentation, and where each of them can run."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from potluck.core.augmentation import Augmenter
from potluck.core.by_value import Value, value_of
from potluck.core.inputs import size_of
from potluck.core.randomness import drawing

TRIED = 4
"""On how many samples a transform is tried, and on as many that are made of them."""

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
"""How closely a sample must come out alike alone and among others: a matrix product rounds by how many there are."""


class TransformKind(Enum):
    """Where a transform can run."""

    DRAWS = "draws"
    """It draws random numbers: at each step anew, for each participant by itself."""
    EACH = "each"
    """It makes of each sample the same, whatever others come with it: once for all samples."""
    BATCH = "batch"
    """What it makes of a sample depends on those that come with it: for each batch of each participant."""


class UnruledError(Exception):
    """A transform cannot be used; says why."""


class InputChanges:
    """What was found out about a plan's functions.

    Args:
        transform: its transform; None for none.
        augment: its augmentation; None for none.
    """

    def __init__(self, transform: Any, augment: Any) -> None:
        self.transform, self.augment = transform, augment
        self.kind: TransformKind | None = None
        """Where the transform can run, once it was tried."""

    @cached_property
    def value(self) -> Value:
        """What compares the transform with others'."""
        return value_of(self.transform)

    @cached_property
    def value_of_halves(self) -> Value | None:
        """The same of an augmentation that has two halves."""
        return None if self.augmenter is None or self.augmenter.halves is None else value_of(self.augmenter.halves)

    @cached_property
    def augmenter(self) -> Augmenter | None:
        """The augmentation, ready to be called."""
        if self.augment is None or isinstance(self.augment, Augmenter):
            return self.augment
        return Augmenter([self.augment])

    @property
    def outdated(self) -> bool:
        """Whether the functions are made of something else by now."""
        now, known = InputChanges(self.transform, self.augment), self.__dict__
        return any(name in known and known[name] != getattr(now, name) for name in ("value", "value_of_halves"))


def kind_of(transform: Callable[[Any], Any], x: Any) -> TransformKind:
    """The kind of a transform, tried on these inputs. It is called twice on them, on each, and on changed ones.

    Raises UnruledError where equal inputs give unequal results, and not because of the seeded global generators.
    """
    copy = tree_map(Tensor.clone, x)
    (first, drew), (again, _) = (drawing(lambda: transform(x)) for _ in range(2))
    if not _same(copy, x, _exact):
        raise UnruledError("writes into the inputs that it is given. Work on a copy: x - mean, and not x.sub_(mean).")
    if not _same(first, again, _exact):
        raise UnruledError(
            "gives other results for the same inputs, and not because of the global generators of torch, numpy or "
            "Python, which are seeded: so no seed decides what it does. Do what is random in `augment`, which is given "
            "a generator to draw from."
        )
    if drew:
        return TransformKind.DRAWS
    return TransformKind.EACH if _of_each(transform, x) else TransformKind.BATCH


def _of_each(transform: Callable[[Any], Any], x: Any) -> bool:
    """Whether samples come out alike together and alone; beside such of half the size, too, as a largest value would
    else be the same in all pictures."""
    try:
        together = tree_map(lambda part: torch.cat([part, _halved(part)]), x)
        whole = transform(together)
        each = [
            transform(tree_map(lambda part, row=row: part[row : row + 1], together)) for row in range(size_of(together))
        ]
        alone = tree_map(lambda *parts: torch.cat(parts), *each)
        return _same(whole, alone, _close)
    except Exception:  # it wants more samples, or others: then it gets the batches that there are
        return False


def _halved(part: Tensor) -> Tensor:
    if part.dtype == torch.bool:
        return part
    return part / 2 if part.is_floating_point() else part // 2


def _same(one: Any, other: Any, equal: Callable[[Tensor, Tensor], bool]) -> bool:
    pairs = zip(tree_leaves(one), tree_leaves(other), strict=True)
    return all(mine.dtype == theirs.dtype and equal(mine, theirs) for mine, theirs in pairs)


def _exact(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())


def _close(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one.double(), other.double(), equal_nan=True, **CLOSE)
