"""Who lies at an exchange, in a simulation: liars wait for what the honest send, and then send what they made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from potluck.core.party import Arrival
from potluck.core.payload import Payload
from potluck.core.randomness import generator
from potluck.core.requests import Exchange
from potluck.core.schema import Schema
from potluck.federation.attacks import Attack, Honest
from potluck.federation.server import Server

RECEIVED = "liars received"
"""Under which name the server's state has what liars received last: what they know is in the checkpoint, too."""

Like = tuple[str, torch.Size]
"""Tensors of one name and shape."""


class Crowd:
    """Those who come to one exchange.

    Args:
        attacks: who lies, and how.
        server: its state has what liars received last.
        schema: what a participant's answer must look like.
    """

    def __init__(self, attacks: dict[str, Attack], server: Server, schema: Callable[[Server, str], Schema]) -> None:
        self._attacks, self._server, self._schema = attacks, server, schema
        self._waiting: list[Arrival] = []
        self._sums: dict[Like, tuple[int, Tensor, Tensor]] = {}
        self._over = False

    def keeps(self, arrival: Arrival) -> bool:
        """Whether it has to wait, since it lies. What others send is noted."""
        assert arrival.exchange is not None
        lies = arrival.sender in self._attacks and not self._over
        if lies:
            self._waiting.append(arrival)
        elif not self._over:
            for name, tensor in arrival.exchange.payload.tensors.items():
                if tensor.is_floating_point():
                    count, total, squares = self._sums.get((name, tensor.shape), (0, 0.0, 0.0))
                    value = tensor.double()
                    self._sums[name, tensor.shape] = count + 1, total + value, squares + value.square()
        return lies

    def lies(self) -> Iterator[Arrival]:
        """Those who waited, by name, with what they send instead. From now on nobody waits."""
        self._over = True
        waiting, self._waiting = sorted(self._waiting, key=lambda arrival: arrival.sender), []
        for arrival in waiting:
            assert arrival.exchange is not None
            exchange = arrival.exchange
            payload = self._lie(arrival.sender, exchange)
            yield replace(arrival, exchange=Exchange(exchange.name, payload))

    def _lie(self, sender: str, exchange: Exchange) -> Payload:
        attack, received = self._attacks[sender], self._server.state.get(RECEIVED, {}).get(sender, {})
        tensors = dict(exchange.payload.tensors)
        for name, tensor in tensors.items():
            if tensor.is_floating_point():
                known = received.get(name)
                before = torch.zeros_like(tensor) if known is None or known.shape != tensor.shape else known
                draw = generator(self._server.seed, sender, self._server.round, f"attack {exchange.name} {name}")
                lie = attack.lie(tensor.double(), before.double(), self._honest(name, tensor), draw)
                tensors[name] = lie.to(tensor.dtype)
        return self._schema(self._server, sender).nearest(Payload(tensors, exchange.payload.facts))

    def _honest(self, name: str, own: Tensor) -> Honest:
        """What the others send; where nobody sends such a tensor, one's own."""
        count, total, squares = self._sums.get((name, own.shape), (1, own.double(), own.double().square()))
        mean = total / count
        return Honest(mean, (squares / count - mean.square()).clamp(min=0).sqrt())


def remember(server: Server, sender: str, reply: Payload) -> None:
    """Remembers what a liar received."""
    known = server.state.get(RECEIVED, {})
    server.state[RECEIVED] = {**known, sender: {**known.get(sender, {}), **reply.tensors}}
