"""Participants whose data drift over time: each trains on a window that moves on."""

from __future__ import annotations

import pytest
import torch

import potluck
from potluck.methods import FedAvg, Local
from potluck.runs import CheckpointError
from tests.tables import agree, made_data, mlp

WINDOW = potluck.Window(size=10, step=4)
PLAN = potluck.Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=5)


def federation(method=None, engine="serial", window=WINDOW, **settings):
    people = [
        potluck.Participant(f"p{i}", mlp(i), made_data(24, i), plan=PLAN, labels=range(3), window=window)
        for i in range(3)
    ]
    return potluck.Federation(people, method or FedAvg(), engine=engine, test=made_data(20, 9), seed=2, **settings)


def test_a_round_trains_on_its_own_samples():
    """Two rounds of Local are two trainings in plain PyTorch, on rows 0 to 9 and 4 to 13."""
    drifting = federation(Local())
    drifting.run(2)
    model, (x, y) = mlp(1), made_data(24, 1)
    by_hand = potluck.Federation(
        [potluck.Participant("p1", model, (x[:10], y[:10]), plan=PLAN, labels=range(3))],
        Local(),
        seed=2,
        engine="serial",
    )
    by_hand.run(1)
    first = drifting_after(1)
    for name, entry in by_hand.participants["p1"].weights().items():
        torch.testing.assert_close(entry, first[name], rtol=1e-12, atol=1e-12)
    assert [len(p.data) for p in drifting.participants.values()] == [10, 10, 10]
    expected = torch.as_tensor(made_data(24, 1)[0][4:14])
    torch.testing.assert_close(drifting.participants["p1"].data.x, expected, rtol=0, atol=0)


def drifting_after(rounds):
    played = federation(Local())
    played.run(rounds)
    return played.participants["p1"].weights()


@pytest.mark.parametrize("settings", [{"engine": "batched"}, {"storage": "disk"}, {"max_concurrent": 2}])
def test_every_way_of_running_agrees(settings):
    agree(federation().run(4).rows(), federation(**settings).run(4).rows(), 1e-9)


def test_a_resumed_run_goes_on_where_the_window_is(tmp_path):
    whole = federation().run(4)
    federation().run(2, run_dir=tmp_path)
    agree(whole.rows(), federation().run(4, run_dir=tmp_path, resume=True).rows(), 0)
    with pytest.raises(CheckpointError, match="participants differ"):
        federation(window=potluck.Window(size=10, step=5)).run(5, run_dir=tmp_path, resume=True)


def test_what_is_held_back_does_not_change_the_order_of_time():
    x = torch.arange(20.0)[:, None]
    person = potluck.Participant("a", torch.nn.Linear(1, 2), (x, (x[:, 0] > 9).long()), validation=0.25, window=WINDOW)
    rows = person.data.x[:, 0]
    assert len(rows) == 10
    assert torch.equal(rows, rows.sort().values)
