"""The exchanges of a phase: who is refused, who is not there, and what becomes of the others."""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch

import potluck
from potluck.core.errors import PotluckError
from potluck.core.party import Arrival
from potluck.core.payload import LazyReplies, Payload
from potluck.core.requests import Exchange, Fit
from potluck.core.schema import Schema, TensorSpec
from potluck.engines.serial import Serial
from potluck.federation.federation import Federation
from potluck.federation.round import undeclared
from tests.tables import mlp, participants

CPU = torch.device("cpu")


class Telling(potluck.Method):
    """Everybody sends two numbers, but p1 three, which the server does not read. ``log`` notes how each half ends."""

    log: list[str]

    def join(self, me):
        reply = yield Exchange("hello", Payload())
        self.log.append(f"{me.name} has joined in round {me.round}")
        return {"heard": reply.facts["hello"]}

    def round(self, me):
        try:
            yield Exchange("tell", Payload({"x": torch.zeros(3 if me.name == "p1" else 2)}))
            self.log.append(f"{me.name} has an answer")
            yield Fit()
        except GeneratorExit:
            self.log.append(f"{me.name} is ended")
            raise

    @potluck.exchange(lambda self, server, sender: Schema(), phase="join")
    def hello(self, server, answers):
        return Payload(facts={"hello": sum(1 for _ in answers)})

    @potluck.exchange(lambda self, server, sender: Schema({"x": TensorSpec((2,))}))
    def tell(self, server, answers):
        self.log.append(f"the server reads {[sender for sender, _ in answers]}")
        return Payload()


class Late(Telling):
    late_joining = True


def nets(count=3):
    return participants([mlp(i) for i in range(count)])


@pytest.mark.parametrize("engine", ["serial", "batched"])
def test_a_refused_payload_ends_its_senders_session(engine):
    federation = Federation(nets(), Telling(log=[]), engine=engine)
    method = federation.method
    rows = federation.run(1).rows()
    events = method.log[3:]  # after joining
    assert events[0] == "p1 is ended", "before anybody else is answered"
    assert set(events[1:]) == {"the server reads ['p0', 'p2']", "p0 has an answer", "p2 has an answer"}
    sent = Payload({"x": torch.zeros(3)}).size + Payload().size
    assert rows[1]["refused"].startswith("tell: ")
    assert rows[1]["bytes_up"] == sent, "what was refused has travelled all the same"
    assert rows[1]["bytes_down"] == Payload(facts={"hello": 3}).size, "of joining alone"
    assert rows[0]["bytes_down"] == Payload(facts={"hello": 3}).size + Payload().size
    assert "p1" not in federation.engine._sessions
    method.log.clear()
    federation.run(1)
    assert "p1 is ended" in method.log, "a refusal costs the round, not the federation"


class Away(Serial):
    """An engine on which some do not answer at joining, the first so many times they are asked."""

    absences: dict[str, int] = {}  # noqa: RUF012

    def start(self, phase, parties, half, keep_optimizer):
        there = []
        for party in parties:
            if phase == "join" and self.absences.get(party.name, 0) > 0:
                self.absences[party.name] -= 1
                yield Arrival(party.name, failed="it did not answer in time", seconds=1.5)
            else:
                there.append(party)
        yield from super().start(phase, there, half, keep_optimizer)


@pytest.fixture
def away(monkeypatch):
    def engine(**absences):
        monkeypatch.setattr(Away, "absences", absences)
        return Away(CPU)

    return engine


def joined(method):
    return [line.removesuffix(" has joined in round 0") for line in method.log if "has joined" in line]


def test_whoever_did_not_answer_at_joining_is_asked_again(away):
    federation = Federation(nets(), Late(log=[]), engine=away(p2=2))
    rows = federation.run(4).rows()
    of_p2 = [row for row in rows if row["participant"] == "p2"]
    assert [row["took_part"] for row in of_p2] == [False, False, True, True]
    assert [row["refused"] for row in of_p2] == ["it did not answer in time"] * 2 + [None] * 2
    assert [line for line in federation.method.log if line.startswith("p2 has joined")] == ["p2 has joined in round 2"]
    assert [row["heard"] for row in rows if "heard" in row] == [2, 2, 1], "each joins once"


def test_where_nobody_may_come_late_whoever_did_not_answer_stays_out(away):
    federation = Federation(nets(), Telling(log=[]), engine=away(p2=1))
    took_part = [row["took_part"] for row in federation.run(3).rows() if row["participant"] == "p2"]
    assert took_part == [False, False, False]
    assert joined(federation.method) == ["p0", "p1"]


def test_what_joining_took_is_counted_in_the_round_after_it(away):
    federation = Federation(nets(), Late(log=[]), engine=away(p2=1))
    rows = [row for row in federation.run(3).rows() if row["participant"] == "p2"]
    hello, tell = Payload().size, Payload({"x": torch.zeros(2)}).size
    assert [row["bytes_up"] for row in rows] == [0, hello + tell, tell]
    assert rows[0]["seconds"] == 1.5
    assert "heard" not in rows[0]
    assert rows[1]["heard"] == 1
    assert "heard" not in rows[2]


@pytest.mark.parametrize(("participation", "drawn"), [(0.05, 1), (0.3, 2), (0.5, 4), (0.6, 4), (0.9, 6), (1.0, 7)])
def test_how_many_take_part(participation, drawn):
    """The share of those who have joined, rounded, and at least one: half of seven, 3.5, is four."""
    people = participants([mlp(i) for i in range(7)], sizes=[4] * 7, plan=potluck.Plan(epochs=0))
    federation = Federation(people, potluck.methods.Local(), participation=participation, seed=4, engine="serial")
    rows = federation.run(6).rows()
    rounds = [{row["participant"] for row in rows if row["round"] == n and row["took_part"]} for n in range(1, 7)]
    assert [len(names) for names in rounds] == [drawn] * 6
    assert participation == 1.0 or len({frozenset(names) for names in rounds}) > 1, "each round draws anew"


def test_who_is_drawn_depends_on_the_seed_and_the_round_alone():
    def drawn(seed, engine="serial", reverse=False, at_once=True):
        people = participants([mlp(i) for i in range(5)], sizes=[4] * 5, plan=potluck.Plan(epochs=0))
        people = people[::-1] if reverse else people
        federation = Federation(people, potluck.methods.Local(), participation=0.4, seed=seed, engine=engine)
        for rounds in (5,) if at_once else (2, 3):
            federation.run(rounds)
        return [(row["round"], row["participant"]) for row in federation.history.rows() if row["took_part"]]

    first = drawn(1)
    assert sorted(drawn(1, reverse=True)) == first
    assert drawn(1, "batched") == first == drawn(1, at_once=False)
    assert drawn(2) != first


def test_of_those_who_were_refused_at_joining_nobody_is_drawn():
    class Picky(potluck.Method):
        def join(self, me):
            yield Exchange("hello", Payload({"x": torch.zeros(1 if me.name == "p0" else 2)}))

        def round(self, me):
            yield Fit()

        @potluck.exchange(lambda self, server, sender: Schema({"x": TensorSpec((2,))}), phase="join")
        def hello(self, server, answers):
            list(answers)
            return Payload()

    rows = Federation(nets(4), Picky(), participation=0.5, engine="serial").run(5).rows()
    rounds = [[row["participant"] for row in rows if row["round"] == n and row["took_part"]] for n in range(1, 6)]
    assert all(len(names) == 2 and "p0" not in names for names in rounds), "half of three, rounded: two"


@pytest.mark.parametrize(
    ("notes", "wrong"),
    [
        ({}, None),
        ({"count": 3, "share": 0.5, "done": True, "word": "x"}, None),
        ({"share": 1}, None),
        ({"count": None, "share": None}, None),
        ({"more": 1}, "'more', which the method does not declare"),
        ({"count": 1.0}, "'count' = 1.0; the method declares int"),
        ({"count": True}, "'count' = True; the method declares int"),
        ({"share": False}, "'share' = False; the method declares float"),
        ({"done": 1}, "'done' = 1; the method declares bool"),
        ({"word": 1}, "'word' = 1; the method declares str"),
    ],
)
def test_notes_from_elsewhere_must_be_those_declared(notes, wrong):
    found = undeclared(notes, {"count": int, "share": float, "done": bool, "word": str})
    assert (found is None) if wrong is None else (wrong in found)


def test_replies_must_be_to_those_who_asked():
    class Forgetful(Telling):
        @potluck.exchange(lambda self, server, sender: Schema(), phase="join")
        def hello(self, server, answers):
            return {sender: Payload(facts={"hello": 0}) for sender, _ in answers if sender != "p2"}

    with pytest.raises(
        TypeError, match=r"Forgetful.hello must reply to \['p0', 'p1', 'p2'\]; replied to \['p0', 'p1'\]"
    ):
        Federation(nets(), Forgetful(log=[]), engine="serial").run(1)


@pytest.mark.parametrize(
    ("given", "of_method", "kept"), [(None, True, True), (None, False, False), (False, True, False)]
)
def test_whether_optimizers_remember_is_the_methods_choice_unless_somebody_makes_another(given, of_method, kept):
    class Remembering(potluck.methods.Local):
        keep_optimizer = of_method

    assert Federation(nets(1), Remembering(), keep_optimizer=given).keep_optimizer is kept


class Choosy(Late):
    """The server does not take p2."""

    @potluck.exchange(lambda self, server, sender: Schema(), phase="join")
    def hello(self, server, answers):
        if "p2" in {sender for sender, _ in answers}:
            raise potluck.RequirementsError("p2 is not taken.")
        return Payload(facts={"hello": 1})


def test_where_all_join_at_once_a_misfit_is_an_error():
    with pytest.raises(potluck.RequirementsError, match="p2 is not taken"):
        Federation(nets(), Choosy(log=[]), engine="serial").run(1)


def test_a_misfit_who_comes_late_stays_out_and_the_others_go_on(away, caplog):
    federation = Federation(nets(), Choosy(log=[]), engine=away(p2=1))
    rows = federation.run(3).rows()
    assert [row["refused"] for row in rows if row["participant"] == "p2"] == [
        "it did not answer in time",
        "p2 is not taken.",
        None,
    ]
    assert [row["took_part"] for row in rows] == [True, True, False] * 3
    assert "Refused to let p2 join: p2 is not taken." in caplog.text


def test_what_travels_at_each_exchange_adds_up_to_the_history(tmp_path):
    """Also when the run was cut off in the middle, and goes on in another federation."""

    def federation():
        return Federation(nets(), Telling(log=[]), seed=1)

    whole = federation()
    whole.run(rounds=3)
    counted = whole.travelled
    for side in (0, 1):
        name = ("bytes_up", "bytes_down")[side]
        assert sum(tally[name] for tally in counted.values()) == whole.history.bytes()[side] > 0
    assert (counted["hello"]["answers"], counted["tell"]["answers"], counted["tell"]["replies"]) == (3, 9, 6)
    federation().run(rounds=1, run_dir=tmp_path)
    resumed = federation()
    resumed.run(rounds=3, run_dir=tmp_path, resume=True)
    assert resumed.travelled == counted


class Elsewhere(potluck.Participant):
    """Taken for one on another machine."""

    is_local = False


def with_a_stranger(method, **settings):
    """A federation of three, of whom the round takes p2 for one on another machine."""
    federation = Federation(nets(), method, engine="serial", **settings)
    federation.participants["p2"].__class__ = Elsewhere
    return federation


class Failing(Telling):
    """The server's half meets what it does not expect."""

    notes: ClassVar[dict[str, type]] = {"heard": int}

    @potluck.exchange(lambda self, server, sender: Schema({"x": TensorSpec((None,))}))
    def tell(self, server, answers):
        raise ZeroDivisionError([sender for sender, _ in answers])


def test_a_merge_that_fails_ends_the_run_unless_somebody_else_may_be_to_blame():
    with pytest.raises(ZeroDivisionError):
        Federation(nets(), Failing(log=[]), engine="serial").run(1)
    federation = with_a_stranger(Failing(log=[]))
    rows = federation.run(1).rows()
    assert [row["refused"] for row in rows] == ["tell: nothing was merged, for anybody (ZeroDivisionError)"] * 3
    assert federation.method.log[3:] == ["p0 is ended", "p1 is ended", "p2 is ended"]


class Spoiling(Telling):
    """What the server replies to p2 is no number, and is made only when it is handed out."""

    notes: ClassVar[dict[str, type]] = {"heard": int}

    @potluck.exchange(lambda self, server, sender: Schema({"x": TensorSpec((None,))}))
    def tell(self, server, answers):
        senders = [sender for sender, _ in answers]
        return LazyReplies(senders, lambda sender: Payload({"x": torch.tensor(float("nan" if sender == "p2" else 0))}))


def test_a_reply_that_is_made_late_is_checked_before_it_leaves_the_machine():
    at_home = Federation(nets(), Spoiling(log=[]), engine="serial").run(1).rows()
    assert [row["refused"] for row in at_home] == [None] * 3
    with pytest.raises(PotluckError, match="the result cannot be sent"):
        with_a_stranger(Spoiling(log=[])).run(1)


class Hasty(Telling):
    """p1 says hello again where it should tell."""

    def round(self, me):
        if me.name == "p1":
            yield Exchange("hello", Payload())
        yield from super().round(me)


def test_what_is_not_due_is_a_mistake_of_the_method_where_it_runs():
    with pytest.raises(TypeError, match=r"Hasty at p1: .* Exchanges come in the order in which the method defines"):
        Federation(nets(), Hasty(log=[]), engine="serial").run(1)


class Picky(Telling):
    """The server's half refuses p2, in joining or in a round."""

    phase: str
    notes: ClassVar[dict[str, type]] = {"heard": int}

    @potluck.exchange(lambda self, server, sender: Schema(), phase="join")
    def hello(self, server, answers):
        list(answers)
        if self.phase == "join":
            server.refuse("p2", "it says hello too loudly")
        return Payload(facts={"hello": 3})

    @potluck.exchange(lambda self, server, sender: Schema({"x": TensorSpec((None,))}))
    def tell(self, server, answers):
        if "p2" in {sender for sender, _ in answers}:
            server.refuse("p2", "it told too much")
        return Payload()


def test_whom_the_server_refuses_in_a_round_is_left_out_and_the_others_go_on():
    federation = Federation(nets(), Picky(log=[], phase="round"), engine="serial")
    rows = federation.run(1).rows()
    assert [row["refused"] for row in rows] == [None, None, "it told too much"]
    assert federation.method.log[3:] == ["p2 is ended", "p0 has an answer", "p1 has an answer"]


class CatchingUp(Telling):
    """The server's half refuses p0 while it waits for p1, which fetches something first."""

    notes: ClassVar[dict[str, type]] = {"heard": int}

    def round(self, me):
        if me.name == "p1":
            yield Exchange("fetch", Payload())
        yield Exchange("say", Payload())

    @potluck.exchange(lambda self, server, sender: Schema(), optional=True)
    def fetch(self, server, answers):
        return dict.fromkeys([sender for sender, _ in answers], Payload())

    @potluck.exchange(lambda self, server, sender: Schema())
    def say(self, server, answers):
        for sender, _ in answers:
            if sender == "p0":
                server.refuse("p0", "it said too much")
        return dict.fromkeys(["p1", "p2"], Payload())

    @potluck.exchange(lambda self, server, sender: Schema({"x": TensorSpec((None,))}), optional=True)
    def tell(self, server, answers):
        return Payload()


@pytest.mark.parametrize("with_strangers", [False, True])
def test_a_refusal_is_of_its_own_exchange_also_where_another_is_answered_in_the_middle(with_strangers):
    method = CatchingUp(log=[])
    federation = with_a_stranger(method) if with_strangers else Federation(nets(), method, engine="serial")
    assert [row["refused"] for row in federation.run(1).rows()] == ["it said too much", None, None]
    assert federation.server.refused == {}


def test_whom_the_server_refuses_at_joining_does_not_fit():
    with pytest.raises(potluck.RequirementsError, match=r"p2 does not fit the others: it says hello too loudly\."):
        Federation(nets(), Picky(log=[], phase="join"), engine="serial").run(1)
    rows = with_a_stranger(Picky(log=[], phase="join")).run(1).rows()
    assert [row["took_part"] for row in rows] == [True, True, False], "somebody on another machine stays out alone"
