"""How many must answer: whoever is refused or does not answer no longer counts, wherever it ends early."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from potluck.channel.limits import Limits
from potluck.core.payload import Payload
from potluck.engines import pick_device
from potluck.flower.engine import Flower, Rules, TooFewError
from potluck.flower.gateway import NoAnswer
from potluck.flower.protocol import ExchangeReached

PARTIES = [SimpleNamespace(name=name, round=1) for name in ("p0", "p1", "p2")]


class Scripted:
    """A gateway behind which everybody comes to an exchange at once, but those who are away never answer."""

    def __init__(self, away=()):
        self.limits = Limits()
        self.heard, self.probed = set(), []
        self.away = set(away)
        self.connections = {party.name: SimpleNamespace(public_bytes=0) for party in PARTIES}

    def is_connected(self, name):
        return True

    def probe(self, name, message):
        self.probed.append((name, message.head))

    def ask(self, messages, timeouts, wait_on):
        for name, message in messages.items():
            if name in self.away:
                yield name, message, NoAnswer("it did not answer in time")
            else:
                head = message.head
                reached = ExchangeReached(
                    name=name, phase=head["phase"], round=head["round"], step=head["step"], exchange="tell", seconds=0.0
                )
                yield name, reached.message(Payload().to_bytes()), reached


def engine(minimum, **script):
    return Flower(Scripted(**script), pick_device("cpu"), Rules(min_participants=minimum))


def test_a_refused_payload_counts_against_the_minimum():
    flower = engine(2)
    arrivals = list(flower.start("round", PARTIES, None, False))
    assert [arrival.sender for arrival in arrivals] == ["p0", "p1", "p2"]
    assert not any(arrival.failed for arrival in arrivals)
    flower.dismiss("p0")  # two are left, as many as are needed
    with pytest.raises(TooFewError, match="1 of 3 participants are left, and 2 are needed"):
        flower.dismiss("p2")


def test_an_absence_and_a_refusal_count_alike():
    flower = engine(2, away=["p1"])
    arrivals = {arrival.sender: arrival.failed for arrival in flower.start("round", PARTIES, None, False)}
    assert arrivals == {"p0": None, "p1": "it did not answer in time", "p2": None}
    with pytest.raises(TooFewError, match="1 of 3 participants are left"):
        flower.dismiss("p0")


def test_each_phase_counts_anew():
    flower = engine(3)
    list(flower.start("round", PARTIES, None, False))
    with pytest.raises(TooFewError):
        flower.dismiss("p0")
    assert len(list(flower.start("round", PARTIES, None, False))) == 3


def test_fewer_than_needed_are_not_asked_at_all():
    with pytest.raises(TooFewError, match="2 of 2 participants are left, and 3 are needed"):
        next(engine(3).start("round", PARTIES[:2], None, False))
    with pytest.raises(TooFewError, match="2 of 2 participants are left, and 3 are needed"):
        next(engine(3).start("join", PARTIES[:2], None, False))


def test_whoever_comes_late_joins_alone():
    flower = engine(2)
    list(flower.start("join", PARTIES[:2], None, False))
    list(flower.start("round", PARTIES[:2], None, False))
    assert len(list(flower.start("join", PARTIES[2:], None, False))) == 1
    flower.dismiss("p2")
    resumed = engine(2)
    resumed.restore({})
    assert len(list(resumed.start("join", PARTIES[2:], None, False))) == 1


def test_a_round_of_nobody_has_too_few():
    with pytest.raises(TooFewError, match="0 of 0 participants are left, and 2 are needed"):
        list(engine(2).start("round", [], None, False))


def test_whoever_is_silent_three_times_is_not_waited_for_until_it_answers():
    flower = engine(1, away=["p1"])
    told = "it did not answer 3 times; it takes part again when it answers"
    failed = []
    for _ in range(5):
        arrivals = {arrival.sender: arrival.failed for arrival in flower.start("round", PARTIES, None, False)}
        failed.append(arrivals["p1"])
        assert arrivals["p0"] is arrivals["p2"] is None
    assert failed == ["it did not answer in time"] * 3 + [told] * 2
    assert flower.gateway.probed == [("p1", {"kind": "evaluate", "round": 0})] * 2
    flower.gateway.heard.add("p1")
    flower.gateway.away.clear()
    assert not any(arrival.failed for arrival in flower.start("round", PARTIES, None, False))


def test_an_answer_in_between_takes_the_strikes_away():
    flower = engine(1, away=["p1"])
    for away in (True, True, False, True, True, True):
        flower.gateway.away = {"p1"} if away else set()
        list(flower.start("round", PARTIES, None, False))
        assert flower.gateway.probed == []
    list(flower.start("round", PARTIES, None, False))
    assert len(flower.gateway.probed) == 1


def test_there_is_one_deadline_for_all_answers_of_a_round():
    flower = engine(1)
    asked = []
    ask = flower.gateway.ask
    flower.gateway.ask = lambda messages, timeouts, wait_on: (asked.append(timeouts), ask(messages, timeouts, wait_on))[
        1
    ]
    list(flower.start("round", PARTIES, None, False))
    flower._spent = {"p0": 3590.0, "p1": 4000.0}
    list(flower.resume({name: Payload() for name in ("p0", "p1", "p2")}))
    assert asked[0] == dict.fromkeys(("p0", "p1", "p2"), 3600.0)
    assert asked[1] == {"p0": 10.0, "p1": 0.0, "p2": 3600.0}
