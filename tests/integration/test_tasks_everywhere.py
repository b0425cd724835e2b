"""Tasks beside classification on every way a federation may take: engines, a resumed run, a network, a disk."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import potluck
from potluck.flower import gateway
from potluck.methods import FD, MHAT, CoFED, FedAvg
from tests.flower.fakes import FakeGrid, client_of, served
from tests.tables import agree, weights_agree

PLAN = potluck.Plan(optimizer="sgd", lr=0.1, epochs=2, batch_size=8)


def values(rows: int, seed: int) -> Any:
    x = np.random.default_rng(seed).normal(size=(rows, 4))
    return x, 50 + 10 * x[:, 0] - 5 * x[:, 1]


def several(rows: int, seed: int) -> Any:
    x = np.random.default_rng(seed).normal(size=(rows, 4))
    return x, (x[:, :3] > 0).astype(int)


def tokens(rows: int, seed: int) -> Any:
    """Texts in two inputs, ids and a mask, and for each token whether it is even; padding has no label."""
    random = np.random.default_rng(seed)
    ids = random.integers(1, 10, size=(rows, 6))
    mask = np.arange(6) < random.integers(2, 7, size=(rows, 1))
    return {"ids": ids, "mask": mask}, np.where(mask, ids % 2, 9)


def texts(rows: int, seed: int) -> Any:
    """Texts in two inputs with one label each: whether a 1 occurs."""
    inputs, _ = tokens(rows, seed)
    return inputs, np.where(((inputs["ids"] == 1) & inputs["mask"]).any(axis=1), "yes", "no")


def net(input_shape: Any, classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, classes)).double()


class Reader(nn.Module):
    """Says something of each token, or of a text the mean over its tokens."""

    def __init__(self, classes: int, whole: bool = False) -> None:
        super().__init__()
        self.embed, self.head, self.whole = nn.Embedding(10, 6), nn.Linear(6, classes), whole
        self.double()

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        found = self.embed(ids) * mask[..., None]
        said: torch.Tensor = self.head(found.sum(dim=1) if self.whole else found)
        return said


TAGS = potluck.PerPosition([0, 1], ignore=9)
CASES: dict[str, Any] = {
    "values, averaged": (FedAvg(), potluck.Regression(scale=(50.0, 11.0)), net, values, None),
    "values, distilled": (FD(), "regression", net, values, values(30, 90)[0]),
    "values, merged": (MHAT(auxiliary="mlp"), "regression", net, values, values(30, 90)[0]),
    "values, merged by one scale": (
        MHAT(auxiliary="mlp"),
        potluck.Regression(scale=(50.0, 11.0)),
        net,
        values,
        values(30, 90)[0],
    ),
    "values, voted for": (CoFED(update_batch_size=8), "regression", net, values, values(30, 90)[0]),
    "several labels": (FedAvg(), "multilabel", net, several, None),
    "token ids with masks": (FedAvg(), TAGS, lambda classes: Reader(classes), tokens, None),
    "texts": (FedAvg(), "classification", lambda classes: Reader(classes, whole=True), texts, None),
}


def people(case: str, **settings: Any) -> list[potluck.Participant]:
    _, task, model, data, _ = CASES[case]
    return [
        potluck.Participant(f"p{i}", model, data(rows, i), task=task, plan=PLAN, test=data(30, 91), **settings)
        for i, rows in enumerate((24, 31, 17))
    ]


def play(case: str, engine: str = "serial", rounds: int = 3, run: Any = None, **settings: Any) -> potluck.Federation:
    method, *_, public = CASES[case]
    federation = potluck.Federation(people(case), method, public=public, engine=engine, seed=3, **settings)
    federation.run(rounds, **(run or {}))
    return federation


def same(one: potluck.Federation, other: potluck.Federation, tolerance: float) -> None:
    agree(one.history.rows(), other.history.rows(), tolerance)
    weights_agree(one.participants.values(), other.participants.values(), tolerance)


@pytest.mark.parametrize("case", CASES)
def test_batched_is_serial_and_somebody_learns(case: str, caplog: pytest.LogCaptureFixture) -> None:
    serial, batched = play(case), play(case, "batched")
    same(batched, serial, 1e-9)
    assert "cannot be stacked" not in caplog.text
    first, last = serial.history.at(1), serial.history.final
    assert first.metric == last.metric == people(case)[0].task.headline
    assert last.score is not None
    assert last.score > 0.3


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_is_an_unbroken_one(case: str, tmp_path: Any) -> None:
    play(case, rounds=2, run={"run_dir": tmp_path})
    same(play(case, run={"run_dir": tmp_path, "resume": True}), play(case), 0)


def test_on_disk_they_are_the_same() -> None:
    same(play("values, averaged", storage="disk", max_concurrent=1), play("values, averaged"), 0)


OVER = [case for case in CASES if case not in ("values, voted for", "several labels", "texts")]


@pytest.mark.parametrize("case", OVER)
def test_over_the_protocol_they_are_the_same(case: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "POLL_INTERVAL", 0.001)
    monkeypatch.setattr(gateway, "NODE_INTERVAL", 0.0)
    method, *_, public = CASES[case]
    there = people(case)
    grid = FakeGrid([client_of(person, tmp_path) for person in there])
    over = served(grid, method, [person.name for person in there], public=public)
    over.run(3)
    ours, theirs = over.history.rows(), play(case).history.rows()
    for row in (*ours, *theirs):
        row["bytes_down"] = 0  # over the network participants also fetch the public data
    agree(ours, theirs, 1e-9)
    assert over.history.headline == there[0].task.headline


def test_a_changed_task_is_another_federation(tmp_path: Any) -> None:
    play("values, averaged", rounds=1, run={"run_dir": tmp_path})
    CASES["another"] = (FedAvg(), potluck.Regression(scale=(40.0, 11.0)), net, values, None)
    with pytest.raises(potluck.PotluckError, match="participants"):
        play("another", run={"run_dir": tmp_path, "resume": True})
