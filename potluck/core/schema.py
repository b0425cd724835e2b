"""What a payload must look like to be read: names, shapes, types, ranges, facts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError

from potluck.core.errors import PayloadError
from potluck.core.payload import Payload


@dataclass(frozen=True)
class TensorSpec:
    """What one tensor must look like.

    Args:
        shape: its shape; None stands for any length.
        dtype: its type; by default float32.
        low: the least value it may hold; by default any.
        high: the largest value it may hold; by default any.
    """

    shape: tuple[int | None, ...]
    dtype: torch.dtype = torch.float32
    low: float | None = None
    high: float | None = None

    @property
    def bytes(self) -> int | None:
        """How many bytes such a tensor has; None where its shape is open."""
        lengths = [length for length in self.shape if length is not None]
        return math.prod(lengths) * self.dtype.itemsize if len(lengths) == len(self.shape) else None

    def check(self, name: str, tensor: torch.Tensor) -> None:
        """Raises PayloadError unless the tensor fits."""
        fits = len(self.shape) == tensor.ndim and all(
            expected in (None, length) for expected, length in zip(self.shape, tensor.shape, strict=True)
        )
        if not fits:
            expected = tuple("any" if length is None else length for length in self.shape)
            raise PayloadError(f"tensor {name!r} has shape {tuple(tensor.shape)}; expected {expected}")
        if tensor.dtype != self.dtype:
            raise PayloadError(f"tensor {name!r} is {tensor.dtype}; expected {self.dtype}")
        if tensor.numel() == 0:
            return
        if self.low is not None and tensor.min().item() < self.low:
            raise PayloadError(f"tensor {name!r} holds {tensor.min().item()}; expected at least {self.low}")
        if self.high is not None and tensor.max().item() > self.high:
            raise PayloadError(f"tensor {name!r} holds {tensor.max().item()}; expected at most {self.high}")


@dataclass(frozen=True)
class Schema:
    """What an answer must look like before the server reads it: these tensors and facts, and no others.

    Args:
        tensors: name → ``TensorSpec``; by default there may be none. None allows any; they must still be finite.
        facts: name → type, anything that pydantic can check, such as ``int`` or ``list[str | int]``; by default there
            may be none.
    """

    tensors: Mapping[str, TensorSpec] | None = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def bytes(self) -> int | None:
        """How many bytes its tensors have; None where that is open."""
        if self.tensors is None:
            return None
        sizes = [like.bytes for like in self.tensors.values()]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def check(self, payload: Payload) -> None:
        """Raises PayloadError, in words that can follow the sender's name, unless the payload fits."""
        if self.tensors is not None:
            _same_names("tensor", set(self.tensors), set(payload.tensors))
            for name, like in self.tensors.items():
                like.check(name, payload.tensors[name])
        _same_names("fact", set(self.facts), set(payload.facts))
        for name, kind in self.facts.items():
            try:
                _adapter(kind).validate_python(payload.facts[name], strict=True)
            except ValidationError as error:
                given = repr(payload.facts[name])[:80]
                expected = error.errors()[0]["msg"].removeprefix("Value error, ")
                raise PayloadError(f"fact {name!r} is {given}: {expected[0].lower()}{expected[1:]}") from None
        payload.check_finite()

    @staticmethod
    def of(tensors: Mapping[str, torch.Tensor], facts: Mapping[str, Any] | None = None) -> Schema:
        """The schema of payloads that hold tensors of these shapes and types."""
        likes = {name: TensorSpec(tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
        return Schema(likes, facts or {})


@lru_cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _same_names(kind: str, expected: set[str], given: set[str]) -> None:
    if given - expected:
        raise PayloadError(f"{kind} {sorted(given - expected)[0]!r} was not asked for")
    if expected - given:
        raise PayloadError(f"{kind} {sorted(expected - given)[0]!r} is missing")
