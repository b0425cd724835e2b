"""What a payload must look like to be read: names, shapes, types, ranges, facts."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError

from potluck.core.errors import PayloadError
from potluck.core.payload import Payload

LARGEST = 2.0**60
"""How large a number in a tensor may be where nothing else is said: any sum and any square of so many is finite."""
LARGEST_INTEGER = 2**48
"""The same for integers: a sum of 32,000 of them fits into 64 bits."""
SLACK = 0.01
"""How far a row may be from the sum it must have: shares that were rounded to half precision are that far off."""


@dataclass(frozen=True)
class TensorSpec:
    """What one tensor must look like.

    Args:
        shape: its shape; None stands for any length, a text for one that is the same wherever the schema names it.
        dtype: its type; by default float32.
        low: the least value it may hold; by default -2⁶⁰, for integers -2⁴⁸.
        high: the largest value it may hold; by default 2⁶⁰, for integers 2⁴⁸.
        row_sum: what each row, along the last dimension, must sum to, as 1 for probabilities; by default anything.
    """

    shape: tuple[int | str | None, ...]
    dtype: torch.dtype = torch.float32
    low: float | None = None
    high: float | None = None
    row_sum: float | None = None

    @property
    def bytes(self) -> int | None:
        """How many bytes such a tensor has; None where its shape is open."""
        lengths = [length for length in self.shape if isinstance(length, int)]
        return math.prod(lengths) * self.dtype.itemsize if len(lengths) == len(self.shape) else None

    def check(self, name: str, tensor: torch.Tensor) -> None:
        """Raises PayloadError unless the tensor fits."""
        fits = len(self.shape) == tensor.ndim and all(
            length == expected or not isinstance(expected, int)
            for expected, length in zip(self.shape, tensor.shape, strict=True)
        )
        if not fits:
            expected = tuple("any" if length is None else length for length in self.shape)
            raise PayloadError(f"tensor {name!r} has shape {tuple(tensor.shape)}; expected {expected}")
        if tensor.dtype != self.dtype:
            raise PayloadError(f"tensor {name!r} is {tensor.dtype}; expected {self.dtype}")
        check_range(name, tensor, self.low, self.high)
        if self.row_sum is not None and tensor.numel():
            sums = tensor.sum(dim=-1, dtype=torch.float64)
            odd = sums[(sums - self.row_sum).abs() > SLACK]
            if len(odd):
                raise PayloadError(f"a row of tensor {name!r} sums to {odd[0].item():g}; expected {self.row_sum:g}")

    def nearest(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor within the bounds, and with the row sum, that it must have; a row of nothing is spread evenly."""
        bounded = self.low is not None or self.high is not None
        if not tensor.is_floating_point() or not (bounded or self.row_sum) or not bool(tensor.isfinite().all()):
            return tensor  # what is not finite stays so, and is refused
        found = tensor.clamp(self.low, self.high) if bounded else tensor
        if self.row_sum is None or found.ndim == 0:
            return found
        sums = found.sum(dim=-1, keepdim=True)
        even = torch.full_like(found, self.row_sum / max(1, found.shape[-1]))
        return torch.where(sums > 0, found * (self.row_sum / sums), even)


def check_range(name: str, tensor: torch.Tensor, low: float | None = None, high: float | None = None) -> None:
    """Raises PayloadError for what is not finite, or beyond its bounds."""
    if tensor.numel() == 0 or tensor.dtype == torch.bool:
        return
    most = LARGEST if tensor.is_floating_point() else LARGEST_INTEGER
    low, high = -most if low is None else low, most if high is None else high
    found = [value.item() for value in tensor.aminmax()]
    if not all(map(math.isfinite, found)):
        raise PayloadError(f"tensor {name!r} holds NaN or infinity")
    if found[0] < low:
        raise PayloadError(f"tensor {name!r} holds {found[0]:g}; expected at least {low:g}")
    if found[1] > high:
        raise PayloadError(f"tensor {name!r} holds {found[1]:g}; expected at most {high:g}")


def least(entry: str) -> float | None:
    """The least value of an entry of a network's: what normalisation layers count and measure is not negative."""
    return 0 if entry.rpartition(".")[2] in ("running_var", "num_batches_tracked") else None


@dataclass(frozen=True)
class Schema:
    """What an answer must look like before the server reads it: these tensors and facts, and no others.

    Args:
        tensors: name → ``TensorSpec``; by default there may be none. None allows any; they must still be finite.
        facts: name → type, anything that pydantic can check, such as ``int`` or ``list[str | int]``; by default there
            may be none.
        lengths: the least and the largest of the lengths that shapes call by name; by default any.
        optional: the names of tensors that may be left out; by default none.
    """

    tensors: Mapping[str, TensorSpec] | None = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    lengths: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    optional: Collection[str] = ()

    @property
    def bytes(self) -> int | None:
        """How many bytes its tensors have; None where that is open."""
        if self.tensors is None:
            return None
        sizes = [like.bytes for like in self.tensors.values()]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def nearest(self, payload: Payload) -> Payload:
        """A payload whose floats are within the bounds and have the row sums that they must have."""
        likes = self.tensors or {}
        if not any(like.low is not None or like.high is not None or like.row_sum for like in likes.values()):
            return payload
        return Payload({n: likes[n].nearest(t) if n in likes else t for n, t in payload.tensors.items()}, payload.facts)

    def only(self, names: Collection[str]) -> Schema:
        """The schema of payloads with these of its tensors alone."""
        return Schema({name: like for name, like in (self.tensors or {}).items() if name in names})

    def check(self, payload: Payload) -> None:
        """Raises PayloadError, in words that can follow the sender's name, unless the payload fits."""
        if self.tensors is not None:
            due = {n: like for n, like in self.tensors.items() if n in payload.tensors or n not in self.optional}
            _same_names("tensor", set(due), set(payload.tensors))
            for name, like in due.items():
                like.check(name, payload.tensors[name])
            self._check_lengths(due, payload)
        else:
            for name, tensor in payload.tensors.items():
                check_range(name, tensor)
        _same_names("fact", set(self.facts), set(payload.facts))
        for name, kind in self.facts.items():
            try:
                _adapter(kind).validate_python(payload.facts[name], strict=True)
            except ValidationError as error:
                given = repr(payload.facts[name])[:80]
                expected = error.errors()[0]["msg"].removeprefix("Value error, ")
                raise PayloadError(f"fact {name!r} is {given}: {expected[0].lower()}{expected[1:]}") from None
        payload.check_facts()

    def _check_lengths(self, tensors: Mapping[str, TensorSpec], payload: Payload) -> None:
        found: dict[str, tuple[int, str]] = {}
        for name, like in tensors.items():
            for called, length in zip(like.shape, payload.tensors[name].shape, strict=True):
                if not isinstance(called, str):
                    continue
                first, owner = found.setdefault(called, (length, name))
                if length != first:
                    raise PayloadError(
                        f"tensor {name!r} has {length} {called}, {owner!r} has {first}; expected as many"
                    )
        for called, (length, name) in found.items():
            low, high = self.lengths.get(called, (0, length))
            if not low <= length <= high:
                raise PayloadError(f"tensor {name!r} has {length} {called}; expected {low} to {high}")

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
