"""The engine over a network against the serial one, and what it does when something goes wrong. Without processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import ClassVar

import pytest
import torch

import potluck
from potluck.core.job import Job
from potluck.flower.engine import Rules, TooFewError
from potluck.flower.protocol import Message
from potluck.flower.public_data import to_payload
from potluck.methods import MHAT, CoFED, DraftFed, FedAvg, FedIN, Local, PerHeFed
from tests.flower.fakes import (
    PUBLIC,
    TEST,
    FakeGrid,
    client_of,
    invitation,
    on_serial,
    over_flower,
    people,
    served,
    shared,
)
from tests.flower.things import Endless, Nan, mlp
from tests.tables import PLAN, agree, made_data

METHODS = [
    Local(),
    FedAvg(),
    CoFED(update_batch_size=16),
    DraftFed(samples=20),
    PerHeFed(intra=0.5),
    MHAT(server_plan=PLAN),
    FedIN(pairs=6),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_the_history_is_the_serial_engines(method, tmp_path):
    federation, _ = over_flower(method, tmp_path)
    agree(federation.run(2).rows(), on_serial(method).rows(), 1e-12)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_the_order_in_which_answers_come_changes_nothing(method, tmp_path):
    federation, grid = over_flower(method, tmp_path)
    pull = grid.pull_messages
    grid.pull_messages = lambda identities: pull(identities)[::-1]
    agree(federation.run(2).rows(), on_serial(method).rows(), 1e-12)


@pytest.mark.parametrize("method", [FedAvg(), CoFED(update_batch_size=16)], ids=lambda method: type(method).__name__)
def test_partial_participation_is_the_serial_engines(method, tmp_path):
    federation, _ = over_flower(method, tmp_path, participation=0.67)
    agree(federation.run(4).rows(), on_serial(method, 4, participation=0.67).rows(), 1e-12)


def test_a_server_that_goes_on_asks_again_and_the_result_is_the_same(tmp_path, monkeypatch):
    method = FedAvg()
    federation, grid = over_flower(method, tmp_path / "states")
    federation.run(2, run_dir=tmp_path / "run")
    kept = tmp_path / "run" / "checkpoints" / "round-00000002"
    for path in kept.iterdir():
        path.unlink()
    kept.rmdir()  # the server was killed before it kept round 2; the participants are a round ahead
    jobs, answer = [], Job.answer
    monkeypatch.setattr(Job, "answer", lambda job, device: (jobs.append(job), answer(job, device))[1])
    again = served(grid, method, [f"p{i}" for i in range(3)])
    history = again.run(3, run_dir=tmp_path / "run", resume=True)
    fitted = {job.round for job in jobs if isinstance(job.work, potluck.Fit)}
    assert fitted == {3}  # round 2 came from what was stored
    agree(history.rows(), on_serial(method, 3).rows(), 1e-12)


def test_a_participant_that_is_started_again_in_the_middle_of_a_round_goes_on(tmp_path):
    method = CoFED(update_batch_size=16)
    federation, grid = over_flower(method, tmp_path)
    federation.run(1)
    own = {p.name: p for p in people(method)}

    class Interrupted:
        """Dies when the votes of round 2 come back, and is started again with what is on its disk."""

        def __init__(self, node, before):
            self.node, self.before = node, before

        def answer(self, message):
            if (message.head.get("round"), message.head.get("step")) == (2, 1):
                fresh = client_of(own["p1"], tmp_path, public=lambda seed: shared(PUBLIC))
                grid.clients[self.node] = fresh
                grid.since[self.node] = "second"
            return self.before.answer(message)

    grid.clients[101] = Interrupted(101, grid.clients[101])
    federation.run(2)
    agree(federation.history.rows(), on_serial(method, 3).rows(), 1e-12)
    assert [head["kind"] for node, head in grid.pushed if node == 101].count("invitation") == 2


def test_a_message_that_does_not_arrive_is_sent_again(tmp_path):
    federation, grid = over_flower(FedAvg(), tmp_path)
    grid.broken[100] = 2
    agree(federation.run(2).rows(), on_serial(FedAvg()).rows(), 1e-12)


def test_a_round_ends_at_its_timeout_without_who_does_not_answer(tmp_path):
    reported = []
    federation, grid = over_flower(FedAvg(), tmp_path, rules=Rules(answer_timeout=0.3), report=reported.append)
    federation.run(1)
    grid.silent.add(102)
    rows = federation.run(1).rows()[-3:]
    assert [row["refused"] for row in rows] == [None, None, "no answer within 0.3 s"]
    assert rows[2]["accuracy"] is None
    assert any("goes on without p2" in line for line in reported)
    grid.wake(102)
    rows = federation.run(1).rows()[-3:]
    assert any("p2 answered late; its answer is ignored" in line for line in reported)
    assert [row["refused"] for row in rows] == [None, None, None]


def test_too_few_fail_clearly(tmp_path):
    federation, grid = over_flower(FedAvg(), tmp_path, rules=Rules(answer_timeout=0.3, min_participants=3))
    grid.silent.add(102)
    with pytest.raises(TooFewError, match=r"2 of 3 participants are left, and 3 are needed"):
        federation.run(1)


def test_too_few_wait_if_the_file_says_so(tmp_path):
    reported = []
    federation, grid = over_flower(
        FedAvg(),
        tmp_path,
        rules=Rules(answer_timeout=0.1, min_participants=3, on_too_few="wait"),
        report=reported.append,
    )
    grid.silent.add(102)
    looks = 0
    pull = grid.pull_messages

    def counted(identities):
        nonlocal looks
        looks += 1
        if looks == 300:
            grid.wake(102)
        return pull(identities)

    grid.pull_messages = counted
    agree(federation.run(2).rows(), on_serial(FedAvg()).rows(), 1e-12)


def test_whoever_raises_is_left_out_and_its_words_stay_there(tmp_path, caplog):
    class Broken(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = mlp((), 3)

        def forward(self, x):
            if self.training:
                raise RuntimeError("the patient's name")
            return self.inner(x)

    own = people(Local())
    own[1] = potluck.Participant("p1", Broken, made_data(20, 1), plan=PLAN, labels=range(3), test=TEST)
    reported = []
    federation, _ = over_flower(Local(), tmp_path, people=own, report=reported.append)
    rows = federation.run(1).rows()
    assert rows[1]["refused"] == "it failed there with RuntimeError"
    assert not any("patient" in line for line in reported)
    assert "the patient's name" in caplog.text  # in the participant's own log


def test_an_answer_that_is_not_finite_is_refused_as_in_the_core(tmp_path):
    method = Nan()
    own = people(FedAvg())
    clients = [client_of(p, tmp_path, allow_imports=("tests.flower.things:Nan",)) for p in own]
    named = invitation(method, method="tests.flower.things:Nan")
    federation = served(FakeGrid(clients), method, ["p0", "p1", "p2"], invite=named)
    serial = potluck.Federation(people(FedAvg()), method, seed=3, engine="serial").run(2)
    agree(federation.run(2).rows(), serial.rows(), 1e-12)
    assert "NaN" in serial.rows()[1]["refused"]


def test_there_is_a_limit_on_the_messages_of_a_round(tmp_path):
    own = people(Local())
    clients = [client_of(p, tmp_path, allow_imports=("tests.flower.things:Endless",)) for p in own]
    named = invitation(Endless(), method="tests.flower.things:Endless")
    rules = Rules(answer_timeout=5, max_messages=5, min_participants=0)
    federation = served(FakeGrid(clients), Endless(), ["p0", "p1", "p2"], invite=named, rules=rules)
    rows = federation.run(1).rows()
    assert {row["refused"] for row in rows} == {"more than 5 messages in one phase"}


def test_an_answer_larger_than_the_limit_is_not_opened(tmp_path):
    federation, _ = over_flower(FedAvg(), tmp_path, rules=Rules(answer_timeout=5, min_participants=0))
    federation.run(1)
    federation.engine.gateway.limits = potluck.Limits(bytes=2000)
    rows = federation.run(1).rows()[3:]
    assert {row["refused"] for row in rows} == {"the payload has 4456 bytes; the limit is 2000"}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"name": "p0"}, "it calls itself 'p0'"),
        ({"kind": "nonsense"}, "cannot be read"),
        ({"round": 7}, "its answer is not to what was asked"),
        ({"more": 1}, "extra inputs"),
    ],
)
def test_a_message_that_is_not_what_was_asked_for_is_refused(change, why, tmp_path):
    federation, grid = over_flower(FedAvg(), tmp_path)
    federation.run(0)
    honest = grid.clients[101]

    class Liar:
        def answer(self, message):
            answer = honest.answer(message)
            return Message({**answer.head, **change}, answer.body)

    grid.clients[101] = Liar()
    rows = federation.run(1).rows()
    assert why in rows[1]["refused"]
    assert rows[0]["refused"] is rows[2]["refused"] is None


class Noting(Local):
    """Local, with a note of each kind."""

    notes: ClassVar[Mapping[str, type]] = {"count": int, "share": float, "word": str, "yes": bool, "nothing": float}

    def round(self, me):
        yield from super().round(me)
        return {"count": 3, "share": 0.5, "word": "é", "yes": True, "nothing": float("nan")}


def noting(tmp_path, change):
    """A federation whose p0 notes what ``change`` makes of the JSON text of its notes, in rounds."""
    clients = [client_of(p, tmp_path, allow_imports=(f"{__name__}:Noting",)) for p in people(Local())]
    grid = FakeGrid(clients)
    invite = invitation(Noting(), method=f"{__name__}:Noting")
    federation = served(grid, Noting(), ["p0", "p1", "p2"], invite=invite)
    federation.run(0)
    honest = grid.clients[100]

    class Liar:
        def answer(self, message):
            answer = honest.answer(message)
            if answer.head["kind"] != "end":
                return answer
            head = json.dumps({**answer.head, "notes": "NOTES"})
            text = head.replace('"NOTES"', change(json.dumps(answer.head["notes"])))
            return SimpleNamespace(encoded_head=text.encode, body=b"")

    grid.clients[100] = Liar()
    return federation


def test_notes_that_the_method_declares_come_as_they_are(tmp_path):
    rows = noting(tmp_path, lambda text: text).run(1, run_dir=tmp_path / "run").rows()
    serial = potluck.Federation(people(Local()), Noting(), seed=3, engine="serial").run(1).rows()
    assert [row["refused"] for row in rows] == [None] * 3
    for row, other in zip(rows, serial, strict=True):
        assert {name: row[name] for name in list(Noting.notes)[:4]} == {n: other[n] for n in list(Noting.notes)[:4]}
        assert row["nothing"] is None


@pytest.mark.parametrize(
    ("notes", "why"),
    [
        ('{"accuracy": 1.0}', "it notes 'accuracy', which the method does not declare"),
        ('{"more": 1}', "it notes 'more', which the method does not declare"),
        ('{"share": NaN}', "NaN is no number in JSON"),
        ('{"share": -Infinity}', "-Infinity is no number in JSON"),
        ('{"share": 1e999}', "1e999 is too large a number"),
        ('{"share": [[1e999]]}', "1e999 is too large a number"),
        ('{"share": {"a": 1.0}}', "cannot be read"),
        ('{"share": [1.0]}', "cannot be read"),
        ('{"count": 1' + "0" * 400 + "}", "cannot be read"),
        ('{"count": 1' + "0" * 5000 + "}", "damaged"),
        ('{"count": 0.5}', "it notes 'count' = 0.5; the method declares int"),
        ('{"count": true}', "it notes 'count' = True; the method declares int"),
        ('{"share": "much"}', "it notes 'share' = 'much'; the method declares float"),
        ('{"word": "\\ud800"}', "damaged"),
        ('{"word": "' + "x" * 201 + '"}', "cannot be read"),
        ("{" + ", ".join(f'"{number}": 1' for number in range(65)) + "}", "cannot be read"),
        ('["count"]', "cannot be read"),
        ("null", "cannot be read"),
    ],
    ids=lambda text: text[:30],
)
def test_other_notes_cost_a_participant_its_round_and_nobody_else(notes, why, tmp_path):
    rows = noting(tmp_path, lambda text: notes).run(2, run_dir=tmp_path / "run").rows()
    assert [(row["round"], row["participant"]) for row in rows if row["refused"]] == [(1, "p0"), (2, "p0")]
    assert why in rows[0]["refused"]
    assert not {"share", "word", "more"} & set(rows[0])


def test_credibility_is_the_servers_setting(tmp_path):
    federation, _ = over_flower(FedAvg(), tmp_path, weights={"p2": 5.0})
    own = people(FedAvg())
    for participant in own:
        participant.weight = 5.0 if participant.name == "p2" else 1.0
    serial = potluck.Federation(own, FedAvg(), seed=3, engine="serial").run(2)
    agree(federation.run(2).rows(), serial.rows(), 1e-12)


@pytest.mark.parametrize("method", [FedAvg(), CoFED(update_batch_size=16)], ids=lambda method: type(method).__name__)
def test_whoever_comes_late_joins_later(method, tmp_path):
    own = people(method)
    clients = [client_of(p, tmp_path, public=lambda seed: shared(PUBLIC)) for p in own]
    grid = FakeGrid(clients)
    del grid.since[102]
    public = PUBLIC if method.requires().public != "nothing" else None
    federation = served(grid, method, [p.name for p in own], public=public, join_timeout=0.1)
    first = federation.run(1).rows()
    assert [row["took_part"] for row in first][:3] == [True, True, False]
    grid.since[102] = "late"
    federation.engine.gateway.wait_until(lambda: federation.engine.gateway.is_connected("p2"), 5)
    second = [row for row in federation.run(1).rows() if row["round"] == 2]
    assert [row["took_part"] for row in second][:3] == [True, True, True]
    assert second[2]["bytes_up"] > second[1]["bytes_up"]  # joining is counted where it happened
    assert second[2]["accuracy"] is not None


@pytest.mark.parametrize("method", [FedAvg(), CoFED(update_batch_size=16)], ids=lambda method: type(method).__name__)
def test_a_server_that_begins_again_with_one_more_gets_what_it_would_have_got(method, tmp_path):
    """It ended in round 1, before its first checkpoint, and joining goes another way now."""
    own = people(method)
    public = PUBLIC if method.requires().public != "nothing" else None
    grid = FakeGrid([client_of(p, tmp_path, public=lambda seed: shared(PUBLIC)) for p in own])
    names = [p.name for p in own]
    del grid.since[100]
    served(grid, method, names, public=public, join_timeout=0.1).run(1)
    grid.since[100] = "late"
    agree(served(grid, method, names, public=public).run(2).rows(), on_serial(method).rows(), 1e-12)


def test_a_latecomer_that_does_not_fit_leaves_no_trace(tmp_path):
    method = FedAvg()
    own = people(method)
    own[0] = potluck.Participant("p0", mlp, made_data(20, 0), plan=PLAN, labels=range(3), test=TEST)
    grid = FakeGrid([client_of(p, tmp_path) for p in own])
    del grid.since[100]
    federation = served(grid, method, [p.name for p in own], join_timeout=0.1)
    federation.run(1)
    grid.since[100] = "late"
    federation.engine.gateway.wait_until(lambda: federation.engine.gateway.is_connected("p0"), 5)
    rows = federation.run(1).rows()[3:]
    missing = "0.weight is missing; expected float64 of shape (4, 1, 3, 3)"
    assert rows[0]["refused"] == f"its model differs from the others': {missing}"
    assert [row["took_part"] for row in rows] == [False, True, True]
    assert set(federation.server.state["layouts"]) == set(federation.server.state["samples"]) == {"p1", "p2"}


def test_a_method_that_settles_everything_at_joining_goes_on_without_latecomers(tmp_path):
    own = people(DraftFed())
    clients = [client_of(p, tmp_path, public=lambda seed: shared(PUBLIC)) for p in own]
    grid = FakeGrid(clients)
    del grid.since[102]
    federation = served(grid, DraftFed(samples=20), [p.name for p in own], public=PUBLIC, join_timeout=0.1)
    federation.run(1)
    grid.since[102] = "late"
    federation.engine.gateway.wait_until(lambda: federation.engine.gateway.is_connected("p2"), 5)
    rows = [row for row in federation.run(1).rows() if row["round"] == 2]
    assert [row["took_part"] for row in rows] == [True, True, False]


def test_public_data_are_sent_once_and_counted(tmp_path):
    method = CoFED(update_batch_size=16)
    own = people(method)
    grid = FakeGrid([client_of(p, tmp_path) for p in own])  # nobody has a copy
    federation = served(grid, method, [p.name for p in own], public=PUBLIC)
    rows = federation.run(2).rows()
    size = to_payload(shared(PUBLIC)).size
    local = on_serial(method).rows()
    assert [row["bytes_down"] for row in rows[:4]] == [row["bytes_down"] + size for row in local[:4]]
    assert [row["bytes_down"] for row in rows[4:]] == [row["bytes_down"] for row in local[4:]]
    assert [row["accuracy"] for row in rows] == [row["accuracy"] for row in local]
    assert [head["kind"] for _, head in grid.pushed].count("public") == 4


def test_the_run_folder_is_that_of_a_simulation(tmp_path):
    federation, _ = over_flower(FedAvg(), tmp_path / "states")
    history = federation.run(2, run_dir=tmp_path / "run")
    settings = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert settings["engine"] == "flower"
    assert settings["participants"] == [{"name": f"p{i}", "weight": 1.0} for i in range(3)]
    lines = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert lines == history.rows()
