from __future__ import annotations

import copy
import math

import pytest
import torch

import potluck
from potluck.core.errors import PayloadError
from potluck.core.payload import Payload
from potluck.methods import FedSSA
from tests.methods.plain import PLAN, begun, data_of, descended, loaded
from tests.tables import headed_cnn, made_data, mlp


def people(**settings):
    """A has samples of the classes 0 and 1, B of 1 alone, C of 1 and 2."""
    owned, models = ([0, 1], [1], [1, 2]), (mlp(0), headed_cnn(1), mlp(2))
    return [
        potluck.Participant(name, model, made_data(12, i, labels), plan=PLAN, labels=range(3), **settings)
        for i, (name, model, labels) in enumerate(zip("ABC", models, owned, strict=True))
    ]


def joined(method, **settings):
    federation = potluck.Federation(people(), method, engine="serial", **settings)
    federation.run(0)
    return federation


def rows_of(values, width=8):
    """A row of equal numbers for each value."""
    table = torch.tensor(values, dtype=torch.float64)[:, None].expand(-1, width)
    return Payload({"weight": table.contiguous(), "bias": table[:, 0].contiguous()})


def test_rows_are_averaged_by_class_by_hand():
    """A has 0: 2 and 1: 4, B has 1: 8; nobody sends class 2, whose row stays."""
    method = FedSSA()
    server = joined(method).server
    before = method.entries(server, "A")["bias"][2].item()
    replies = method.rows(server, iter([("A", rows_of([2, 4])), ("B", rows_of([8]))]))
    assert replies["A"]["bias"].tolist() == [2, 6]
    assert replies["A"]["weight"][:, 3].tolist() == [2, 6]
    assert replies["B"]["bias"].tolist() == [6]
    assert method.entries(server, "A")["bias"][2].item() == before


def test_the_last_rows_of_those_who_sit_out_may_count():
    for stale, expected in ((False, 10), (True, 7)):
        method = FedSSA(stale=stale)
        server = joined(method).server
        method.rows(server, iter([("A", rows_of([2, 4])), ("B", rows_of([8]))]))
        replies = method.rows(server, iter([("B", rows_of([10]))]))
        assert replies["B"]["bias"].tolist() == [expected]


@pytest.mark.parametrize(
    ("settings", "round", "expected"),
    [({}, 1, [3, 8]), ({}, 2, [2.707107, 7.414214]), ({}, 3, [2, 6]), ({"convex": True}, 2, [2, 5.292893])],
)
def test_global_and_own_rows_by_hand(settings, round, expected):
    """Global rows 2 and 6, own ones 2 and 4; μ is 0.5, 0.353553 and 0 at t = 0, 1 and 2."""
    method = FedSSA(**settings)
    me = joined(method).participants["A"]
    own = {name: entry.clone() for name, entry in method.shared(me).items()}
    own["bias"][:2] = torch.tensor([2.0, 4.0])
    me.load({f"3.{name}": entry for name, entry in own.items()})
    me.state["rows"] = {"bias": torch.tensor([2.0, 6.0], dtype=torch.float64)}
    me.round = round
    method.fuse(me)
    found = method.shared(me)["bias"].tolist()
    assert found[:2] == pytest.approx(expected, abs=1e-6)
    assert found[2] == own["bias"][2].item(), "classes that one has no samples of stay"


def test_two_rounds_in_plain_pytorch():
    federation = joined(FedSSA())
    persons = list(federation.participants.values())
    models, owned = [copy.deepcopy(p.model) for p in persons], ([0, 1], [1], [1, 2])
    names = [list(model.state_dict())[-2:] for model in models]
    common = [models[0].state_dict()[name].clone() for name in names[0]]
    for t in range(2):
        for i, model in enumerate(models):
            head = [model.state_dict()[name].clone() for name in names[i]]
            for entry, rows in zip(head, common, strict=True):
                entry[owned[i]] = rows[owned[i]] + 0.5 * math.cos(math.pi * t / 4) * entry[owned[i]]
            models[i] = descended(loaded(model, dict(zip(names[i], head, strict=True))), data_of(persons[i]))
        for place, entry in enumerate(common):
            for c in range(3):
                having = [m.state_dict()[n[place]][c] for m, n, o in zip(models, names, owned, strict=True) if c in o]
                entry[c] = torch.stack(having).mean(dim=0)
    federation.run(2)
    for person, model in zip(persons, models, strict=True):
        for name, entry in person.weights().items():
            torch.testing.assert_close(entry, model.state_dict()[name])
    for place, name in enumerate(("weight", "bias")):
        torch.testing.assert_close(persons[2].state["rows"][name], common[place][[1, 2]])


@pytest.mark.parametrize("told", [[], [1, 0], [1, 1], [-1]])
def test_classes_that_make_no_sense_are_refused(told):
    method = FedSSA()
    server = joined(method).server
    facts = {"samples": 3, "layout": dict(server.state["layouts"]["A"]), "classes": told}
    with pytest.raises(PayloadError, match="classes"):
        method.greeting(server, "A").check(Payload(facts=facts))


def test_features_of_one_width_are_expected():
    with pytest.raises(potluck.RequirementsError):
        begun(FedSSA(), [mlp(0), mlp(1, hidden=5)])[0].run(1)


def test_whoever_sat_out_fetches_the_rows_of_today():
    fused = {}

    class Watched(FedSSA):
        def fuse(self, me):
            fused[me.name, me.round] = {name: rows.clone() for name, rows in me.state["rows"].items()}
            super().fuse(me)

    method = Watched()
    without_a = lambda number, names, generator: names[1:] if number == 2 else names  # noqa: E731
    federation = potluck.Federation(people(), method, engine="serial", participation=without_a)
    federation.run(2)
    today = method.entries(federation.server, "A")
    federation.run(1)
    assert federation.travelled["fetch"]["answers"] == 1
    for name, rows in fused["A", 3].items():
        torch.testing.assert_close(rows, today[name][federation.participants["A"].state["classes"]])
        assert not torch.equal(rows, fused["A", 1][name])
