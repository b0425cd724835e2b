"""Who is there and who they are, and where it is kept; with real clients in test_gateway.py."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from potluck.core.errors import PayloadError
from potluck.flower.protocol import Accepted, Acknowledged, Declined, InputFacts
from potluck.flower.roster import Roster
from potluck.flower.status import StatusBoard
from tests.flower.statuses import standing


def accepted(name="ann", **changes):
    facts = {"task": "regression", "settings": {}, "metrics": ["rmse"], "has_public": True}
    return Accepted(name=name, inputs={"x": InputFacts(shape=[2], numbers="floats")}, **{**facts, **changes})


def node(number, since="first", key=b""):
    return SimpleNamespace(node_id=number, last_activated_at=since, public_key=key)


@pytest.fixture
def roster(tmp_path):
    """Of ann and ben, with what is said and kept."""
    lines, board = [], StatusBoard(tmp_path / "status.json", standing())
    found = Roster(["ann", "ben"], None, lambda each: "odd" if each.task == "odd" else None, lines.append, board)
    found.lines, found.board = lines, board
    return found


def states(roster):
    return {each.name: (each.state, each.why) for each in roster.board.status.participants}


def test_each_node_is_invited_once_for_each_time_it_was_started(roster):
    assert list(roster.look([node(1), node(2)])) == [(1, None), (2, None)]
    assert list(roster.look([node(1), node(2, "again")])) == [(2, None)]
    roster.invite_again(1)
    assert list(roster.look([node(1), node(2, "again")])) == [(1, None)]
    assert (roster.since(2), roster.since(3)) == ("again", None)


def test_what_becomes_of_everybody_is_kept(roster):
    list(roster.look([node(1), node(2)]))
    assert roster.invitation_answered(1, "first", accepted("ann")).node == 1
    assert roster.invitation_answered(2, "first", Declined(name="ben", reason="no")) is None
    assert states(roster) == {"ann": ("here", ""), "ben": ("declined", "no")}
    assert roster.is_connected("ann")
    list(roster.look([node(2)]))
    assert states(roster)["ann"] == ("away", "")
    assert not roster.is_connected("ann")
    list(roster.look([node(1, "again"), node(2, "again")]))
    assert roster.invitation_answered(1, "again", accepted("ann")) is not None
    assert roster.invitation_answered(2, "again", accepted("ben")) is not None
    assert states(roster) == {"ann": ("here", ""), "ben": ("here", "")}
    assert roster.declined == {}
    assert roster.lines == [
        "ann is here",
        "ben declined: no",
        "ann left; it may come back",
        "ann is back",
        "ben is here",
    ]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (accepted(task="odd"), "odd"),
        (Acknowledged(name="ann"), "it answered the invitation with 'acknowledged'"),
    ],
)
def test_who_is_refused_takes_no_part_and_it_is_said_why(answer, why, roster):
    list(roster.look([node(1)]))
    assert roster.invitation_answered(1, "first", answer) is None
    assert roster.lines == [f"ann was refused: {why}"]
    assert states(roster)["ann"] == ("refused", why)
    assert roster.connections == {}


def test_whoever_comes_back_with_another_task_does_not_take_part_with_it(roster):
    list(roster.look([node(1)]))
    roster.invitation_answered(1, "first", accepted())
    list(roster.look([node(1, "again")]))
    assert roster.invitation_answered(1, "again", accepted(task="classification")) is None
    assert roster.declined["ann"] == "its task is not the one it gave before"
    assert not roster.is_connected("ann")


def test_names_are_whose_they_are(roster):
    list(roster.look([node(1), node(2)]))
    roster.invitation_answered(1, "first", accepted("ann"))
    for number, expected, name, why in [
        (1, "ann", "ben", "it calls itself 'ben'"),
        (1, None, "eve", "which is no participant in the file"),
        (2, None, "ann", "and another node does so too"),
    ]:
        with pytest.raises(PayloadError, match=why):
            roster.check_name(number, expected, name)
    roster.check_name(1, None, "ann")
    roster.check_name(2, None, "ben")


def test_keys_tell_who_a_node_is():
    lines = []
    roster = Roster(["ann"], {"ann": b"a"}, lambda each: None, lines.append)
    assert list(roster.look([node(1, key=b"a"), node(2, key=b"e")])) == [(1, "ann")]
    assert lines == ["node 2 has a key that no participant in the file has; it is not asked"]
    list(roster.look([node(2, key=b"e")]))
    assert len(lines) == 1
