"""A participant's own disk: the same request gets the same answer, and what follows from another is forgotten."""

from __future__ import annotations

import stat

import pytest
import torch

from potluck.flower.client_store import ClientStore
from potluck.flower.protocol import Message
from potluck.runs import CheckpointError

ANSWER = Message({"kind": "end", "word": "é"}, b"body")


@pytest.fixture
def store(tmp_path):
    return ClientStore(tmp_path, {"method": "a"})


def test_an_answer_is_there_for_the_very_request_and_in_a_later_process(store, tmp_path):
    store.keep_answer("round", 3, 1, b"asked", ANSWER)
    for later in (store, ClientStore(tmp_path, {"method": "a"})):
        assert later.answer_to("round", 3, 1, b"asked") == ANSWER
        assert later.answer_to("round", 3, 1, b"other") is None
        assert later.answer_to("round", 3, 2, b"asked") is None
        assert later.answer_to("join", 3, 1, b"asked") is None


def test_what_another_federation_was_answered_is_no_answer(store, tmp_path):
    """As where a server invites again with another seed: states are refused, and so must answers be."""
    for other in ({"fingerprint": {"method": "b"}}, {"fingerprint": {"method": "b"}, "public": "0" * 64}):
        store.keep_answer("round", 3, 1, b"asked", ANSWER)
        store = ClientStore(tmp_path, **other)
        assert store.answer_to("round", 3, 1, b"asked") is None


def test_two_phases_are_kept(store):
    for phase, number in (("join", 0), ("round", 1), ("round", 2)):
        store.keep_answer(phase, number, 0, b"asked", ANSWER)
    assert store.answer_to("join", 0, 0, b"asked") is None
    assert store.answer_to("round", 1, 0, b"asked") == store.answer_to("round", 2, 0, b"asked") == ANSWER


def test_steps_have_no_gaps(store):
    assert store.follows("round", 1, 0)
    assert not store.follows("round", 1, 1)
    for step, body in enumerate((b"first", b"second")):
        store.keep_answer("round", 1, step, body, ANSWER)
    assert store.follows("round", 1, 2)
    assert not store.follows("round", 1, 3)
    assert store.requests("round", 1, 2) == [b"first", b"second"]


def test_another_course_begins_at_its_step(store):
    store.keep_state(0, {"w": torch.zeros(2)})
    store.keep_state(1, {"w": torch.ones(2)})
    for number in (1, 2):
        for step in (0, 1):
            store.keep_answer("round", number, step, b"asked", ANSWER)
    store.forget_from("round", 1, 1)
    assert store.answer_to("round", 1, 0, b"asked") == ANSWER
    assert store.answer_to("round", 1, 1, b"asked") is None
    assert store.answer_to("round", 2, 0, b"asked") is None
    assert store.newest_state(9) == 0, "what the round would have ended in is of the other course, too"


def test_the_newest_state_up_to_a_round_is_taken_and_later_ones_stay(store):
    for number in (1, 4):
        store.keep_state(number, {"w": torch.full((2,), float(number))})
    assert [store.newest_state(number) for number in (0, 1, 3, 4, 9)] == [None, 1, 1, 4, 4]
    assert store.state_after(3)["w"].tolist() == [1, 1]
    assert store.newest_state(9) == 4, "until another course is taken"


def test_the_state_of_another_model_is_refused(store, tmp_path):
    store.keep_state(1, {"w": torch.zeros(2)})
    with pytest.raises(CheckpointError, match="method"):
        ClientStore(tmp_path, {"method": "b"}).state_after(1)


def test_what_is_kept_is_its_owners_alone_whatever_was_there_before(tmp_path):
    folder = tmp_path / "state"
    (folder / "messages").mkdir(parents=True, mode=0o755)
    store = ClientStore(folder, {})
    store.keep_answer("round", 1, 0, b"request", Message({"kind": "x"}, b"body"))
    for path in (folder, *folder.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
