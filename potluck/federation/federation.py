"""A federation: participants, a method, public data, a seed; and the loop over rounds."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from potluck.channel.channel import Channel
from potluck.core.errors import RequirementsError, SettingsError
from potluck.core.exchange_order import Phase
from potluck.core.history import History
from potluck.core.inputs import shapes
from potluck.core.metrics import Metrics, Scores
from potluck.core.model_spec import OWN
from potluck.core.payload import LazyReplies
from potluck.core.profiler import Profiler
from potluck.core.samples import Samples
from potluck.core.settings import check_count, check_kind
from potluck.core.tasks import Task
from potluck.engines import make_engine
from potluck.engines.base import Engine
from potluck.federation.admission import admitted, published, published_test
from potluck.federation.availability import Availability, Presence, as_availability
from potluck.federation.clock import VirtualClock
from potluck.federation.evaluation import Evaluation, model_rows, only_looking, participant_rows
from potluck.federation.fingerprint import settings_as_run
from potluck.federation.method import Method
from potluck.federation.newcomers import Newcomers, nothing_noted
from potluck.federation.participant import Participant, State
from potluck.federation.participation import Participation, check_participation, choose
from potluck.federation.round import ExchangeLoop
from potluck.federation.round_log import round_facts, round_in_words
from potluck.federation.server import Server
from potluck.federation.storage import make_storage
from potluck.federation.stored_run import StoredRun
from potluck.federation.tally import ParticipantTally
from potluck.federation.worker_storage import WorkerStorage
from potluck.runs.callbacks import Callback, Callbacks, RoundFunction

log = logging.getLogger(__name__)


class Federation:
    """Participants, a method, public data and a seed.

    Args:
        participants: who takes part; names must differ. They may come one by one, as from a generator.
        method: what they do.
        public: data that all parties may see, as ``x``, ``(x, y)`` or a torch Dataset of such pairs; by default none.
        test: ``(x, y)`` that participants without test data of their own are evaluated on, each on the labels it knows,
            and models of the server's that the method reports; by default none.
        seed: what every random number derives from; by default 0.
        engine: "serial", "batched", "auto" or "autotune"; or an engine, with a device and a precision of its own,
            which stays as it is: the federation works with a fresh one of its settings, ``federation.engine``.
        device: a torch device, or "auto" (the default) for a GPU if there is one.
        precision: what networks compute in: "torch" (the default, PyTorch's own choice), "float32" or "bfloat16".
        participation: who takes part in a round: a share of the participants (a float up to 1.0, the default, for
            all), how many (an int), or a function (round, names, generator) → names.
        availability: drop-outs to simulate: the probability with which each participant is there in a round, or an
            ``Availability``; by default None, for nobody ever being away.
        clock: the speeds of the participants' devices, for simulated time beside the measured; by default None.
        keep_optimizer: whether optimizers remember across trainings; by default as the method says.
        max_concurrent: how many participants run together; by default as many as there is room for.
        storage: where participants are while others run: in "memory" (the default), or on "disk", in a temporary
            folder.
        channel: the route of all payloads, with its limits and codecs; by default ``Channel()``.
        unseen: participants who take no part and are evaluated when a run has ended, with what the method gives to one
            who joins then (see ``evaluate_unseen``); by default none.
        unseen_epochs: how many epochs each of them trains on its own data before; by default 0.
        evaluate_every: after how many rounds participants are evaluated; by default 1. After the last round of a run
            they always are. Rows of rounds without hold no metrics of those who took part.
    """

    def __init__(
        self,
        participants: Iterable[Participant],
        method: Method,
        *,
        public: Any = None,
        test: Any = None,
        seed: int = 0,
        engine: str | Engine = "auto",
        device: str = "auto",
        precision: str = "torch",
        participation: Participation = 1.0,
        availability: float | Availability | None = None,
        clock: VirtualClock | None = None,
        keep_optimizer: bool | None = None,
        max_concurrent: int | None = None,
        storage: str = "memory",
        channel: Channel | None = None,
        unseen: Iterable[Participant] = (),
        unseen_epochs: int = 0,
        evaluate_every: int = 1,
    ) -> None:
        check_kind("method", method, Method, "potluck.methods.CoFED(alpha=0.3)")
        check_kind("clock", clock, VirtualClock, 'VirtualClock(devices="phone")', optional=True)
        check_kind("channel", channel, Channel, "Channel(up=[TopK(0.1)])", optional=True)
        check_participation(participation)
        check_count("max_concurrent", max_concurrent, "participants", least=1, optional=True)
        self.method = method
        self.seed = seed
        self.participation = participation
        self.availability, self.clock = as_availability(availability), clock
        self.keep_optimizer = method.keep_optimizer if keep_optimizer is None else keep_optimizer
        self.engine = engine.fresh() if isinstance(engine, Engine) else make_engine(engine, device, precision)
        host, stored = self.engine.host, make_storage(storage, self.engine.timing, max_concurrent)
        if host is not None and stored is not None:
            raise SettingsError(f"storage is {storage!r}; with this engine participants stay in its workers' memory.")
        self.storage = stored if host is None else WorkerStorage(host)
        self.engine.max_concurrent, self.engine.storage = max_concurrent, self.storage
        self.channel = channel or Channel()
        self.history = History()
        self._evaluation = Evaluation(evaluate_every)
        self.run_dir: Path | None = None
        """The folder of the run that is played, or was played last."""
        self.last_round = 0
        """How many rounds that run is to have in all."""
        self.stopped: str | None = None
        """Why it ended before its last round, if it did."""
        self.made_from: dict[str, Any] = {}
        """The recipe it was made from, and the command, if any; stored with the settings of a run."""
        self._joined: dict[str, ParticipantTally] | None = None
        self._stored: StoredRun | None = None
        self._answering, self._server_answering = method.answering(), method.server_answering()

        shown, tests = published(public), published_test(test)
        newcomers = list(unseen)
        self.participants = admitted(chain(participants, newcomers), seed, method, shown, tests, self.storage)
        self.unseen = {p.name: self.participants.pop(p.name) for p in newcomers}
        if not self.participants:
            raise SettingsError("All participants are unseen; a federation needs at least one that takes part.")
        self._newcomers = Newcomers(self.unseen, method, unseen_epochs)
        self.unseen_scores: dict[str, Scores] = {}
        """What those who took no part scored at the end of the last run: name → "own" or a reported model → metrics."""
        self._published_test, self._shown = tests, shown
        self.server = Server(
            seed,
            {name: p.weight for name, p in self.participants.items()},
            None if shown is None else shown.for_server().whole(self.task),
            declare=method.server_models,
            input_shape=shapes(next(iter(self.participants.values())).data.kinds),
            task=self.task,
            budget=self.channel.limits.bytes,
        )
        for names in (self.availability, self.clock):
            if names is not None:
                names.check_names(self.participants)
        self._exchanges = ExchangeLoop(method, self.server, self.engine, self.channel, clock)

    def __repr__(self) -> str:
        return f"Federation({len(self.participants)} participants, {self.method!r}, seed {self.seed})"

    def run(
        self,
        rounds: int,
        *,
        run_dir: str | os.PathLike[str] | None = None,
        resume: bool = False,
        checkpoint_every: int = 1,
        callbacks: Iterable[Callback | RoundFunction] = (),
    ) -> History:
        """Plays that many rounds more and returns the history so far.

        Args:
            rounds: how many; with ``resume``, how many in all, counting those played before.
            run_dir: a folder for the run's settings, history, checkpoints and summary; by default nothing is stored.
            resume: whether to go on with the run in ``run_dir``, if there is one; by default False.
            checkpoint_every: after how many rounds a checkpoint is written; by default 1. One is always written at the
                end.
            callbacks: objects of ``Callback``, such as ``EarlyStopping``, and functions, which are called after each
                round with the federation and the round's rows; by default none.
        """
        check_count("rounds", rounds, "rounds", least=0)
        check_count("checkpoint_every", checkpoint_every, "rounds", least=1)
        listening = Callbacks(callbacks)
        if run_dir is None:
            if resume:
                raise SettingsError("There is nothing to resume without `run_dir`.")
            self._run(self.history.rounds + rounds, listening, None)
            return self.history
        run = self._stored if self._stored and self._stored.path == Path(run_dir) else StoredRun(self, run_dir, resume)
        with run:
            run.begin(checkpoint_every)
            self._stored = run
            self._run(rounds if resume else self.history.rounds + rounds, listening, run)
        return self.history

    def _run(self, last: int, callbacks: Callbacks, run: StoredRun | None) -> None:
        """Plays rounds up to the last one, or until somebody stops it, and tells who listens."""
        self.run_dir, self.last_round, self.stopped = None if run is None else run.path, last, None
        self._exchanges.live = None if run is None else run.watched(last)
        callbacks.begin(self)
        try:
            self._play_rounds(callbacks, run)
            if run is not None:
                summary: dict[str, Any] = {"unseen": self.unseen_scores} if self.unseen else {}
                summary |= {"exchanges": self.travelled, "stopped": self.stopped, **callbacks.summary()}
                summary["server_seconds"] = round(self._exchanges.server_seconds, 3)
                run.finish({**summary, **self.method.results(self.server), **self.engine.report()})
        except BaseException as error:
            callbacks.end(self, error)
            raise
        callbacks.end(self, None)

    def _play_rounds(self, callbacks: Callbacks, run: StoredRun | None) -> None:
        for participant in self.participants.values():
            participant.look_again()
        with self.engine.timing["other"]:
            self._welcome()
            first, began = self.history.rounds, time.monotonic()
            while self.history.rounds < self.last_round and not self._may_stop:
                if self.history.rounds > first:
                    self._welcome()
                number = self.history.rounds + 1
                self._round(number)
                if run is not None:
                    run.keep(number)
                if log.isEnabledFor(logging.INFO):
                    facts = round_facts(self.history, self.last_round, first, time.monotonic() - began)
                    log.info("%s", round_in_words(facts), extra={"facts": facts})
                if callbacks.after_round:
                    rows = list(self.history.at(number).rows)
                    for callback in callbacks.after_round:
                        callback(self, rows)
            self.unseen_scores = self.evaluate_unseen()

    @property
    def evaluate_every(self) -> int:
        """After how many rounds participants are evaluated."""
        return self._evaluation.every

    @property
    def _may_stop(self) -> bool:
        """Whether somebody has stopped the run, and it has come to a round whose result is known."""
        return self.stopped is not None and self._evaluation.due(self.history.rounds, self.last_round)

    def stop(self, why: str) -> None:
        """Has the run that is being played end after this round, or after the next one that is evaluated.

        Args:
            why: in words, for the run's summary.
        """
        self.stopped = why

    def settings(self) -> dict[str, Any]:
        """The settings as run, with versions, as a run folder keeps them."""
        return settings_as_run(self)

    def keep_copy(self, folder: Path) -> None:
        """Writes the federation's run as it stands now to a new run folder, from where it can go on."""
        with only_looking(self.participants), StoredRun(self, folder, resume=False) as run:
            run.begin()
            run.finish({})

    def _welcome(self) -> None:
        """Has those join who are present and have not joined: all at first, later those who are late, if they may."""
        if self._joined is not None and not self.method.late_joining:
            return
        joined = {name: tally for name, tally in (self._joined or {}).items() if not tally.absent}
        coming = [name for name in self.engine.present(self.participants) if name not in joined]
        tallies: dict[str, ParticipantTally] = {}
        # Those who are late join one after the other, so that who does not fit the others is refused alone.
        for names in [[name] for name in sorted(coming)] if joined else [coming] if coming else []:
            try:
                tallies |= self._play("join", names)
            except RequirementsError as error:
                if not joined:
                    raise
                log.warning("Refused to let %s join: %s", names[0], error)
                tallies[names[0]] = ParticipantTally(refused=str(error))
        for tally in tallies.values():
            tally.since = self.history.rounds + 1
        if self._joined is None:
            self.server.build_models()
        self._joined = {**joined, **tallies}

    def profile(self) -> Profiler:
        """Times the run, phase by phase, from now on, and returns the profiler."""
        return self.engine.profile()

    def test_of(self, participant: Participant) -> Samples | None:
        """What a participant is evaluated on: its own test data, or those of the federation's whose labels it knows."""
        return participant.own_test(self._published_test)

    @property
    def task(self) -> Task:
        """What the server knows of the participants' tasks: of labels all that anybody knows."""
        first, *others = (participant.task for participant in self.participants.values())
        return first.common(others)

    @property
    def server_test(self) -> Samples | None:
        """What models of the server's are evaluated on: the federation's test data, whose labels participants know."""
        if self._published_test is None:
            return None
        return self._published_test.known(self.task)

    def evaluate(self, data_of: Callable[[Participant], Samples | None]) -> dict[str, Metrics]:
        """Everybody's metrics as the models are now, on the data that are named for each; None for no data."""
        with self.engine.timing["evaluate"], only_looking(self.participants):
            scores = self.engine.evaluate(self.participants, data_of, self._answering)
        return {name: found[OWN] for name, found in scores.items()}

    def validate(self) -> dict[str, Metrics]:
        """Everybody's metrics on its validation data, as the models are now; of those who have some."""
        names = [name for name, party in self.participants.items() if party.validation is not None]
        scores = self.evaluate(lambda party: party.validation) if names else {}
        return {name: scores[name] for name in names}

    def evaluate_unseen(self) -> dict[str, Scores]:
        """What those score who take no part, as newcomers: each joins now, and trains a few epochs of its own.

        Nothing of it stays: not with the server, not in the history. It is the same after a resume.
        """
        people = self._newcomers.prepare(self.seed, self._shown, self.history.rounds)
        if not people:
            return {}
        before = self.travelled
        with nothing_noted(self.server):
            tallies = self._exchanges.play("join", people, self.keep_optimizer, timed=False)
        self._exchanges.count_on(before)
        there = self._newcomers.joined(tallies)
        if self._newcomers.epochs:
            list(self.engine.start("adapt", list(there.values()), self._newcomers.adapt, self.keep_optimizer))
        scores = self.engine.evaluate(there, self.test_of, self._answering)
        return {name: scores.get(name, {OWN: self.unseen[name].task.nothing}) for name in tallies}

    @property
    def travelled(self) -> dict[str, dict[str, int]]:
        """What travelled at each exchange so far: how many answers and replies, and their bytes."""
        return {name: asdict(tally) for name, tally in self._exchanges.travelled.items()}

    def snapshot(self) -> State:
        """Everything that lasts between rounds: what a checkpoint holds. Participants' entries are made on access."""
        codecs = self.server.codec_memory
        return {
            "joined": {name: asdict(tally) for name, tally in (self._joined or {}).items()},
            "participants": LazyReplies(self.participants, lambda name: self.participants[name].snapshot()),
            "server": self.server.snapshot(),
            "engine": self.engine.snapshot(),
            "travelled": self.travelled,
            "to evaluate": self._evaluation.waiting(self.participants),
            **({"codecs": LazyReplies(codecs, codecs.__getitem__)} if any(codecs.values()) else {}),
        }

    def restore(self, snapshot: State, history: History) -> None:
        """Restores what ``snapshot`` returned, and the history up to there; the next round goes on from there."""
        self._joined = {name: ParticipantTally(**tally) for name, tally in snapshot["joined"].items()}
        for name, state in snapshot["participants"].items():
            self.participants[name].restore(state)
            if self.storage is not None:
                self.storage.evict([self.participants[name]])
        self.server.restore(snapshot["server"])
        self._exchanges.count_on(snapshot.get("travelled", {}))
        self.server.codec_memory = {name: dict(state) for name, state in snapshot.get("codecs", {}).items()}
        self.engine.restore(snapshot["engine"])
        self.history = history
        self._be_in(history.rounds)
        self._evaluation.restore(self.participants, snapshot.get("to evaluate", ()))

    def _round(self, number: int) -> None:
        """One round: those chosen do their half, all are evaluated, the history grows."""
        self._be_in(number)
        chosen = self._chosen(number)
        presence = {name: self.availability.of(name, number, self.seed) for name in chosen} if self.availability else {}
        there = [name for name in chosen if presence.get(name) != "away"]
        tallies = self._play("round", there, presence)
        tallies |= {name: ParticipantTally(refused="it was away") for name in set(chosen) - set(there)}
        with self.engine.timing["evaluate"]:
            scores, of_server = self._scores_after(number)
        rows = participant_rows(
            number,
            self.participants,
            there,
            tallies,
            {name: tally for name, tally in (self._joined or {}).items() if tally.since == number},
            scores,
            self.history,
            known=self._known_score,
            clock=self.clock is not None,
            method=type(self.method).__name__,
        )
        self.history.add(chain(rows, model_rows(number, scores, of_server, self.history)))

    def _scores_after(self, number: int) -> tuple[dict[str, Scores], Scores]:
        """What participants score after a round, those whose answers may have changed, and the server's models."""
        if not self._evaluation.due(number, self.last_round):
            return {}, {}
        asked = {name: party for name, party in self.participants.items() if self._evaluation.outdated(party)}
        scores = self.engine.evaluate(asked, self.test_of, self._answering)
        self._evaluation.done(asked.values())
        return scores, self._server_scores()

    def _known_score(self, name: str) -> Metrics:
        """What somebody who was not evaluated scores: as before, or nothing that is known, if it has changed since."""
        party = self.participants[name]
        return {} if self._evaluation.outdated(party) else self.history.newest(name, party.task.nothing)

    def _server_scores(self) -> Scores:
        """How well the server's models answer the federation's test data, if the method reports any."""
        if not self._server_answering or (test := self.server_test) is None:
            return {}
        return self.engine.evaluate_server(self.server, test, self._server_answering)

    def _be_in(self, number: int) -> None:
        self.server.round = number
        for participant in self.participants.values():
            participant.round = number

    def _play(
        self, phase: Phase, names: list[str], presence: Mapping[str, Presence] | None = None
    ) -> dict[str, ParticipantTally]:
        """Runs one phase at the named participants, some of whose answers may not arrive."""
        # By name, not as listed: the order a user lists participants in must not change any result.
        parties = [self.participants[name] for name in sorted(names)]
        for party in parties:  # also where it is another process that has them in hand
            party.looked_into = True
        return self._exchanges.play(phase, parties, self.keep_optimizer, presence)

    def _chosen(self, number: int) -> list[str]:
        """Who takes part in a round: drawn from seed and round alone, among those whose joining succeeded."""
        able = sorted(name for name, tally in (self._joined or {}).items() if tally.refused is None)
        everybody = isinstance(self.participation, float) and self.participation == 1.0
        return able if everybody else choose(self.participation, number, able, self.seed)
