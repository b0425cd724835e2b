"""What a codec is: how a payload, or one tensor, is made into what travels, and back.

A codec marks what it coded with a fact of its own, ``coded N`` for the N-th of a channel, which its other half reads
and takes away. What comes from the other side is data: declared sizes are checked before anything of that size is made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from potluck.channel.route import Route
from potluck.core.errors import PayloadError
from potluck.core.payload import DIMENSIONS, Payload, dtype_named
from potluck.core.randomness import generator
from potluck.core.settings import Settings

Parts = Mapping[str, Tensor]
"""What one tensor travels as, each part by a name of its own; the empty name is that of the tensor."""

MARK = "coded"
"""What the facts that codecs add begin with."""

_CANNOT_DECODE = (LookupError, RuntimeError, ValueError, TypeError, OverflowError)


@dataclass(frozen=True)
class Received:
    """A tensor that a participant has received, which both sides know.

    Args:
        stamp: the payload that it came in.
        round: the round in which it came.
        tensor: its values.
    """

    stamp: str
    round: int
    tensor: Tensor


@dataclass(frozen=True)
class Original:
    """What a tensor was before it was coded.

    Args:
        shape: its shape.
        dtype: its type.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def size(self) -> int:
        """How many values it has."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Coding:
    """What a codec knows of the payload that it codes.

    Args:
        route: which payload it is.
        codec: the codec's place in its channel, and its name.
        limit: how many bytes the payload may have when it is decoded.
        memory: what the sender's side of this codec stores between payloads of this participant, exchange and
            direction; it is in the checkpoint.
        received: what the participant received last from the server, by name, as far as both sides still know it.
        whole: the names of tensors that codecs pass over, since the receiver has nothing to add a change to.
        corrected: the names of tensors of which the next payload makes good by itself what this one loses.
        tensor: which tensor is coded, where it is one alone; by default "".
    """

    route: Route
    codec: str
    limit: int
    memory: dict[str, Any] = field(default_factory=dict)
    received: Mapping[str, Received] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    corrected: set[str] = field(default_factory=set)
    tensor: str = ""

    @property
    def mark(self) -> str:
        """The name of the fact that says what the codec coded."""
        return f"{MARK} {self.codec.partition(' ')[0]}"

    def generator(self) -> torch.Generator:
        """Random numbers of this payload, this codec and this tensor."""
        r = self.route
        return generator(
            r.seed, r.participant, r.round, "channel", r.direction, r.exchange, r.count, self.codec, self.tensor
        )

    def fits(self, size: int) -> None:
        """Raises PayloadError where so many bytes must not be made."""
        if size > self.limit:
            raise PayloadError(f"the payload would have {size} bytes when it is decoded; the limit is {self.limit}")


class PayloadCodec(Settings):
    """A codec of whole payloads. Settings may be given by position, too, which type checkers must know of each.

    A subclass may set:
        place: "first" or "last" where it must stand so among a channel's codecs; by default "any".
        feeds_back: whether ``settle`` is to be called; by default False.
        remembers_received: whether it codes against what the participant received last; by default False.
    """

    place: ClassVar[Literal["first", "any", "last"]] = "any"
    feeds_back: ClassVar[bool] = False
    remembers_received: ClassVar[bool] = False

    def __init__(self, *given: Any, **settings: Any) -> None:
        names = _by_position(type(self))
        if len(given) > len(names):
            raise TypeError(f"{type(self).__name__} takes {len(names)} settings by position; got {len(given)}.")
        super().__init__(**dict(zip(names, given, strict=False)), **settings)

    def __repr__(self) -> str:
        chosen = [f"{name}={getattr(self, name)!r}" for name in _by_position(type(self))]
        return f"{type(self).__name__}({', '.join(chosen)})"

    def encode(self, payload: Payload, coding: Coding) -> Payload:
        """What travels."""
        raise NotImplementedError(f"{type(self).__name__} has no `encode`.")

    def decode(self, payload: Payload, coding: Coding) -> Payload:
        """What is received. By default what travels."""
        return payload

    def settle(self, payload: Payload, received: Payload, coding: Coding) -> None:
        """Called at the sender with what it had and what the receiver gets instead, where ``feeds_back`` is set."""


def _by_position(kind: type[PayloadCodec]) -> list[str]:
    """The settings that may be given by position: a codec's own."""
    return [name for name in kind.model_fields if name != "min_size"]


class Codec(PayloadCodec):
    """A codec of tensors, one by one: those of floating point that are large enough.

    A subclass defines ``encode_tensor`` and ``decode_tensor``. All other tensors, and facts, pass as they are.

    Args:
        min_size: tensors with fewer values pass as they are; by default 64.
    """

    min_size: int = Field(64, ge=0)

    def encode_tensor(self, tensor: Tensor, coding: Coding) -> Parts | None:
        """What a tensor travels as; None where it is better sent as it is."""
        raise NotImplementedError(f"{type(self).__name__} has no `encode_tensor`.")

    def decode_tensor(self, parts: Parts, like: Original, coding: Coding) -> Tensor:
        """The tensor, of the shape and type of ``like``, whose size was checked. Its parts may be anything."""
        raise NotImplementedError(f"{type(self).__name__} has no `decode_tensor`.")

    def codes(self, name: str, tensor: Tensor, coding: Coding) -> bool:
        """Whether a tensor is one to code."""
        size = tensor.numel()
        return tensor.is_floating_point() and size >= max(1, self.min_size) and name not in coding.whole

    def encode(self, payload: Payload, coding: Coding) -> Payload:
        tensors: dict[str, Tensor] = {}
        coded: dict[str, list[str | int]] = {}
        for name, tensor in payload.tensors.items():
            parts = None
            if self.codes(name, tensor, coding):
                parts = self.encode_tensor(tensor, replace(coding, tensor=name))
            if parts is not None:
                coded[name] = [str(tensor.dtype).removeprefix("torch."), *tensor.shape]
            for part, value in ({"": tensor} if parts is None else parts).items():
                key = f"{name}|{part}" if part else name
                if key in tensors:
                    raise PayloadError(f"two tensors would travel as {key!r}; expected other names")
                tensors[key] = value
        return Payload(tensors, {**payload.facts, coding.mark: coded}) if coded else payload

    def decode(self, payload: Payload, coding: Coding) -> Payload:
        if coding.mark not in payload.facts:
            return payload
        facts = dict(payload.facts)
        likes = _originals(facts.pop(coding.mark))
        parts: dict[str, dict[str, Tensor]] = {name: {} for name in likes}
        plain: dict[str, Tensor] = {}
        for name, tensor in payload.tensors.items():
            owner, _, part = (name, "", "") if name in likes else name.rpartition("|")
            if owner in likes:
                parts[owner][part] = tensor
            else:
                plain[name] = tensor
        coding.fits(sum(map(_bytes, plain.values())) + sum(map(_bytes, likes.values())))
        return Payload(
            {**plain, **{name: self._decoded(parts[name], likes[name], coding, name) for name in likes}}, facts
        )

    def _decoded(self, parts: Parts, like: Original, coding: Coding, name: str) -> Tensor:
        what = f"tensor {name[:200]!r} cannot be decoded by {type(self).__name__}"
        try:
            found = self.decode_tensor(parts, like, replace(coding, tensor=name))
        except PayloadError as error:
            raise PayloadError(f"{what}: {error}") from error
        except _CANNOT_DECODE as error:
            raise PayloadError(f"{what}: {type(error).__name__}: {error}") from error
        if found.shape != like.shape or found.dtype != like.dtype:
            raise PayloadError(f"{what}: it gives {found.dtype} of shape {tuple(found.shape)}")
        return found


def part(parts: Parts, name: str, dtype: torch.dtype, size: int | None = None) -> Tensor:
    """One part of a tensor, flat, if it is there and of that type and size."""
    if name not in parts:
        raise PayloadError(f"part {name!r} is missing")
    found = parts[name].reshape(-1)
    if found.dtype != dtype or size not in (None, found.numel()):
        raise PayloadError(f"part {name!r} holds {found.numel()} of {found.dtype}; expected {size} of {dtype}")
    return found


def _originals(entries: Any) -> dict[str, Original]:
    """The tensors that a payload says were coded, if it says so in a way that can be read."""
    if not isinstance(entries, dict):
        raise PayloadError("what was coded cannot be read; expected names, types and shapes")
    found = {}
    for name, entry in entries.items():
        if not isinstance(entry, list) or not 1 <= len(entry) <= DIMENSIONS + 1:
            raise PayloadError(f"what {name[:200]!r} was before it was coded cannot be read")
        kind, *shape = entry
        dtype = dtype_named(str(kind))
        if not dtype.is_floating_point or not all(type(n) is int and 0 <= n < 2**40 for n in shape):
            raise PayloadError(
                f"{name[:200]!r} was {str(entry)[:200]} before it was coded; expected floats and a shape"
            )
        found[name] = Original(tuple(shape), dtype)
    return found


def _bytes(tensor: Tensor | Original) -> int:
    count = tensor.numel() if isinstance(tensor, Tensor) else tensor.size
    return count * tensor.dtype.itemsize
