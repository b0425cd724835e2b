"""A payload: what travels between a participant and the server, and nothing else does.

Named tensors and a few plain facts, written as safetensors with the facts as JSON in its metadata. Reading
one never runs code. ``Payload.size`` is the exact number of bytes sent, known without writing them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load, save

from potluck.core.errors import PayloadError

# In the order safetensors lays tensors out: widest alignment first, then by name.
_DTYPES: dict[torch.dtype, str] = {
    torch.int64: "I64",
    torch.float64: "F64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_RANK = {dtype: rank for rank, dtype in enumerate(_DTYPES)}

DIMENSIONS = 64
"""How many dimensions torch can work with."""


@dataclass(frozen=True)
class Limits:
    """How large a payload may be before anything in it is looked at."""

    bytes: int = 2**31
    tensors: int = 100_000
    facts: int = 2**24


@dataclass(frozen=True, eq=False)
class Payload:
    """Named tensors and plain facts (what JSON can hold). The tensors are read, never written to."""

    tensors: Mapping[str, torch.Tensor] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, tensor in self.tensors.items():
            if not isinstance(name, str) or name == "__metadata__" or not name.isprintable():
                raise PayloadError(f"A tensor is named {name!r}; expected printable text other than '__metadata__'.")
            if not isinstance(tensor, torch.Tensor):
                raise PayloadError(f"{name!r} is a {type(tensor).__name__}; expected a tensor. Plain values are facts.")
            if tensor.dtype not in _DTYPES:
                known = ", ".join(str(dtype).removeprefix("torch.") for dtype in _DTYPES)
                raise PayloadError(f"Tensor {name!r} is {tensor.dtype}; expected one of {known}.")
        plain = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        object.__setattr__(self, "tensors", plain)

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.tensors[name]

    @cached_property
    def _facts(self) -> str:
        try:
            return json.dumps(self.facts, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise PayloadError(f"The facts {dict(self.facts)!r} are not plain: {error}.") from error

    @cached_property
    def size(self) -> int:
        """Exactly ``len(self.to_bytes())``: eight bytes, the padded header, the tensors."""
        header: dict[str, Any] = {"__metadata__": {"facts": self._facts}} if self.facts else {}
        end = 0
        for name, tensor in sorted(self.tensors.items(), key=lambda item: (_RANK[item[1].dtype], item[0])):
            start, end = end, end + tensor.numel() * tensor.element_size()
            header[name] = {
                "dtype": _DTYPES[tensor.dtype],
                "shape": list(tensor.shape),
                "data_offsets": [start, end],
            }
        text = len(json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode())
        return 8 + (text + 7) // 8 * 8 + end

    def to_bytes(self) -> bytes:
        """This payload as it travels."""
        # Tensors that share memory are one to safetensors, but two to the reader.
        separate = {name: tensor.clone() for name, tensor in self.tensors.items()}
        return bytes(save(separate, metadata={"facts": self._facts} if self.facts else None))

    @staticmethod
    def from_bytes(data: bytes, limits: Limits | None = None, *, finite: bool = True) -> Payload:
        """Reads a payload, refusing what is damaged, too large or, unless a form checks that later, not finite."""
        limits = limits or Limits()
        if len(data) > limits.bytes:
            raise PayloadError(f"The payload has {len(data)} bytes; the limit is {limits.bytes}.")
        try:
            facts = _read_facts(data, limits)
            payload = Payload(load(data), facts)
            if deep := [name for name, tensor in payload.tensors.items() if tensor.ndim > DIMENSIONS]:
                raise ValueError(f"tensor {deep[0]!r} has more than {DIMENSIONS} dimensions")
            if finite:
                payload.check_finite()
        except PayloadError:
            raise
        except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
            raise PayloadError(f"The payload is damaged: {error}.") from error
        return payload

    def check_finite(self) -> None:
        """Refuses NaN and infinity, which one sender could use to spoil everybody's mean."""
        _ = self._facts  # as JSON, which has neither
        for name, tensor in sorted(self.tensors.items()):
            if tensor.is_floating_point() and not _finite(tensor):
                raise PayloadError(f"tensor {name!r} holds NaN or infinity")


def _finite(tensor: torch.Tensor) -> bool:
    """Whether all values are finite. A finite sum proves it, in one quick pass; large values can make it infinite."""
    return math.isfinite(tensor.sum().item()) or bool(torch.isfinite(tensor).all())


def _read_facts(data: bytes, limits: Limits) -> dict[str, Any]:
    """The facts, and the limits kept, from the header alone: no tensor is read yet."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", None) or {}
    if len(header) > limits.tensors:
        raise PayloadError(f"The payload has {len(header)} tensors; the limit is {limits.tensors}.")
    text = metadata.get("facts", "{}")
    if set(metadata) - {"facts"}:
        raise PayloadError(f"The payload has metadata nobody asked for: {sorted(set(metadata) - {'facts'})}.")
    if len(text) > limits.facts:
        raise PayloadError(f"The payload's facts have {len(text)} characters; the limit is {limits.facts}.")
    facts = json.loads(text)
    if not isinstance(facts, dict):
        raise PayloadError(f"The payload's facts are a {type(facts).__name__}; expected names and values.")
    return facts


@dataclass(frozen=True)
class TensorSpec:
    """What one tensor must look like. None in ``shape`` stands for any length."""

    shape: tuple[int | None, ...]
    dtype: torch.dtype = torch.float32
    low: float | None = None
    high: float | None = None

    def check(self, name: str, tensor: torch.Tensor) -> None:
        """Raises PayloadError unless the tensor is what was asked for."""
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
    """What an answer must look like before the server reads it: just these tensors, just these facts.

    ``tensors`` None leaves them open; they must still be finite. A fact's type is anything pydantic can check, such as
    ``int`` or ``list[str | int]``.
    """

    tensors: Mapping[str, TensorSpec] | None = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

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
        """The form of payloads that carry tensors shaped like these."""
        likes = {name: TensorSpec(tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
        return Schema(likes, facts or {})


@lru_cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def dtype_named(name: str) -> torch.dtype:
    """The type of that name, among those that may travel."""
    known = {str(dtype).removeprefix("torch."): dtype for dtype in _DTYPES}
    if name not in known:
        raise PayloadError(f"type {name!r} cannot travel; expected one of {', '.join(known)}")
    return known[name]


def _same_names(kind: str, expected: set[str], given: set[str]) -> None:
    if given - expected:
        raise PayloadError(f"{kind} {sorted(given - expected)[0]!r} was not asked for")
    if expected - given:
        raise PayloadError(f"{kind} {sorted(expected - given)[0]!r} is missing")
