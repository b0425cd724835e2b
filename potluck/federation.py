"""A federation: participants, a method, public data, a seed. The loop stands here, once."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from potluck.engines import make_engine
from potluck.engines.local import Arrival
from potluck.errors import DataError, MisfitError, PayloadError, SettingsError
from potluck.history import History, Row
from potluck.labels import encode, union
from potluck.method import Method
from potluck.metrics import Metrics
from potluck.participant import Participant
from potluck.payload import Limits, Payload
from potluck.randomness import generator
from potluck.samples import Samples, as_inputs, as_pair
from potluck.server import Server

log = logging.getLogger(__name__)

Published = tuple[Tensor, np.ndarray[Any, Any] | None]


@dataclass
class Tally:
    """What one participant sent, received and noted in one round."""

    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0
    refused: str | None = None
    notes: dict[str, Any] = field(default_factory=dict)


class Federation:
    """Everyone at one table.

    Args:
        participants: who takes part; names must differ.
        method: what they do.
        public: data everybody may see, as ``x`` or ``(x, y)``.
        test: ``(x, y)`` that everybody without test data of its own is evaluated on, each on the labels it knows.
        seed: what every random draw derives from.
        engine: "serial", "batched", or "auto".
        device: a torch device, or "auto" for a GPU if there is one.
        participation: the share of participants that take part in a round.
        keep_optimizer: whether optimizers remember across trainings; None for the method's own way.
    """

    def __init__(
        self,
        participants: Iterable[Participant],
        method: Method,
        *,
        public: Any = None,
        test: Any = None,
        seed: int = 0,
        engine: str = "auto",
        device: str = "auto",
        participation: float = 1.0,
        keep_optimizer: bool | None = None,
    ) -> None:
        if not isinstance(method, Method):
            raise SettingsError(f"method is {method!r}; expected a Method, e.g. potluck.methods.CoFED(alpha=0.3).")
        if not 0 < participation <= 1:
            raise SettingsError(f"participation is {participation!r}; expected a share above 0, up to 1.")
        self.participants = _by_name(participants)
        self.method = method
        self.seed = seed
        self.participation = participation
        self.keep_optimizer = method.keep_optimizer if keep_optimizer is None else keep_optimizer
        self.engine = make_engine(engine, device)
        self.limits = Limits()
        self.history = History()
        self._joined: dict[str, Tally] | None = None

        published = _published(public)
        for participant in self.participants.values():
            participant.join(seed, published)
        self._check_shapes(published)
        self._check_fit(published)
        tests = None if test is None else as_pair(test, "test data")
        self._tests = {name: (p, p.own_test(tests)) for name, p in self.participants.items()}
        self.server = Server(
            seed,
            {name: p.weight for name, p in self.participants.items()},
            self._server_public(published),
        )

    def __repr__(self) -> str:
        return f"Federation({len(self.participants)} participants, {self.method!r}, seed {self.seed})"

    def run(self, rounds: int) -> History:
        """Plays that many rounds more and returns the history so far."""
        if rounds < 0:
            raise SettingsError(f"rounds is {rounds}; expected 0 or more.")
        if self._joined is None:
            self._joined = self._play("join", list(self.participants))
        for _ in range(rounds):
            self._round(self.history.rounds + 1)
        return self.history

    def _round(self, number: int) -> None:
        """One round: those chosen do their half, everybody is evaluated, the history grows."""
        self.server.round = number
        for participant in self.participants.values():
            participant.round = number
        chosen = self._chosen(number)
        tallies = self._play("round", chosen)
        metrics = self.engine.evaluate(self._tests)
        self.history.add(self._rows(number, chosen, tallies, metrics))

    def _play(self, stage: Literal["join", "round"], names: list[str]) -> dict[str, Tally]:
        """Runs one stage at the named participants, from exchange to exchange, until all have ended."""
        tallies = {name: Tally() for name in names}
        # By name, not as listed: the order a user lists participants in must not change any result.
        parties = [self.participants[name] for name in sorted(names)]
        arrivals = self.engine.start(stage, self.method, parties, self.keep_optimizer)
        while (arrival := next(arrivals, None)) is not None:
            if arrival.exchange is None:
                _end(tallies[arrival.sender], arrival)
            else:
                aside: list[Arrival] = []
                replies = self._exchange(arrival.exchange.name, chain([arrival], arrivals), aside, tallies)
                arrivals = chain(aside, self.engine.resume(replies))
        return tallies

    def _exchange(
        self, name: str, arrivals: Iterator[Arrival], aside: list[Arrival], tallies: dict[str, Tally]
    ) -> dict[str, Payload]:
        """Lets the server answer all who came to one exchange, as they come. Others are put aside."""
        serve, form = self.method.answered_by(name)
        answered: list[str] = []

        def answers() -> Iterator[tuple[str, Payload]]:
            for arrival in arrivals:
                if arrival.exchange is None:
                    _end(tallies[arrival.sender], arrival)
                elif arrival.exchange.name != name:
                    aside.append(arrival)
                elif self._accept(arrival, form, tallies[arrival.sender]):
                    answered.append(arrival.sender)
                    yield arrival.sender, arrival.exchange.payload

        stream = answers()
        first = next(stream, None)
        if first is None:
            return {}
        result = serve(self.server, chain([first], stream))
        if isinstance(result, Generator):
            result = self.engine.serve(self.server, result, name)
        for _ in stream:
            pass  # whoever the server did not wait for has come to the exchange all the same
        replies = dict.fromkeys(answered, result) if isinstance(result, Payload) else dict(result)
        if set(replies) != set(answered):
            raise TypeError(f"{type(self.method).__name__}.{name} must reply to {answered}; replied to {list(replies)}")
        for sender, reply in replies.items():
            tallies[sender].bytes_down += reply.size
        return replies

    def _accept(self, arrival: Arrival, form: Any, tally: Tally) -> bool:
        """Counts what was sent, and refuses what must not be read."""
        assert arrival.exchange is not None
        sender, payload = arrival.sender, arrival.exchange.payload
        tally.bytes_up += payload.size
        tally.seconds = arrival.seconds
        try:
            if payload.size > self.limits.bytes:
                raise PayloadError(f"the payload has {payload.size} bytes; the limit is {self.limits.bytes}")
            form(self.server, sender).check(payload)
        except PayloadError as error:
            tally.refused = f"{arrival.exchange.name}: {error}"
            log.warning("Round %d goes on without %s: refused %s", self.server.round, sender, tally.refused)
            self.engine.dismiss(sender)
            return False
        return True

    def _rows(
        self, number: int, chosen: list[str], tallies: dict[str, Tally], metrics: dict[str, Metrics]
    ) -> Iterator[Row]:
        """What goes into the history. What joining took is counted in the first round."""
        for name in self.participants:
            tally = tallies.get(name, Tally())
            joined = self._joined.get(name, Tally()) if self._joined and number == 1 else Tally()
            yield {
                "round": number,
                "participant": name,
                **metrics[name],
                "bytes_up": tally.bytes_up + joined.bytes_up,
                "bytes_down": tally.bytes_down + joined.bytes_down,
                "seconds": tally.seconds + joined.seconds,
                "took_part": name in chosen,
                "refused": tally.refused or joined.refused,
                **joined.notes,
                **tally.notes,
            }

    def _chosen(self, number: int) -> list[str]:
        """Who takes part in a round: drawn from seed and round alone, among those whose joining succeeded."""
        able = sorted(name for name, tally in (self._joined or {}).items() if tally.refused is None)
        if self.participation == 1.0 or not able:
            return able
        count = max(1, round(self.participation * len(able)))
        order = torch.randperm(len(able), generator=generator(self.seed, "participation", number))
        return sorted(able[index] for index in order[:count].tolist())

    def _check_shapes(self, published: Published | None) -> None:
        """Everybody must read the same kind of inputs: they learn from each other on them."""
        first, *others = self.participants.values()
        shape = tuple(first.data.x.shape[1:])
        inputs = [(p.name, p.data.x) for p in others]
        inputs += [("the public data", published[0])] if published else []
        for owner, x in inputs:
            if tuple(x.shape[1:]) != shape:
                raise DataError(
                    f"{owner} has inputs of shape {tuple(x.shape[1:])}, {first.name} of shape {shape}; expected one "
                    f"shape for all. Bring them to one shape before they join."
                )

    def _check_fit(self, published: Published | None) -> None:
        kind: Literal["nothing", "inputs", "labels"] = "nothing"
        if published is not None:
            kind = "inputs" if published[1] is None else "labels"
        reasons = self.method.needs.unmet(list(self.participants.values()), kind)
        if reasons:
            raise MisfitError(
                f"{type(self.method).__name__} does not fit this federation:" + "".join(f"\n- {r}" for r in reasons)
            )

    def _server_public(self, published: Published | None) -> Samples | None:
        if published is None:
            return None
        x, y = published
        labels = union(p.labels for p in self.participants.values())
        known = {} if y is None else {"y": encode(y, labels, "public data", strict=False)}
        return Samples({"x": x, **known})


def _by_name(participants: Iterable[Participant]) -> dict[str, Participant]:
    found: dict[str, Participant] = {}
    models: dict[int, str] = {}
    for participant in participants:
        if not isinstance(participant, Participant):
            raise SettingsError(f"{participant!r} is no Participant.")
        if participant.name in found:
            raise SettingsError(f"Two participants are named {participant.name!r}; names must differ.")
        if not isinstance(participant.model, str):
            owner = models.setdefault(id(participant.model), participant.name)
            if owner != participant.name:
                raise SettingsError(
                    f"{owner} and {participant.name} bring the same model object, so training one would change the "
                    f"other; give each its own (copy.deepcopy)."
                )
        found[participant.name] = participant
    if not found:
        raise SettingsError("A federation needs at least one participant; got none.")
    return found


def _published(public: Any) -> Published | None:
    if public is None:
        return None
    if isinstance(public, tuple | list | torch.utils.data.Dataset):
        return as_pair(public, "public data")
    return as_inputs(public, "public data"), None


def _end(tally: Tally, arrival: Arrival) -> None:
    tally.seconds = arrival.seconds
    tally.notes = arrival.notes
