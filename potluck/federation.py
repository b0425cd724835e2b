"""A federation: participants, a method, public data, a seed. The loop stands here, once."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import torch

from potluck.engines import make_engine
from potluck.engines.local import Arrival, LocalEngine
from potluck.errors import MisfitError, PayloadError, SettingsError
from potluck.history import History, Row
from potluck.labels import encode, union
from potluck.method import Method
from potluck.metrics import Metrics
from potluck.participant import Participant, State
from potluck.payload import Limits, Payload
from potluck.randomness import generator
from potluck.runs.checkpoint import Fingerprint
from potluck.runs.folder import RunFolder
from potluck.runs.identity import fingerprint, settings_of
from potluck.samples import Samples, as_pair
from potluck.seating import Published, by_name, check_fit, check_inputs, published
from potluck.server import Server

log = logging.getLogger(__name__)

Callback = Callable[["Federation", list[Row]], None]


@dataclass
class Tally:
    """What one participant sent, received and noted in one round, or in joining, counted in the round ``since``."""

    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0
    refused: str | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    since: int = 1
    absent: bool = False
    """Whether its half ended early because it was not there, or did not answer in time."""


class Federation:
    """Everyone at one table.

    Args:
        participants: who takes part; names must differ.
        method: what they do.
        public: data everybody may see, as ``x`` or ``(x, y)``.
        test: ``(x, y)`` that everybody without test data of its own is evaluated on, each on the labels it knows.
        seed: what every random draw derives from.
        engine: "serial", "batched", or "auto"; or an engine.
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
        engine: str | LocalEngine = "auto",
        device: str = "auto",
        participation: float = 1.0,
        keep_optimizer: bool | None = None,
    ) -> None:
        if not isinstance(method, Method):
            raise SettingsError(f"method is {method!r}; expected a Method, e.g. potluck.methods.CoFED(alpha=0.3).")
        if not 0 < participation <= 1:
            raise SettingsError(f"participation is {participation!r}; expected a share above 0, up to 1.")
        self.participants = by_name(participants)
        self.method = method
        self.seed = seed
        self.participation = participation
        self.keep_optimizer = method.keep_optimizer if keep_optimizer is None else keep_optimizer
        self.engine = engine if isinstance(engine, LocalEngine) else make_engine(engine, device)
        self.limits = Limits()
        self.history = History()
        self.made_from: dict[str, Any] = {}
        """The recipe it was made from, if any: kept with the settings of a run."""
        self._joined: dict[str, Tally] | None = None
        self._kept_in: Path | None = None

        shown = published(public)
        tests = None if test is None else as_pair(test, "test data")
        for participant in self.participants.values():
            participant.join(seed, shown)
        self._tests = {name: (p, p.own_test(tests)) for name, p in self.participants.items()}
        check_inputs(self._tests, shown)
        check_fit(method, self.participants, shown)
        self.server = Server(
            seed,
            {name: p.weight for name, p in self.participants.items()},
            self._server_public(shown),
        )

    def __repr__(self) -> str:
        return f"Federation({len(self.participants)} participants, {self.method!r}, seed {self.seed})"

    def run(
        self,
        rounds: int,
        *,
        run_dir: str | os.PathLike[str] | None = None,
        resume: bool = False,
        checkpoint_every: int = 1,
        callbacks: Iterable[Callback] = (),
    ) -> History:
        """Plays that many rounds more and returns the history so far.

        Args:
            rounds: how many; with ``resume``, how many in all, counting those played before.
            run_dir: a folder to keep the run in: settings, history, checkpoints, summary.
            resume: go on with the run that ``run_dir`` holds, if it holds one.
            checkpoint_every: after how many rounds a checkpoint is written; one is always written at the end.
            callbacks: called after each round with the federation and the round's rows.
        """
        if rounds < 0 or checkpoint_every < 1:
            raise SettingsError(
                f"rounds is {rounds} and checkpoint_every {checkpoint_every}; expected at least 0 and at least 1."
            )
        if run_dir is None:
            if resume:
                raise SettingsError("There is nothing to resume without `run_dir`.")
            self._run(rounds, list(callbacks))
            return self.history
        going_on = self._kept_in == Path(run_dir)
        with RunFolder(run_dir, resume=resume or going_on) as folder:
            identity = fingerprint(self)
            if not going_on:
                self._begin(folder, identity)
            last = rounds if resume else self.history.rounds + rounds
            keep = self._keeper(folder, identity, last, checkpoint_every)
            self._run(last - self.history.rounds, [keep, *callbacks])
            folder.finish(self.history)
        return self.history

    def _run(self, rounds: int, callbacks: list[Callback]) -> None:
        self._welcome()
        for played in range(rounds):
            if played:
                self._welcome()
            rows = self._round(self.history.rounds + 1)
            for callback in callbacks:
                callback(self, rows)

    def _welcome(self) -> None:
        """Has those join who are there and have not joined: all at first, later whoever comes late, if it may."""
        if self._joined is not None and not self.method.late_joining:
            return
        joined = {name: tally for name, tally in (self._joined or {}).items() if not tally.absent}
        coming = [name for name in self.engine.present(self.participants) if name not in joined]
        try:
            tallies = self._play("join", coming) if coming else {}
        except MisfitError as error:  # a stranger to those who are at work already: they go on without it
            if not joined:
                raise
            log.warning("Refused to let %s join: %s", " and ".join(coming), error)
            tallies = {name: Tally(refused=str(error)) for name in coming}
        for tally in tallies.values():
            tally.since = self.history.rounds + 1
        self._joined = {**joined, **tallies}

    def _begin(self, folder: RunFolder, identity: Fingerprint) -> None:
        """Makes sure that everything can be kept, then takes up what the folder holds, if anything."""
        for participant in self.participants.values():
            participant.check_keepable()
        found = folder.begin(settings_of(self), identity)
        if found is None:
            folder.history(0)
            folder.append(self.history.rows())
        else:
            number, snapshot = found
            self.restore(snapshot)
            self.history = folder.history(number)
        self._kept_in = folder.path

    def _keeper(self, folder: RunFolder, identity: Fingerprint, last: int, every: int) -> Callback:
        """After each round its rows go to the folder, and then, if it is time, a checkpoint."""

        def keep(_: Federation, rows: list[Row]) -> None:
            folder.append(rows)
            if self.history.rounds % every == 0 or self.history.rounds == last:
                folder.save(self.history.rounds, self.snapshot(), identity)

        return keep

    def snapshot(self) -> State:
        """Everything that lasts between rounds: what a checkpoint holds."""
        return {
            "joined": {name: asdict(tally) for name, tally in (self._joined or {}).items()},
            "participants": {name: p.snapshot() for name, p in self.participants.items()},
            "server": self.server.snapshot(),
        }

    def restore(self, snapshot: State) -> None:
        """Takes up what ``snapshot`` gave; the next round goes on from there."""
        self._joined = {name: Tally(**tally) for name, tally in snapshot["joined"].items()}
        for name, kept in snapshot["participants"].items():
            self.participants[name].restore(kept)
        self.server.restore(snapshot["server"])

    def _round(self, number: int) -> list[Row]:
        """One round: those chosen do their half, everybody is evaluated, the history grows."""
        self.server.round = number
        for participant in self.participants.values():
            participant.round = number
        chosen = self._chosen(number)
        tallies = self._play("round", chosen)
        metrics = self.engine.evaluate(self._tests)
        return self.history.add(self._rows(number, chosen, tallies, metrics))

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
            coming, order = arrivals, self.method.exchanges()
            while True:
                behind: list[Arrival] = []
                for arrival in coming:
                    if arrival.exchange is None:
                        _end(tallies[arrival.sender], arrival)
                    elif arrival.exchange.name == name:
                        if self._accept(arrival, form, tallies[arrival.sender]):
                            answered.append(arrival.sender)
                            yield arrival.sender, arrival.exchange.payload
                    elif arrival.exchange.name in order[: order.index(name)]:
                        behind.append(arrival)
                    else:
                        aside.append(arrival)
                if not behind:
                    return
                # Whoever is at an exchange defined earlier is answered there first, and may still come to this one.
                earliest = min((a.exchange.name for a in behind if a.exchange), key=order.index)
                left: list[Arrival] = []
                replies = self._exchange(earliest, iter(behind), left, tallies)
                coming = chain(left, self.engine.resume(replies))

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
        tally.seconds = arrival.seconds
        try:
            tally.bytes_up += payload.size
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
        """What goes into the history. What joining took is counted in the round after it."""
        for name in self.participants:
            tally = tallies.get(name, Tally())
            joined = (self._joined or {}).get(name, Tally())
            joined = joined if joined.since == number else Tally()
            row: Row = {
                "round": number,
                "participant": name,
                **metrics[name],
                "bytes_up": tally.bytes_up + joined.bytes_up,
                "bytes_down": tally.bytes_down + joined.bytes_down,
                "seconds": tally.seconds + joined.seconds,
                "took_part": name in chosen,
                "refused": tally.refused or joined.refused,
            }
            notes = {**joined.notes, **tally.notes}
            if taken := sorted(set(notes) & set(row)):
                raise TypeError(
                    f"{type(self.method).__name__} notes {taken[0]!r}, which is measured; choose another name."
                )
            yield {**row, **notes}

    def _chosen(self, number: int) -> list[str]:
        """Who takes part in a round: drawn from seed and round alone, among those whose joining succeeded."""
        able = sorted(name for name, tally in (self._joined or {}).items() if tally.refused is None)
        if self.participation == 1.0 or not able:
            return able
        count = max(1, round(self.participation * len(able)))
        order = torch.randperm(len(able), generator=generator(self.seed, "participation", number))
        return sorted(able[index] for index in order[:count].tolist())

    def _server_public(self, shown: Published | None) -> Samples | None:
        if shown is None:
            return None
        x, y = shown
        labels = union(p.labels for p in self.participants.values())
        known = {} if y is None else {"y": encode(y, labels, "public data", strict=False)}
        return Samples({"x": x, **known})


def _end(tally: Tally, arrival: Arrival) -> None:
    tally.seconds = arrival.seconds
    tally.notes = arrival.notes
    tally.bytes_down += arrival.received
    tally.refused, tally.absent = tally.refused or arrival.failed, arrival.failed is not None
