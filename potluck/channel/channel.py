"""The channel between participants and the server: codecs, byte counts, the checks of what arrives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from potluck.channel.codec import MARK, Coding, PayloadCodec, Received
from potluck.channel.limits import Limits
from potluck.channel.route import Direction, Route
from potluck.channel.transmission import Transmission
from potluck.core.errors import PayloadError, SettingsError, nearest
from potluck.core.payload import Payload
from potluck.core.schema import Schema
from potluck.core.stable_names import readable_name

DIRECTIONS: tuple[Direction, ...] = ("up", "down")

Audit = Callable[[Transmission], None]
"""Is called with every payload that passes."""

Memory = MutableMapping[str, Any]
"""What one side's codecs store of one participant between payloads: tensors in dicts, as a checkpoint holds them."""


@dataclass(frozen=True)
class Coded:
    """A payload on its way.

    Args:
        payload: what travels.
        received: what the receiver reads.
    """

    payload: Payload
    received: Payload


@dataclass(frozen=True)
class Channel:
    """The route of every payload, the same on every engine.

    Args:
        limits: how large a payload may be, as it travels and as it is read; by default ``Limits()``.
        up: the codecs of what participants send, in the order in which they encode; by default none.
        down: the codecs of the server's replies; by default none.
        exchanges: for single exchanges other codecs, by name and direction, such as
            ``{"weights": {"up": [TopK(0.01)]}}``; by default none.
        audit: is called with every payload, as a ``Transmission``, by who sends it and over a network also by who
            receives it; by default None.
    """

    limits: Limits = field(default_factory=Limits)
    up: Sequence[PayloadCodec] = ()
    down: Sequence[PayloadCodec] = ()
    exchanges: Mapping[str, Mapping[Direction, Sequence[PayloadCodec]]] = field(default_factory=dict)
    audit: Audit | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.limits, Limits):
            raise SettingsError(f"limits is {self.limits!r}; expected Limits(…). Codecs are named: Channel(up=[…]).")
        if not isinstance(self.exchanges, Mapping):
            raise SettingsError(f"exchanges is {self.exchanges!r}; expected codecs by exchange and direction.")
        for direction in DIRECTIONS:
            _check(direction, getattr(self, direction))
        for exchange, chains in self.exchanges.items():
            if not isinstance(chains, Mapping) or not set(chains) <= set(DIRECTIONS):
                raise SettingsError(f'exchanges[{exchange!r}] is {chains!r}; expected codecs by "up" and "down".')
            for direction, codecs in chains.items():
                _check(f"exchanges[{exchange!r}][{direction!r}]", codecs)

    @property
    def is_plain(self) -> bool:
        """Whether payloads pass as they are, and nobody is notified."""
        return self.audit is None and not self.has_codecs

    @property
    def has_codecs(self) -> bool:
        """Whether any payload is coded."""
        return bool(self.all_codecs())

    @property
    def remembers_received(self) -> bool:
        """Whether both sides must know what a participant received last."""
        return any(codec.remembers_received for codec in self.all_codecs())

    def all_codecs(self) -> list[PayloadCodec]:
        """The codecs of all directions and exchanges."""
        single = [codec for own in self.exchanges.values() for codecs in own.values() for codec in codecs]
        return [*self.up, *self.down, *single]

    def codecs(self, exchange: str, direction: Direction) -> Sequence[PayloadCodec]:
        """The codecs of an exchange in a direction, in the order in which they encode."""
        own = self.exchanges.get(exchange, {})
        return own.get(direction, self.up if direction == "up" else self.down)

    def of(self, exchanges: Collection[str]) -> Channel:
        """The same channel without what it says of other exchanges than these."""
        return replace(self, exchanges={name: own for name, own in self.exchanges.items() if name in exchanges})

    def check_exchanges(self, method: str, exchanges: Collection[str]) -> None:
        """Raises SettingsError for an exchange that the method does not have."""
        for name in self.exchanges:
            if name not in exchanges:
                raise SettingsError(
                    f"The channel has codecs for {name!r}, no exchange of {method}.{nearest(name, exchanges)}"
                )

    def settings(self) -> dict[str, Any]:
        """Its codecs in plain values, by direction and exchange."""
        exchanges = {name: {way: _plain(codecs) for way, codecs in own.items()} for name, own in self.exchanges.items()}
        return {"up": _plain(self.up), "down": _plain(self.down), "exchanges": exchanges}

    def size(self, payload: Payload) -> int:
        """How many bytes are sent."""
        return payload.size

    def check(self, payload: Payload, schema: Schema) -> None:
        """Raises PayloadError, with a message that can follow the sender's name, unless the payload may be read."""
        if self.size(payload) > self.limits.bytes:
            self.limits.check_size(self.size(payload))  # says so
        schema.check(payload)

    def encode(
        self, payload: Payload, route: Route, memory: Memory, received: Mapping[str, Any] | None = None
    ) -> Coded:
        """What travels instead of a payload, and what the receiver reads: on any engine, and over a network.

        Args:
            payload: what the sender has.
            route: which payload it is.
            memory: what the sender's codecs store of this participant; it is changed.
            received: what the participant received last, as ``remember`` noted it; by default what is in ``memory``.
        """
        codings = self._codings(route, memory, self.limits.bytes, received)
        if any(name.startswith(MARK) for name in payload.facts) and codings:
            raise PayloadError(f"a fact is named {MARK!r} or begins so, which is for codecs; choose another name")
        stages = [payload]
        for codec, coding in codings:
            stages.append(codec.encode(stages[-1], coding))
        sent = arrived = stages[-1]
        for (codec, coding), had in zip(reversed(codings), reversed(stages[:-1]), strict=True):
            arrived = codec.decode(arrived, coding)
            if codec.feeds_back:
                codec.settle(had, arrived, coding)
        self._keep(route, memory, codings)
        self.tell(route, sent, arrived)
        return Coded(sent, arrived)

    def decode(self, payload: Payload, route: Route, memory: Memory, schema: Schema | None = None) -> Payload:
        """What is read of a payload that came over a network.

        Raises PayloadError for what cannot be decoded, before it takes more memory than the limits or a multiple of
        what the schema says.
        """
        received = payload
        for codec, coding in reversed(self._codings(route, memory, self._most(schema))):
            received = codec.decode(received, coding)
        if received is not payload:
            received.check_finite()
        self.tell(route, payload, received)
        return received

    def tell(self, route: Route, sent: Payload, received: Payload) -> None:
        """Notifies whoever audits."""
        if self.audit is not None:
            self.audit(Transmission(route, sent, received))

    def remember(self, payload: Payload, route: Route, memory: Memory) -> None:
        """Notes what the participant has received; what came before the last round is forgotten."""
        self.forget(memory, route.round)
        known = dict(memory.get("received", {}))
        for name, tensor in payload.tensors.items():
            if tensor.is_floating_point():
                known[name] = {"stamp": route.stamp, "round": route.round, "tensor": tensor}
        memory["received"] = known

    def forget(self, memory: Memory, round: int) -> None:
        """Drops what a participant received before the last round."""
        if "received" in memory:
            memory["received"] = {n: kept for n, kept in memory["received"].items() if kept["round"] >= round - 1}

    def _most(self, schema: Schema | None) -> int:
        """How many bytes decoding may make: between two codecs a payload may be larger than before or after."""
        expected = None if schema is None else schema.bytes
        return self.limits.bytes if expected is None else min(self.limits.bytes, 4 * expected + self.limits.facts)

    def _codings(
        self, route: Route, memory: Memory, limit: int, received: Mapping[str, Any] | None = None
    ) -> list[tuple[PayloadCodec, Coding]]:
        """The codecs of a payload, with what each knows of it."""
        codecs = self.codecs(route.exchange, route.direction)
        if not codecs:
            return []
        stored = memory.get("received", {}) if received is None else received
        known = {name: Received(**kept) for name, kept in stored.items() if kept["round"] >= route.round - 1}
        whole, corrected = set[str](), set[str]()
        kept = memory.get(route.direction, {}).get(route.exchange, {})
        return [
            (
                codec,
                Coding(
                    route,
                    f"{place} {type(codec).__name__}",
                    limit,
                    dict(kept.get(str(place), {})),
                    known,
                    whole,
                    corrected,
                ),
            )
            for place, codec in enumerate(codecs)
        ]

    def _keep(self, route: Route, memory: Memory, codings: Sequence[tuple[PayloadCodec, Coding]]) -> None:
        """Stores what codecs remember."""
        found = {str(place): coding.memory for place, (_, coding) in enumerate(codings) if coding.memory}
        if found or route.exchange in memory.get(route.direction, {}):
            memory[route.direction] = {**memory.get(route.direction, {}), route.exchange: found}


def _check(where: str, codecs: Any) -> None:
    if isinstance(codecs, PayloadCodec | str) or not isinstance(codecs, Sequence):
        raise SettingsError(f"{where} is {codecs!r}; expected a list of codecs, such as [TopK(0.1), Quantize(8)].")
    for position, codec in enumerate(codecs):
        if not isinstance(codec, PayloadCodec):
            raise SettingsError(f"{where}[{position}] is {codec!r}; expected a codec, such as Cast('float16').")
        wrong = codec.place != "any" and position != (0 if codec.place == "first" else len(codecs) - 1)
        if wrong:
            raise SettingsError(
                f"{where}: {type(codec).__name__} must be the {codec.place} codec, and is number {position + 1}."
            )


def _plain(codecs: Sequence[PayloadCodec]) -> list[dict[str, Any]]:
    return [{"name": type(codec).__name__, **codec.model_dump(mode="json", fallback=readable_name)} for codec in codecs]
