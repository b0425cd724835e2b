"""A participant's side: what it agrees to, what it keeps, and what it refuses."""

from __future__ import annotations

import sys
import tracemalloc
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch
from pydantic import Field, ImportString

import potluck
from potluck.core import registry
from potluck.core.payload import Payload
from potluck.flower.consent import sent_settings
from potluck.flower.protocol import PROTOCOL, Advance, Evaluate, Message, PublicData
from potluck.flower.public_data import to_payload
from potluck.methods import MHAT, CoFED, FedAvg, Local
from tests.flower.fakes import client_of, invitation, shared
from tests.flower.things import mlp
from tests.tables import PLAN, made_data

PUBLIC = made_data(30, 90)


def participant(**settings):
    given = {"plan": PLAN, "labels": range(3), "test": made_data(20, 91), **settings}
    return potluck.Participant("p0", mlp, made_data(24, 0), **given)


def invited(tmp_path, method, **settings):
    found = client_of(participant(), tmp_path, **settings)
    assert found.answer(invitation(method).message()).head["kind"] == "accepted"
    return found


def advance(phase, number, step, payload=None):
    return Advance(phase=phase, round=number, step=step).message(b"" if payload is None else payload.to_bytes())


@pytest.mark.parametrize("more", [{}, {"kindness": True}, {"potluck": 7, "rounds": "many"}])
def test_another_protocol_is_declined_whatever_else_it_says(more, tmp_path):
    asked = Message({**invitation(Local(), protocol=99).message().head, "potluck": "9.9", **more})
    client = client_of(participant(), tmp_path)
    answer = client.answer(asked)
    assert answer.head["kind"] == "declined"
    version = repr(more.get("potluck", "9.9"))
    assert f"the server speaks protocol 99 (potluck {version}), this machine {PROTOCOL}" in answer.head["reason"]
    assert client.declined is not None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"settings": {"alhpa": 1}}, "is not the one here"),
        ({"settings": {"alpha": 0.5}}, "the settings of CoFED differ"),
        ({"method": "Unheard"}, "'Unheard', which is not potluck's own"),
    ],
)
def test_terms_that_differ_are_declined(change, why, tmp_path):
    answer = client_of(participant(), tmp_path).answer(invitation(CoFED(), **change).message())
    assert answer.head["kind"] == "declined"
    assert why in answer.head["reason"]


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """Modules that leave a mark when they are imported; and a package that announces one of them as a method."""
    marks = tmp_path / "marks"
    marks.mkdir()
    modules = tmp_path / "modules"
    modules.mkdir()
    for name in ("evilmod", "évil", "mlp", "sgd"):
        text = f"open({str(marks / name)!r}, 'w')\nfrom potluck.methods import Local\nx = lambda progress, round: 1.0\n"
        (modules / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(modules)
    points = [EntryPoint("Announced", "evilmod:Local", "potluck.methods")]
    monkeypatch.setattr(registry, "entry_points", lambda group: [p for p in points if p.group == group])
    yield marks
    for name in ("evilmod", "évil", "mlp", "sgd"):
        sys.modules.pop(name, None)


class Loose(Local):
    """A participant's own method, with settings that pydantic imports, and that hold lists and tables."""

    hooks: list[ImportString[Any]] = Field(default_factory=list)
    table: dict[str, ImportString[Any]] = Field(default_factory=dict)


LOOSE = f"{__name__}:Loose"
FORMS = {
    "method": ("evilmod:x", {}),
    "method, with a number": ("evilmod:1", {}),
    "method, not ascii": ("évil:x", {}),
    "method, announced by a package": ("announced", {}),
    "method, in a longer path": ("evilmod:x.__class__", {}),
    "model": ("MHAT", {"auxiliary": "evilmod:x"}),
    "model, not ascii": ("MHAT", {"auxiliary": "évil:x"}),
    "plan, by dots": ("MHAT", {"server_plan": {"schedule": "evilmod.x"}}),
    "plan, module alone": ("MHAT", {"server_plan": {"schedule": "evilmod"}}),
    "plan, by colon": ("MHAT", {"server_plan": {"optimizer": "evilmod:x"}}),
    "plan, with a space": ("MHAT", {"server_plan": {"transform": " evilmod:x"}}),
    "plan, a model's name": ("MHAT", {"server_plan": {"augment": "mlp"}}),
    "plan, another setting's choice": ("MHAT", {"server_plan": {"schedule": "sgd"}}),
    "a model's name, to another's method": (LOOSE, {"hooks": ["mlp"]}),
    "a list": (LOOSE, {"hooks": ["evilmod.x"]}),
    "a table": (LOOSE, {"table": {"one": "evilmod:x"}}),
}


@pytest.mark.parametrize(("method", "settings"), FORMS.values(), ids=FORMS)
def test_what_a_server_names_is_not_imported(method, settings, tmp_path, evil):
    asked = []
    own = client_of(participant(), tmp_path, allow_imports=(LOOSE,), consent=lambda *terms: asked.append(terms))
    answer = own.answer(invitation(CoFED(), method=method, settings=settings).message())
    assert answer.head["kind"] == "declined"
    assert list(evil.iterdir()) == []


def test_what_the_owner_lists_is_imported_after_consent(tmp_path, evil):
    settings = sent_settings(MHAT()) | {"server_plan": sent_settings(MHAT())["server_plan"] | {"schedule": "evilmod:x"}}
    asked = invitation(CoFED(), method="MHAT", settings=settings, public=PUBLIC).message()

    def consent(answer):
        def ask(invitation, method):
            assert method is MHAT
            assert list(evil.iterdir()) == []
            return answer

        return ask

    refusing = client_of(participant(), tmp_path, allow_imports=("evilmod:x",), consent=consent("no"))
    assert refusing.answer(asked).head["reason"] == "no"
    assert list(evil.iterdir()) == []
    for near in ("evilmod:X", "evilmod", "evilmod:x ", "evilmod.x", "*"):
        assert client_of(participant(), tmp_path, allow_imports=(near,)).answer(asked).head["kind"] == "declined"
        assert list(evil.iterdir()) == []
    agreeing = client_of(participant(), tmp_path, allow_imports=("evilmod:x",), consent=consent(None))
    agreeing.answer(asked)
    assert [mark.name for mark in evil.iterdir()] == ["evilmod"]


def test_nothing_is_said_without_consent(tmp_path):
    found = client_of(participant(), tmp_path, consent=lambda invitation, method: "its owner did not agree")
    answer = found.answer(invitation(FedAvg()).message())
    assert answer.head == {"kind": "declined", "name": "p0", "reason": "its owner did not agree"}
    assert found.is_done
    assert found.declined == "its owner did not agree"
    assert found.answer(advance("join", 0, 0)).head["kind"] == "failed"


def test_a_method_that_does_not_fit_is_declined_and_why_stays_here(tmp_path, caplog):
    own = potluck.Participant("p0", "sklearn.tree:DecisionTreeClassifier", made_data(24, 0))
    answer = client_of(own, tmp_path).answer(invitation(FedAvg()).message())
    assert answer.head["reason"] == "its model or data does not fit (RequirementsError); its own log says why"
    assert "it looks into models" in caplog.text


def test_other_public_data_are_declined(tmp_path):
    other = (PUBLIC[0][::-1].copy(), PUBLIC[1])  # the same rows in another order
    found = client_of(participant(), tmp_path, public=lambda seed: shared(other))
    answer = found.answer(invitation(CoFED(), public=PUBLIC).message())
    assert "or their rows are in another order" in answer.head["reason"]


def test_public_data_that_come_are_checked_and_kept(tmp_path):
    found = client_of(participant(), tmp_path)
    asked = invitation(CoFED(), public=PUBLIC)
    assert not found.answer(asked.message()).head["has_public"]
    bad = to_payload(shared((PUBLIC[0] + 1, PUBLIC[1]))).to_bytes()
    assert found.answer(PublicData().message(bad)).head["kind"] == "failed"
    good = to_payload(shared(PUBLIC)).to_bytes()
    assert found.answer(PublicData().message(good)).head["kind"] == "acknowledged"
    again = client_of(participant(), tmp_path)
    assert again.answer(asked.message()).head["has_public"]


def test_a_repeated_request_is_answered_from_what_was_stored(tmp_path):
    found = invited(tmp_path, FedAvg())
    first = found.answer(advance("join", 0, 0))
    assert found.answer(advance("join", 0, 0)) == first
    again = invited(tmp_path, FedAvg())  # a new process with the same disk
    assert again.answer(advance("join", 0, 0)) == first


def join(found):
    greeted = found.answer(advance("join", 0, 0))
    assert greeted.head["exchange"] == "greet"
    names = list(found.participant.weights())
    started = found.answer(advance("join", 0, 1, Payload(facts={"send": names})))
    found.answer(advance("join", 0, 2, Payload.from_bytes(started.body)))
    return Payload.from_bytes(started.body)


def test_another_reply_is_another_course(tmp_path):
    found = invited(tmp_path, FedAvg())
    start = join(found)
    sent = found.answer(advance("round", 1, 0))
    zeros = Payload({name: torch.zeros_like(entry) for name, entry in start.tensors.items()})
    first = found.answer(advance("round", 1, 1, start))
    assert found.participant.weights()["1.bias"].equal(start["1.bias"])
    second = found.answer(advance("round", 1, 1, zeros))
    assert not found.participant.weights()["1.bias"].any()
    assert first.head["metrics"] != second.head["metrics"]
    assert found.answer(advance("round", 1, 0)) == sent


def test_what_follows_from_another_request_is_of_another_course(tmp_path):
    """The first request of a round is always empty, and its answer is not the same after another joining."""

    def play(folder, change):
        found = invited(folder, FedAvg())
        greeted = found.answer(advance("join", 0, 0))
        assert greeted.head["kind"] == "exchange"
        started = found.answer(advance("join", 0, 1, Payload(facts={"send": list(found.participant.weights())})))
        start = {name: entry + change for name, entry in Payload.from_bytes(started.body).tensors.items()}
        found.answer(advance("join", 0, 2, Payload(start)))
        return found, found.answer(advance("round", 1, 0)), start

    found, first, start = play(tmp_path, 0.0)
    found.answer(advance("round", 1, 1, Payload(start)))
    found, again, _ = play(tmp_path, 0.0)
    assert again == first  # from what was kept
    assert (tmp_path / "p0" / "0123456789abcdef" / "states" / "round-00000001").exists()
    found, second, _ = play(tmp_path, 0.1)
    _, expected, _ = play(tmp_path / "fresh", 0.1)
    assert second.body == expected.body != first.body
    states = tmp_path / "p0" / "0123456789abcdef" / "states"
    assert [path.name for path in states.iterdir()] == ["round-00000000"]


def test_two_rounds_are_kept_and_it_goes_back_to_the_one_asked_for(tmp_path):
    found = invited(tmp_path, FedAvg())
    start = join(found)
    answers = {}
    for number in (1, 2, 3):
        answers[number] = found.answer(advance("round", number, 0))
        found.answer(advance("round", number, 1, start))
    again = invited(tmp_path, FedAvg())
    assert again.answer(advance("round", 3, 0)) == answers[3]
    assert (
        again.answer(advance("round", 3, 1, Payload({n: e + 1 for n, e in start.tensors.items()}))).head["kind"]
        == "end"
    )
    lost = invited(tmp_path, FedAvg())
    assert lost.answer(advance("round", 1, 0)).head["kind"] == "failed"  # the state after joining is not here any more


def test_requests_of_past_rounds_are_refused(tmp_path):
    found = invited(tmp_path, Local())
    for phase, number in (("join", 0), ("round", 1), ("round", 2)):
        assert found.answer(advance(phase, number, 0)).head["kind"] == "end"
    for old in (tmp_path / "p0").rglob("*.answer"):
        old.unlink()
    assert found.answer(advance("round", 1, 0)).head["kind"] == "failed"


def test_an_optimizer_that_remembers_and_has_no_name_is_declined(tmp_path, caplog):
    """What a participant keeps must be of use to its next process."""
    person = participant(plan=PLAN.replace(optimizer=lambda weights, **settings: torch.optim.SGD(weights, **settings)))
    assert client_of(person, tmp_path).answer(invitation(Local()).message()).head["kind"] == "accepted"
    answer = client_of(person, tmp_path).answer(invitation(Local(), keep_optimizer=True).message())
    assert "does not fit" in answer.head["reason"]
    assert "trains with tests.flower.test_client:" in caplog.text


def test_more_rounds_than_were_agreed_to_are_refused(tmp_path):
    found = invited(tmp_path, Local())
    found.answer(advance("join", 0, 0))
    assert found.answer(advance("round", 9, 0)).head["kind"] == "end"
    assert found.answer(advance("round", 10, 0)).head["kind"] == "failed"


def test_a_step_beyond_the_next_one_is_refused_and_costs_nothing(tmp_path, caplog):
    found = invited(tmp_path, FedAvg())
    join(found)
    sent = found.answer(advance("round", 1, 0))
    tracemalloc.start()
    for step in (2**40, 2**22, 3, 2):
        assert found.answer(advance("round", 1, step)).head["kind"] == "failed"
        assert f"step {step} of round 1 is asked for, and step {step - 1} was not answered" in caplog.text
    assert found.answer(advance("round", 2, 1)).head["kind"] == "failed"
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
    assert found.answer(advance("round", 1, 0)) == sent
    start = Payload.from_bytes(sent.body)
    assert found.answer(advance("round", 1, 1, Payload(start.tensors))).head["kind"] == "end"


def test_an_answer_that_the_server_does_not_take_does_not_leave(tmp_path, caplog):
    found = client_of(participant(), tmp_path)
    assert found.answer(invitation(FedAvg(), max_payload_bytes=50).message()).head["kind"] == "accepted"
    assert found.answer(advance("join", 0, 0)).head["error"] == "PayloadError"
    assert "the server takes 50 (`max_payload_bytes`)" in caplog.text


def test_evaluation_ends_a_half_that_nobody_waits_for(tmp_path):
    found = invited(tmp_path, FedAvg())
    join(found)
    found.answer(advance("round", 1, 0))
    trained = found.participant.weights()["1.bias"]
    measured = found.answer(Evaluate(round=1).message())
    assert measured.head["metrics"]["accuracy"] is not None
    again = invited(tmp_path, FedAvg())
    assert again.answer(Evaluate(round=1).message()).head["metrics"] == measured.head["metrics"]
    assert again.participant.weights()["1.bias"].equal(trained)


def test_another_model_does_not_take_up_what_was_kept(tmp_path):
    join(invited(tmp_path, FedAvg()))
    other = client_of(participant(plan=PLAN.replace(lr=0.5)), tmp_path)
    other.answer(invitation(FedAvg()).message())
    assert other.answer(advance("round", 1, 0)).head["kind"] == "failed"
