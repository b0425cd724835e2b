"""Augmentation: what changes a batch of inputs, in training alone, and how it draws its random numbers.

There are three forms. In two halves, ``draw`` and ``apply``, where the numbers of each participant are drawn by
themselves, and applied to the samples of all participants at once. A function of a batch and a generator. A function of
one sample alone, as torchvision's transforms are.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from torch.utils._pytree import tree_map

from potluck.core.inputs import size_of
from potluck.core.randomness import all_seeded, derive
from potluck.core.stable_names import readable_name


@runtime_checkable
class Halves(Protocol):
    """What draws apart from what it does with the numbers."""

    def draw(self, count: int, generator: torch.Generator) -> Any:
        """The random numbers for so many samples: tensors with a row for each, perhaps in tuples or dicts."""

    def apply(self, x: Any, drawn: Any) -> Any:
        """Inputs of any number of samples, changed by the numbers that were drawn for them, each by its own."""


class Augmentation(ABC):
    """An augmentation in two halves, which can also be called with a batch and a generator."""

    @abstractmethod
    def draw(self, count: int, generator: torch.Generator) -> Any:
        """The random numbers for so many samples: tensors with a row for each, perhaps in tuples or dicts."""

    @abstractmethod
    def apply(self, x: Any, drawn: Any) -> Any:
        """Inputs of any number of samples, changed by the numbers that were drawn for them, each by its own."""

    def __call__(self, x: Any, generator: torch.Generator) -> Any:
        return self.apply(x, self.draw(size_of(x), generator))


class Chain(Augmentation):
    """Several augmentations in two halves, one after the other.

    Args:
        each: the augmentations.
    """

    def __init__(self, each: Sequence[Halves]) -> None:
        self.each = tuple(each)

    def draw(self, count: int, generator: torch.Generator) -> tuple[Any, ...]:
        return tuple(one.draw(count, generator) for one in self.each)

    def apply(self, x: Any, drawn: Sequence[Any]) -> Any:
        for one, mine in zip(self.each, drawn, strict=True):
            x = one.apply(x, mine)
        return x


class Augmenter:
    """A plan's augmentation, in whatever form it was given.

    Args:
        each: the augmentations, one after the other.
    """

    def __init__(self, each: Sequence[Any]) -> None:
        for one in each:
            if not callable(one) and not isinstance(one, Halves):
                raise ValueError(f"augment holds {one!r}; expected a function, or what has `draw` and `apply`.")
        self._each = tuple(each)
        self._alone = [not isinstance(one, Halves) and of_one_sample(one) for one in self._each]
        halves = [one for one in self._each if isinstance(one, Halves)]
        self.halves: Halves | None = None
        """The whole of it in two halves, where all of it can be had so."""
        if len(halves) == len(self._each):
            self.halves = halves[0] if len(halves) == 1 else Chain(halves)

    def __repr__(self) -> str:
        return str([readable_name(one) for one in self._each])

    def __call__(self, x: Any, generator: torch.Generator) -> Any:
        """A batch of one participant's, changed."""
        if self.halves is not None:
            return self.halves.apply(x, self.halves.draw(size_of(x), generator))
        for place, (one, alone) in enumerate(zip(self._each, self._alone, strict=True)):
            if alone:
                with all_seeded(derive(generator.initial_seed(), "sample by sample", place)):
                    samples = [one(tree_map(lambda part, row=row: part[row], x)) for row in range(size_of(x))]
                x = tree_map(lambda *parts: torch.stack(parts), *samples)
            elif isinstance(one, Halves):
                x = one.apply(x, one.draw(size_of(x), generator))
            else:
                x = one(x, generator)
        return x


def of_one_sample(function: Callable[..., Any]) -> bool:
    """Whether a function is called with one sample, and draws from global generators: as torchvision's transforms."""
    try:
        called = function.forward if isinstance(function, nn.Module) else function
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):  # of a function that is not Python's nothing is known
        return False
    kinds = [parameter.kind for parameter in parameters]
    named = kinds.count(inspect.Parameter.POSITIONAL_ONLY) + kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return named + (inspect.Parameter.VAR_POSITIONAL in kinds) == 1
