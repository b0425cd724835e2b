"""Only those are evaluated whose answers may have changed, and only when it is time; the history is the same."""

from __future__ import annotations

import pytest
import torch

import potluck
from potluck.engines import base
from potluck.federation.evaluation import Evaluation, only_looking
from potluck.methods import FedAvg, FedProto, Local
from tests.tables import PLAN, agree, headed_cnn, made_data, mlp, participants

TEST = made_data(40, 91)
FEW = 2


def federation(method=None, engine="serial", models=mlp, **settings):
    people = participants([models(i) for i in range(5)], sizes=(20, 13, 25, 20, 17))
    return potluck.Federation(
        people, method or FedAvg(), test=TEST, seed=4, engine=engine, **{"participation": FEW, **settings}
    )


@pytest.fixture
def evaluated(monkeypatch):
    """Whom each evaluation asked."""
    found = []
    evaluate = base.Engine.evaluate
    monkeypatch.setattr(
        base.Engine,
        "evaluate",
        lambda self, parties, *given: (found.append(sorted(parties)), evaluate(self, parties, *given))[1],
    )
    return found


def everybody(monkeypatch):
    monkeypatch.setattr(Evaluation, "outdated", lambda self, participant: True)


def took_part(rows, number):
    return sorted(row["participant"] for row in rows if row["round"] == number and row["took_part"])


@pytest.mark.parametrize("engine", ["serial", "batched"])
def test_those_alone_are_evaluated_who_took_part(engine, evaluated):
    one = federation(engine=engine)
    rows = one.run(4).rows()
    assert evaluated[0] == [f"p{i}" for i in range(5)], "nobody was evaluated before"
    assert evaluated[1:] == [took_part(rows, number) for number in (2, 3, 4)]


@pytest.mark.parametrize("method", [FedAvg(fine_tune=1), FedProto(), Local()], ids=str)
@pytest.mark.parametrize("engine", ["serial", "batched"])
def test_the_history_is_that_of_evaluating_everybody(method, engine, monkeypatch):
    few = federation(method, engine, headed_cnn).run(4).rows()
    everybody(monkeypatch)
    agree(few, federation(method, engine, headed_cnn).run(4).rows(), 0 if engine == "serial" else 1e-9)


def test_a_resumed_run_evaluates_whom_an_unbroken_one_does(tmp_path, evaluated):
    for every in (1, 3):
        evaluated.clear()
        unbroken = federation(engine="batched", evaluate_every=every).run(6).rows()
        asked = list(evaluated)
        stopped = federation(engine="batched", evaluate_every=every)
        keep = iter(range(2))

        def stop(running, rows, keep=keep):
            if next(keep, None) is None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            stopped.run(6, run_dir=tmp_path / str(every), callbacks=[stop])
        resumed = federation(engine="batched", evaluate_every=every)
        evaluated.clear()
        agree(unbroken, resumed.run(6, run_dir=tmp_path / str(every), resume=True).rows(), 0)
        assert evaluated == asked[-len(evaluated) :]


CHANGES = {
    "weights": lambda person: person.model[1].weight.data.mul_(2),
    "weights, by a reference": None,
    "loaded": lambda person: person.load({"1.weight": torch.zeros(8, 36)}),
    "state": lambda person: person.state.update(seen=1),
    "plan": lambda person: setattr(person, "plan", person.plan.replace(transform=lambda x: 2 * x)),
}


@pytest.mark.parametrize("change", CHANGES, ids=CHANGES)
def test_who_is_changed_between_rounds_is_evaluated_anew(change, evaluated):
    one = federation(participation=lambda number, names, generator: ["p0"])
    kept = one.participants["p3"].brought_model
    one.run(2)
    assert evaluated[-1] == ["p0"]
    if change == "weights, by a reference":
        with torch.no_grad():
            kept[1].weight.mul_(2)
    else:
        CHANGES[change](one.participants["p3"])
    before = {row["participant"]: row["loss"] for row in one.history.final.rows}
    one.run(1)
    after = {row["participant"]: row["loss"] for row in one.history.final.rows}
    assert evaluated[-1] == ["p0", "p3"]
    assert (after["p3"] != before["p3"]) == (change != "state")
    assert after["p1"] == before["p1"]


def test_a_callback_that_changes_a_model_is_noticed_and_one_that_validates_is_no_change(evaluated):
    one = federation(participation=lambda number, names, generator: ["p0"])
    one.run(2, callbacks=[lambda running, rows: running.validate()])
    assert evaluated[-1] == ["p0"]
    one.run(2, callbacks=[lambda running, rows: running.participants["p1"].model.zero_grad()])
    assert evaluated[-1] == ["p0", "p1"]


def test_who_trains_on_a_moving_window_is_always_evaluated(evaluated):
    people = participants([mlp(i) for i in range(3)])
    people[2].window = potluck.Window(size=10, step=2)
    one = potluck.Federation(people, Local(), test=TEST, participation=lambda *given: ["p0"])
    one.run(2)
    assert evaluated[-1] == ["p0", "p2"]


# Every few rounds


@pytest.mark.parametrize("engine", ["serial", "batched"])
def test_metrics_come_every_few_rounds_and_at_the_end_and_are_what_they_would_be(engine, evaluated):
    settings = {"engine": engine, "participation": 1.0}
    each, some = federation(**settings).run(5), federation(**settings, evaluate_every=2).run(5)
    assert [number for number, _ in some.values("accuracy")] == [2, 4, 5]
    assert [some.at(number).evaluated for number in range(1, 6)] == [False, True, False, True, True]
    for number in (2, 4, 5):
        agree(some.at(number).rows, each.at(number).rows, 1e-9)
        assert some.at(number).score == pytest.approx(each.at(number).score)
    assert some.at(3).score is None
    assert some.at(3).accuracy is None
    assert "accuracy" not in some.at(3).rows[0]
    assert some.at(3).rows[0]["bytes_up"] == each.at(3).rows[0]["bytes_up"]
    assert some.headline == each.headline == "accuracy"
    assert some.best.round in (2, 4, 5)
    assert some.final.score == pytest.approx(each.final.score)


def test_of_a_few_who_took_part_in_rounds_without_all_are_evaluated_when_it_is_time(evaluated):
    one = federation(evaluate_every=3)
    rows = one.run(6).rows()
    assert evaluated == [
        [f"p{i}" for i in range(5)],
        sorted({name for number in (4, 5, 6) for name in took_part(rows, number)}),
    ]


def test_who_was_away_keeps_what_is_known(monkeypatch):
    settings = {"availability": 0.5, "participation": 1.0}
    few = federation(**settings).run(5).rows()
    everybody(monkeypatch)
    agree(few, federation(**settings).run(5).rows(), 0)


def test_a_run_that_is_stopped_plays_on_to_a_round_that_is_evaluated():
    one = federation(evaluate_every=3)
    one.run(9, callbacks=[lambda running, rows: running.stop("enough") if running.history.rounds == 4 else None])
    assert one.history.rounds == 6
    assert one.history.final.score is not None


def test_a_wrong_number_is_told():
    with pytest.raises(potluck.SettingsError, match="evaluate_every is 0"):
        federation(evaluate_every=0)


def test_looking_leaves_no_trace():
    people = {person.name: person for person in participants([mlp(0), mlp(1)], plan=PLAN)}
    people["p1"].looked_into = False
    with only_looking(people):
        assert people["p1"].model is not None
        assert people["p1"].looked_into
    assert [person.looked_into for person in people.values()] == [True, False]
