"""A payload: what travels between a participant and the server, and nothing else does.

Named tensors and a few plain facts, written as safetensors with the facts as JSON in its metadata. Reading
one never runs code. ``Payload.size`` is the exact number of bytes sent, known without writing them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import torch
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


MAX_BYTES, MAX_TENSORS, MAX_FACTS = 2**31, 100_000, 2**24
"""How many bytes, tensors and characters of facts a payload may have by default."""
HEADER_BYTES = 256
"""How many bytes of the header a tensor may take on average, with its name."""
SHORT = 256
"""Facts of at most so many characters may be the same in many payloads."""
MAX_VALUES = 2**21
"""How many values a header and facts may have: in memory they take a hundred times the bytes that they have as text."""


@dataclass(frozen=True, eq=False)
class Payload:
    """Named tensors and plain facts. The tensors are read, never written to.

    Args:
        tensors: tensors by name, of the types that safetensors knows; by default none.
        facts: plain values by name, as JSON can hold them; by default none.
    """

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
        plain = {name: tensor if _is_plain(tensor) else _plain(tensor) for name, tensor in self.tensors.items()}
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
        facts = self._facts if self.facts else ""
        size_of = _size if len(facts) <= SHORT else _size.__wrapped__
        return size_of(facts, tuple([(name, tensor.dtype, tensor.shape) for name, tensor in self.tensors.items()]))

    def to_bytes(self) -> bytes:
        """This payload as it is sent."""
        # Tensors that share memory are one to safetensors, but two to the reader.
        separate = {name: tensor.clone() for name, tensor in self.tensors.items()}
        return bytes(save(separate, metadata={"facts": self._facts} if self.facts else None))

    @staticmethod
    def from_bytes(
        data: bytes, *, max_tensors: int = MAX_TENSORS, max_facts: int = MAX_FACTS, finite: bool = True
    ) -> Payload:
        """Reads a payload; raises PayloadError for what is damaged or too large.

        Args:
            data: the bytes that ``to_bytes`` wrote.
            max_tensors: how many tensors it may hold.
            max_facts: how many characters its facts may have.
            finite: whether NaN and infinity are refused here; by default True. A schema refuses them later.
        """
        try:
            _, facts = read_header(data, max_tensors, max_facts)
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

    def check_facts(self) -> None:
        """Raises PayloadError for facts that JSON cannot hold, as NaN and infinity."""
        _ = self._facts

    def check_finite(self) -> None:
        """Raises PayloadError for NaN and infinity, which would spoil the mean of all."""
        self.check_facts()
        for name, tensor in sorted(self.tensors.items()):
            if tensor.is_floating_point() and not _finite(tensor):
                raise PayloadError(f"tensor {name!r} holds NaN or infinity")


@lru_cache(maxsize=256)
def _size(facts: str, tensors: tuple[tuple[str, torch.dtype, torch.Size], ...]) -> int:
    """How many bytes a payload has: the same for all that hold tensors of these shapes beside equal facts."""
    header: dict[str, Any] = {"__metadata__": {"facts": facts}} if facts else {}
    end = 0
    for name, dtype, shape in sorted(tensors, key=lambda each: (_RANK[each[1]], each[0])):
        start, end = end, end + shape.numel() * dtype.itemsize
        header[name] = {"dtype": _DTYPES[dtype], "shape": list(shape), "data_offsets": [start, end]}
    text = len(json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode())
    return 8 + (text + 7) // 8 * 8 + end


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether there is nothing to be done to it before it travels."""
    return type(tensor) is torch.Tensor and not tensor.requires_grad and tensor.is_cpu and tensor.is_contiguous()


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().contiguous()


def _finite(tensor: torch.Tensor) -> bool:
    """Whether all values are finite. A finite sum proves it in one pass; large values can make it infinite."""
    return math.isfinite(tensor.sum().item()) or bool(torch.isfinite(tensor).all())


def read_header(
    data: bytes, max_tensors: int = MAX_TENSORS, max_facts: int = MAX_FACTS
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a payload says of its tensors, by name, and its facts: no tensor is read yet.

    Raises PayloadError for more than the limits, before anything is made of it, and other errors for what is damaged.

    Args:
        data: the bytes that ``to_bytes`` wrote.
        max_tensors: how many tensors it may hold; by default 100,000.
        max_facts: how many characters its facts may have; by default 2²⁴.
    """
    length = int.from_bytes(data[:8], "little")
    if length > len(data) - 8:
        raise ValueError("its header is longer than all of it")
    # The facts are JSON in a text in JSON, where a quotation mark takes two characters.
    if length > (most := 2 * max_facts + HEADER_BYTES * max_tensors):
        raise PayloadError(f"The payload's header has {length} bytes; the limit is {most}.")
    if (values := sum(data.count(mark, 8, 8 + length) for mark in (b"[", b"{", b","))) > MAX_VALUES:
        raise PayloadError(f"The payload's header and facts have {values} values; the limit is {MAX_VALUES}.")
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", None) or {}
    if len(header) > max_tensors:
        raise PayloadError(f"The payload has {len(header)} tensors; the limit is {max_tensors}.")
    text = metadata.get("facts", "{}")
    if set(metadata) - {"facts"}:
        raise PayloadError(f"The payload has metadata that was not asked for: {sorted(set(metadata) - {'facts'})}.")
    if len(text) > max_facts:
        raise PayloadError(f"The payload's facts have {len(text)} characters; the limit is {max_facts}.")
    facts = json.loads(text)
    if not isinstance(facts, dict):
        raise PayloadError(f"The payload's facts are a {type(facts).__name__}; expected names and values.")
    return header, facts


T = TypeVar("T")


class LazyReplies(Mapping[str, T]):
    """A reply for each participant, made when it is handed out, so that not all of them are held at once.

    Replies are made after the function that returned this has ended, some while others are already at the next
    exchange: what ``make`` reads must last until the round is over.

    Args:
        names: the participants.
        make: makes the reply for one of them.
    """

    def __init__(self, names: Iterable[str], make: Callable[[str], T]) -> None:
        self._names = dict.fromkeys(names)
        self._make = make

    def __getitem__(self, name: str) -> T:
        if name not in self._names:
            raise KeyError(name)
        return self._make(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names  # without making a reply, which would be counted as sent

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def dtype_named(name: str) -> torch.dtype:
    """The type of that name, among those that may travel."""
    known = {str(dtype).removeprefix("torch."): dtype for dtype in _DTYPES}
    if name not in known:
        raise PayloadError(f"type {name!r} cannot travel; expected one of {', '.join(known)}")
    return known[name]
