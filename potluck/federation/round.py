"""The exchanges of a phase: participants run from exchange to exchange, and the server replies to all at one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from inspect import isgeneratorfunction
from itertools import chain
from typing import Any

from potluck.channel.channel import Channel
from potluck.core.errors import MergeError, PayloadError, PotluckError, RequirementsError
from potluck.core.exchange_order import ExchangeOrder, Phase
from potluck.core.party import Arrival
from potluck.core.payload import LazyReplies, Payload
from potluck.core.schema import Schema
from potluck.engines.base import Engine
from potluck.federation.attacks import Attack
from potluck.federation.availability import Presence
from potluck.federation.channel_ends import ChannelEnds
from potluck.federation.clock import PhaseClock, VirtualClock
from potluck.federation.liars import Crowd, remember
from potluck.federation.method import Method
from potluck.federation.participant import Participant, State
from potluck.federation.server import Answers, Server
from potluck.federation.tally import ExchangeTally, ParticipantTally
from potluck.runs.live import Doing, LiveFile

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServerHalf:
    """One exchange at the server: its place in the method's order, what it answers, what must be sent.

    Args:
        place: its place in the method's order.
        serve: answers a set of payloads.
        schema: what a sender's payload must look like.
    """

    place: int
    serve: Callable[[Server, Answers], Any]
    schema: Callable[[Server, str], Schema]


class ExchangeLoop:
    """Plays a phase: all participants' halves of a method, and the server's.

    Args:
        method: what the parties do.
        server: the server.
        engine: runs the participants' halves and answers their work.
        channel: codes, counts and checks payloads.
        clock: the speeds of the participants' devices, where time is simulated; by default None.
    """

    def __init__(
        self, method: Method, server: Server, engine: Engine, channel: Channel, clock: VirtualClock | None = None
    ) -> None:
        self._method, self._server, self._engine, self._channel = method, server, engine, channel
        self._devices = clock
        channel.check_exchanges(type(method).__name__, method.exchanges())
        self._ends = None if channel.is_plain else ChannelEnds(channel, server, engine.timing)
        self._halves = {
            name: ServerHalf(place, *method.answered_by(name)) for place, name in enumerate(method.exchanges())
        }
        self.travelled = {name: ExchangeTally() for name in self._halves}
        """What travelled at each exchange so far."""
        self.server_seconds = 0.0
        """How long the server's halves have worked, without waiting for answers."""
        self._turns = method.turns()
        self._parties: dict[str, Participant] = {}
        self._tallies: dict[str, ParticipantTally] = {}
        self._waiting: dict[str, list[Arrival]] = {}
        self._clock: PhaseClock | None = None
        self._presence: Mapping[str, Presence] = {}
        self._phase: Phase = "join"
        self._attacks: dict[str, Attack] = {}
        self._orders: dict[str, ExchangeOrder] = {}
        self.live: LiveFile | None = None
        """Who is notified of what everybody does at present, if anybody is."""
        self._passing: Exception | None = None
        """An error that is none of the server's half's, on its way through it."""

    def count_on(self, travelled: Mapping[str, Mapping[str, int]]) -> None:
        """Goes on counting from what had travelled at each exchange."""
        self.travelled |= {name: ExchangeTally(**counts) for name, counts in travelled.items()}

    def play(
        self,
        phase: Phase,
        parties: Sequence[Participant],
        keep_optimizer: bool,
        presence: Mapping[str, Presence] | None = None,
        timed: bool = True,
    ) -> dict[str, ParticipantTally]:
        """Runs a phase at these participants until all have ended, and returns what each sent and noted.

        Args:
            phase: what they play.
            parties: who.
            keep_optimizer: whether optimizers remember, unless something else is said of a model.
            presence: participant → whether its answers arrive; by default all of them do.
            timed: whether the virtual clock runs, where there is one; by default True.
        """
        self._parties = {party.name: party for party in parties}
        self._tallies, self._waiting = {name: ParticipantTally() for name in self._parties}, {}
        self._clock = None if self._devices is None or not timed else PhaseClock(self._devices, self._parties)
        self._presence = presence or {}
        self._phase = phase
        self._attacks = {p.name: p.attack for p in parties if p.attack is not None} if phase == "round" else {}
        self._orders = {name: ExchangeOrder(phase, self._turns) for name in self._parties}
        if self.live is not None:
            self.live.phase(phase, self._server.round, self._parties)
        if self._ends is not None:
            self._ends.begin(self._server.round if phase == "round" else 0)
        arrivals = self._at_exchanges(self._engine.start(phase, parties, getattr(self._method, phase), keep_optimizer))
        while True:
            if (first := next(arrivals, None)) is not None:
                assert first.exchange is not None
                arrivals = self._answered(first.exchange.name, chain([first], arrivals))
            elif self._waiting:
                arrivals = self._answered(min(self._waiting, key=self._place), iter(()))
            else:
                return self._tallies

    def _at_exchanges(self, arrivals: Iterator[Arrival]) -> Iterator[Arrival]:
        """The arrivals at an exchange that is due. Those at the end of their half are tallied."""
        for arrival in arrivals:
            self._now(arrival.sender, "waiting" if arrival.exchange is not None else "done")
            if self._clock is not None:
                self._clock.worked(arrival.sender, arrival.steps)
            if arrival.exchange is None:
                self._end(arrival)
            elif (wrong := self._orders[arrival.sender].come_to(arrival.exchange.name)) is not None:
                self._out_of_turn(arrival, wrong)
            elif arrival.sender in self._attacks or self._is_sent(arrival):
                yield arrival

    def _is_sent(self, arrival: Arrival) -> bool:
        """Whether what a participant sends could be coded: here and now, while it is in memory."""
        sender, exchange = arrival.sender, arrival.exchange
        assert exchange is not None
        try:
            if self._ends is not None:
                self._ends.send(self._parties[sender], exchange.name, exchange.payload)
        except PayloadError as error:
            self._refuse(sender, f"{exchange.name}: {error}")
            return False
        return True

    def _end(self, arrival: Arrival) -> None:
        """Tallies a participant whose half has ended. Undeclared notes from another machine are refused."""
        tally, is_local = self._tallies[arrival.sender], self._parties[arrival.sender].is_local
        wrong = None if is_local else undeclared(arrival.notes, self._method.notes)
        missing = None if arrival.failed else self._orders[arrival.sender].end()
        tally.seconds, tally.simulated_seconds = arrival.seconds, self._simulated(arrival.sender)
        tally.bytes_down += arrival.received
        tally.absent = arrival.failed is not None
        if tally.absent and self._ends is not None:
            self._ends.forget(self._parties[arrival.sender])
        tally.refused = tally.refused or arrival.failed
        if tally.refused:
            self._now(arrival.sender, "out", tally.refused)
        if missing is not None:
            self._out_of_turn(arrival, missing)
        elif wrong is None:
            tally.notes = arrival.notes
        else:
            self._refuse(arrival.sender, wrong)

    def _answered(self, name: str, arrivals: Iterator[Arrival]) -> Iterator[Arrival]:
        """Answers an exchange for all who arrive at it, and resumes them; returns their next arrivals."""
        senders: list[str] = []
        lost: list[str] = []
        waits: list[float] = []
        answers = self._watched(self._answers(name, arrivals, senders, lost), waits)
        first = next(answers, None)
        if first is None:
            return iter(())
        before = self._state_before(name)
        # This one may be answered in the middle of another, whose server half has refused some of its own already.
        of_another, self._server.refused = self._server.refused, {}
        try:
            waits.clear()
            began = time.perf_counter()
            with self._engine.timing["merge"]:
                replies = self._served(name, chain([first], answers))
            self.server_seconds += time.perf_counter() - began - sum(waits)
            for _ in answers:
                pass  # those whose answers the server did not take have arrived at the exchange all the same
            if self._clock is not None:
                self._clock.reply(senders, bool(lost))
            self._refuse_chosen(senders)
            resumed = self._engine.resume(self._replies(name, replies, senders))
        except Exception as error:
            if error is self._passing or not (isinstance(error, MergeError) or self._strangers(senders)):
                raise
            for _ in answers:
                pass
            self._give_up(name, senders, before, error)
            return iter(())
        finally:
            self._server.refused = of_another
        return self._at_exchanges(resumed)

    def _watched(self, answers: Answers, waits: list[float]) -> Answers:
        """The answers, and the seconds until each; an error on the way to them is not the server half's own."""
        while True:
            began = time.perf_counter()
            try:
                answer = next(answers, None)
            except Exception as error:
                self._passing = error
                raise
            finally:
                waits.append(time.perf_counter() - began)
            if answer is None:
                return
            yield answer

    def _served(self, name: str, answers: Answers) -> Payload | Mapping[str, Payload]:
        """The server's replies. Those that are there already are checked before any of them is sent."""
        replies = self._halves[name].serve(self._server, answers)
        if isinstance(replies, Generator):
            replies = self._engine.serve(self._server, replies, name)
        made: Payload | Mapping[str, Payload] = replies
        found: dict[str, Payload] = {"": made} if isinstance(made, Payload) else {}
        for reply in (made if isinstance(made, dict) else found).values():
            check_merged(reply)
        return made

    def _state_before(self, name: str) -> State:
        """What ``restore`` takes the server back to. What is stored of its models is made only where a half has any."""
        if isgeneratorfunction(self._halves[name].serve):
            snapshot = self._server.snapshot()
            return {"state": containers(snapshot["state"], {}), "learners": deepcopy(snapshot["learners"])}
        return {"state": containers(self._server.state, {})}

    def _refuse_chosen(self, senders: list[str]) -> None:
        """Ends the halves of those whom the server's half refused."""
        for sender, reason in self._server.refused.items():
            if self._phase == "join" and not self._strangers([sender]):
                raise RequirementsError(f"{sender} does not fit the others: {reason}.")
            senders.remove(sender)
            self._refuse(sender, reason)

    def _strangers(self, names: Collection[str]) -> bool:
        """Whether any of these is on another machine, whose answers must not end a run, whatever becomes of them."""
        return any(not self._parties[name].is_local for name in names)

    def _give_up(self, name: str, senders: Collection[str], before: Any, error: Exception) -> None:
        """A merge that failed changes nobody: the server is as before it, and those who sent something end here."""
        log.warning("Nothing was merged at %r in round %d", name, self._server.round, exc_info=error)
        self._server.restore(before)
        reason = f": {error}" if isinstance(error, PotluckError) else f" ({type(error).__name__})"
        for sender in senders:
            self._tallies[sender].refused = f"{name}: nothing was merged, for anybody{reason}"
            self._now(sender, "out", f"nothing was merged{reason}")
            self._tallies[sender].simulated_seconds = self._simulated(sender)
            if self._ends is not None:
                self._ends.forget(self._parties[sender])
        self._engine.give_up(senders)

    def _answers(
        self, name: str, arrivals: Iterator[Arrival], senders: list[str], lost: list[str]
    ) -> Iterator[tuple[str, Payload]]:
        """The answers sent to an exchange, as they arrive, with their senders. Whose do not arrive are ``lost``.

        Participants at an earlier exchange are answered there first, and may still arrive at this one. Those at a
        later one wait.
        """
        place = self._halves[name].place
        crowd = Crowd(self._attacks, self._server, self._halves[name].schema) if self._attacks else None
        while True:
            for arrival in chain(self._waiting.pop(name, ()), arrivals):
                assert arrival.exchange is not None
                if arrival.exchange.name != name:
                    self._waiting.setdefault(arrival.exchange.name, []).append(arrival)
                elif crowd is not None and crowd.keeps(arrival):
                    continue
                elif (payload := self._accept(arrival, name, arrival.exchange.payload, lost)) is not None:
                    senders.append(arrival.sender)
                    yield arrival.sender, payload
            earlier = [other for other in self._waiting if self._place(other) < place]
            if earlier:
                arrivals = self._answered(min(earlier, key=self._place), iter(()))
            elif crowd is not None and (lies := [arrival for arrival in crowd.lies() if self._is_sent(arrival)]):
                arrivals = iter(lies)
            else:
                return

    def _place(self, name: str) -> int:
        return self._halves[name].place

    def _replies(
        self, name: str, replies: Payload | Mapping[str, Payload], senders: Sequence[str]
    ) -> Mapping[str, Payload]:
        """One reply for each sender, counted when it is handed out."""
        if not isinstance(replies, Payload) and set(replies) != set(senders):
            raise TypeError(
                f"{type(self._method).__name__}.{name} must reply to {list(senders)}; replied to {list(replies)}"
            )

        travelled = self.travelled[name]

        def hand_out(sender: str) -> Payload:
            began = time.perf_counter()
            reply = replies if isinstance(replies, Payload) else replies[sender]
            self.server_seconds += time.perf_counter() - began
            if not isinstance(replies, Payload | dict) and not self._parties[sender].is_local:
                check_merged(reply)
            ends, party = self._ends, self._parties[sender]
            travelling, handed = (reply, reply) if ends is None else ends.reply(party, name, reply)
            if party.attack is not None:
                remember(self._server, sender, handed)
            size = self._channel.size(travelling)
            self._now(sender, "working")
            self._tallies[sender].bytes_down += size
            travelled.replies += 1
            travelled.bytes_down += size
            if self._clock is not None:
                self._clock.received(sender, size)
            return handed

        return LazyReplies(senders, hand_out)

    def _accept(self, arrival: Arrival, name: str, payload: Payload, lost: list[str]) -> Payload | None:
        """What is read of an answer, which is counted. None if it is lost on the way, or must not be read."""
        sender, tally, party = arrival.sender, self._tallies[arrival.sender], self._parties[arrival.sender]
        tally.seconds = arrival.seconds
        says_something = bool(payload.tensors or payload.facts)
        presence = self._presence.get(sender, "there") if says_something else "there"
        if presence == "leaves":
            lost.append(sender)
            self._refuse(sender, "it left before its answer arrived")
            return None
        try:
            size = self._channel.size(payload if self._ends is None else self._ends.travelling(party, payload))
            tally.bytes_up += size
            self.travelled[name].answers += 1
            self.travelled[name].bytes_up += size
            late = None if self._clock is None else self._clock.sent(sender, size)
            if late is not None or presence == "late":
                lost.append(sender)
                self._refuse(sender, late or "too slow: its answer came after the deadline")
                return None
            schema = self._halves[name].schema(self._server, sender)
            read = payload if self._ends is None else self._ends.read(party, name, payload, schema)
            self._channel.check(read, schema)
        except PayloadError as error:
            self._refuse(sender, f"{name}: {error}")
            return None
        except Exception as error:
            if not self._strangers([sender]):
                raise
            log.warning("The answer of %s could not be checked", sender, exc_info=error)
            self._refuse(sender, f"{name}: it could not be checked ({type(error).__name__})")
            return None
        return read

    def _now(self, name: str, doing: Doing, why: str = "") -> None:
        if self.live is not None:
            self.live.now(name, doing, why)

    def _simulated(self, name: str) -> float | None:
        """How far the virtual clock is for a participant, where there is one."""
        return None if self._clock is None else self._clock.now[name]

    def _out_of_turn(self, arrival: Arrival, wrong: str) -> None:
        """Refuses what is not due; on this machine that is an error in the method."""
        if self._parties[arrival.sender].is_local:
            if arrival.exchange is not None:
                self._method.answered_by(arrival.exchange.name)  # raises for an unknown one, and says which there are
            raise TypeError(
                f"{type(self._method).__name__} at {arrival.sender}: {wrong}. Exchanges come in the order in which the "
                f"method defines them, once each; see `phase`, `optional` and `repeats` of @exchange."
            )
        self._refuse(arrival.sender, wrong)

    def _refuse(self, sender: str, reason: str) -> None:
        """Ends a participant's half; the phase goes on without it."""
        self._tallies[sender].refused = reason
        self._now(sender, "out", reason)
        self._tallies[sender].simulated_seconds = self._simulated(sender)
        log.warning("Round %d goes on without %s: %s", self._server.round, sender, reason)
        try:
            self._engine.dismiss(sender)
        except Exception as error:  # as when too few are left
            self._passing = error
            raise


def containers(value: Any, known: dict[int, Any]) -> Any:
    """The same values in dicts and lists of their own. Tensors are replaced in the state, and not written to."""
    if not isinstance(value, dict | list):
        return value
    if id(value) not in known:
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        copied = [(name, containers(item, known)) for name, item in pairs]
        known[id(value)] = dict(copied) if isinstance(value, dict) else [item for _, item in copied]
    return known[id(value)]


def check_merged(reply: Payload) -> None:
    """Raises MergeError for a reply that no participant would take."""
    try:
        reply.check_finite()
    except PayloadError as error:
        raise MergeError(f"the result cannot be sent: {error}") from None


def undeclared(notes: Mapping[str, Any], declared: Mapping[str, type]) -> str | None:
    """What is wrong with notes that must be those which the method declares; None if nothing is."""
    for name, value in notes.items():
        if name not in declared:
            return f"it notes {name!r}, which the method does not declare (`notes`)"
        kinds = (int, float) if declared[name] is float else (declared[name],)
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool) > (bool in kinds)):
            return f"it notes {name!r} = {value!r}; the method declares {declared[name].__name__}"
    return None
