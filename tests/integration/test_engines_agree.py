"""One result: the batched engine's history equals the serial engine's, whatever methods ask for."""

from __future__ import annotations

import pytest
import torch
from sklearn.tree import DecisionTreeClassifier
from torch import nn

import potluck
from potluck.engines.batched.kernels import dispatch as layers
from potluck.methods import CoFED, Local
from tests.methods_to_try import METHODS_TO_TRY, PUBLIC, TEST
from tests.tables import PLAN, agree, cnn, deep_cnn, mlp, participants, weights_agree

EQUAL = 1e-6 if torch.cuda.is_available() else 1e-10
"""How near float64 histories must be. GPUs sum up in varying orders, and some methods send float32, or train a
server's model in it, where the last bit of a float64 may decide how a number is rounded."""


def alike(dtype=torch.float64):
    return [cnn(i, dtype=dtype) for i in range(5)]


def mixed(dtype=torch.float64):
    return [cnn(0, dtype=dtype), mlp(1, dtype=dtype), cnn(2, dtype=dtype), mlp(3, dtype=dtype), cnn(4, 6, dtype=dtype)]


def play(method, models, engine, *, reverse=False, dtype="float64", rounds=2, plan=PLAN, **settings):
    people = participants(models, plan=plan, dtype=dtype)
    federation = potluck.Federation(
        people[::-1] if reverse else people,
        method,
        public=(PUBLIC[0].astype(dtype), PUBLIC[1]),
        test=(TEST[0].astype(dtype), TEST[1]),
        seed=3,
        engine=engine,
        **settings,
    )
    return federation.run(rounds).rows(), people


def deep(dtype=torch.float64):
    return [deep_cnn(i, 1 + i % 2, dtype=dtype) for i in range(5)]


@pytest.fixture(autouse=True)
def nothing_runs_alone(caplog):
    """What cannot be stacked runs alone, with the right result: so a stack that fails would not be seen otherwise."""
    yield
    assert "cannot be stacked" not in caplog.text


def fitting(method, models):
    """Networks that the method can use: of one architecture, with inner layers, or any."""
    needs = method.requires()
    if needs.same_architecture:
        return alike
    return deep if needs.stages or needs.convolutions else models


LAYERS = ["plain", "ours"] if torch.cuda.is_available() else ["plain"]
"""On a GPU many networks are asked with layers of ours, which a small table would not see."""


@pytest.mark.parametrize("method", METHODS_TO_TRY, ids=str)
@pytest.mark.parametrize("models", [alike, mixed])
@pytest.mark.parametrize("kind", LAYERS)
def test_float64_histories_are_equal(method, models, kind, monkeypatch):
    if kind == "ours":
        monkeypatch.setattr(layers, "FEW", 0)
    models = fitting(method, models)
    serial, serial_people = play(method, models(), "serial")
    batched, batched_people = play(method, models(), "batched")
    agree(serial, batched, EQUAL)
    weights_agree(serial_people, batched_people, EQUAL)


@pytest.mark.parametrize("method", METHODS_TO_TRY, ids=str)
def test_float32_histories_are_close(method):
    rows = []
    for engine in ("serial", "batched"):
        models = fitting(method, alike)(torch.float32)
        found, _ = play(method, models, engine, dtype="float32", precision="float32")
        rows.append(found)
    for mine, other in zip(*rows, strict=True):
        assert mine["loss"] == pytest.approx(other["loss"], rel=2e-2 if torch.cuda.is_available() else 1e-3)
        assert mine["bytes_up"] == other["bytes_up"]


@pytest.mark.parametrize("engine", ["serial", "batched"])
@pytest.mark.parametrize("method", METHODS_TO_TRY, ids=str)
def test_the_order_of_the_participants_changes_nothing(method, engine):
    models = fitting(method, alike)
    forward, _ = play(method, models(), engine)
    backward, _ = play(method, models(), engine, reverse=True)
    by_name = sorted(backward, key=lambda row: (row["round"], row["participant"]))
    agree(forward, by_name, max(1e-12, EQUAL / 100))


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_adam_that_remembers_across_rounds_agrees(optimizer):
    plan = PLAN.replace(optimizer=optimizer, momentum=0.0, lr=0.01, weight_decay=0.01)
    runs = [
        play(Local(), alike(), engine, plan=plan, rounds=3, keep_optimizer=True) for engine in ("serial", "batched")
    ]
    agree(runs[0][0], runs[1][0], 1e-7)
    forgetful, _ = play(Local(), alike(), "serial", plan=plan, rounds=3)
    assert forgetful[-1]["loss"] != pytest.approx(runs[0][0][-1]["loss"], rel=1e-6)


@pytest.mark.parametrize("method", METHODS_TO_TRY, ids=str)
@pytest.mark.parametrize("share", [0.4, 0.6, 0.8])
def test_partial_participation_agrees(method, share):
    """Those who sat out come to other exchanges first; whoever runs them, they meet again."""
    models = fitting(method, alike)
    runs = [play(method, models(), engine, rounds=4, participation=share)[0] for engine in ("serial", "batched")]
    agree(runs[0], runs[1], 10 * EQUAL)
    took = {sum(row["took_part"] for row in runs[0] if row["round"] == number) for number in range(1, 5)}
    assert took == {round(5 * share)}


def test_estimators_and_networks_share_a_table():
    def rows(engine):
        people = participants([cnn(0), cnn(1), DecisionTreeClassifier()])
        federation = potluck.Federation(people, CoFED(), public=PUBLIC[0], test=TEST, engine=engine)
        return federation.run(1).rows()

    agree(rows("serial"), rows("batched"), EQUAL)


def test_dropout_agrees_statistically():
    """Where a model draws for itself, the engines draw different numbers from the same distribution."""

    def model(seed):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(36, 3)).double()

    plan = PLAN.replace(lr=0.02)
    losses = {}
    for engine in ("serial", "batched"):
        rows, _ = play(Local(), [model(i) for i in range(5)], engine, plan=plan, rounds=1)
        losses[engine] = [row["loss"] for row in rows]
    serial, batched = torch.tensor(losses["serial"]), torch.tensor(losses["batched"])
    assert (serial - batched).abs().max() > 1e-12
    assert serial.mean().item() == pytest.approx(batched.mean().item(), rel=0.15)


def test_dropout_is_repeatable_on_one_engine():
    def rows(engine):
        return play(Local(), [nn.Sequential(nn.Flatten(), nn.Dropout(0.5), mlp(i)) for i in range(3)], engine)[0]

    for engine in ("serial", "batched"):
        agree(rows(engine), rows(engine), 1e-12)
