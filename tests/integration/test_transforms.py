"""However a transform or an augmentation is written, every engine comes to one history, and no network runs alone."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import torch
from torch import nn

import potluck
from potluck.bench.transforms import WAYS
from potluck.data import Crop, Cutout, Flip, Normalize
from potluck.engines.ready_inputs import ReadyInputs
from potluck.methods import FedAvg, Local
from tests.jobs import trained_together
from tests.tables import PLAN, agree, cnn, made_data, weights_agree

TEST = made_data(20, 50)


def played(engine, plans, sizes=(20, 20, 13, 30), rounds=2, **settings):
    people = [
        potluck.Participant(f"p{i}", cnn(i), made_data(size, i), plan=plan, labels=range(3))
        for i, (size, plan) in enumerate(zip(sizes, plans, strict=True))
    ]
    federation = potluck.Federation(people, FedAvg(), test=TEST, engine=engine, seed=2, **settings)
    federation.run(rounds)
    return federation


def same_on_both(plans_of, monkeypatch, budget=None, tolerance=1e-9):
    """The batched engine's history is the serial one's, and all four networks were trained together."""
    serial = played("serial", plans_of())
    sizes = trained_together(monkeypatch)
    if budget is not None:
        monkeypatch.setattr("potluck.engines.base.ReadyInputs", lambda: ReadyInputs(budget))
    batched = played("batched", plans_of())
    agree(serial.history.rows(), batched.history.rows(), tolerance)
    weights_agree(serial.participants.values(), batched.participants.values(), tolerance)
    assert sizes == [4, 4]
    assert batched.engine.incidents == []
    return serial


@pytest.mark.parametrize("budget", [None, 0], ids=["kept", "over the budget"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_each_way_of_writing_a_transform_gives_the_serial_history(way, budget, monkeypatch):
    transformed = same_on_both(lambda: [PLAN.replace(transform=way()) for _ in range(4)], monkeypatch, budget)
    plain = played("serial", [PLAN] * 4)
    assert transformed.history.rows()[0]["loss"] != plain.history.rows()[0]["loss"]
    by_hand = played("serial", [PLAN.replace(transform=lambda x: (x - 0.1307) / 0.3081)] * 4)
    agree(transformed.history.rows(), by_hand.history.rows(), 1e-5)


def looking(x):
    return x / 2 if x.max().item() > 1 else x


OTHERS = {
    "by the batch": lambda: PLAN.replace(transform=lambda x: x / x.abs().max()),
    "a look at a value": lambda: PLAN.replace(transform=looking),
    "in numpy": lambda: PLAN.replace(transform=lambda x: torch.from_numpy(np.tanh(x.numpy()))),
    "augmented": lambda: PLAN.replace(augment=[Crop(1), Flip(), Cutout(2)]),
    "augmented and transformed": lambda: PLAN.replace(augment=Crop(1), transform=Normalize(0.1, 0.3)),
    "augmented and by the batch": lambda: PLAN.replace(augment=Flip(), transform=lambda x: x / x.abs().max()),
    "augmented by a function": lambda: PLAN.replace(
        augment=lambda x, generator: x + torch.rand(x.shape, generator=generator), transform=Normalize(0.1, 0.3)
    ),
}


@pytest.mark.parametrize("plan", OTHERS.values(), ids=OTHERS)
def test_other_transforms_and_augmentations_give_the_serial_history(plan, monkeypatch):
    same_on_both(lambda: [plan() for _ in range(4)], monkeypatch)


def test_transforms_that_differ_are_stacked_once_they_are_applied(monkeypatch):
    same_on_both(lambda: [PLAN.replace(transform=Normalize(0, 1 + i)) for i in range(4)], monkeypatch)


def test_what_differs_from_participant_to_participant_and_is_applied_at_each_step_is_not_stacked(monkeypatch):
    plans = [PLAN.replace(augment=Crop(padding)) for padding in (1, 1, 2, 2)]
    serial = played("serial", plans)
    sizes = trained_together(monkeypatch)
    batched = played("batched", plans)
    agree(serial.history.rows(), batched.history.rows(), 1e-9)
    assert sizes == [2, 2, 2, 2]


class Holding:
    def __init__(self, file):
        self.file = file

    def draw(self, count, generator):
        return torch.rand(count, generator=generator)

    def apply(self, x, drawn):
        return x + drawn.reshape(-1, 1, 1, 1)


def test_what_cannot_be_compared_is_said_once():
    files = [open(__file__) for _ in range(4)]  # noqa: SIM115
    found = played("batched", [PLAN.replace(augment=Holding(file)) for file in files])
    for file in files:
        file.close()
    [incident] = found.engine.incidents
    assert "cannot be compared, since it holds a TextIOWrapper, so these networks are not stacked" in incident
    same = played("batched", [PLAN.replace(augment=Holding(None)) for _ in range(4)])
    agree(found.history.rows(), same.history.rows(), 1e-9)
    assert same.engine.incidents == []


def test_a_transform_that_its_owner_changes_between_runs_is_applied_anew():
    class Scaling:
        def __init__(self, by):
            self.by = by

        def __call__(self, x):
            return x * self.by

    def after(first, second):
        scaling = Scaling(first)
        federation = played("serial", [PLAN.replace(transform=scaling)] * 4, rounds=1)
        scaling.by = second
        federation.run(1)
        return federation.history.rows()

    same, other = after(1, 1), after(1, 3)
    agree(same[:4], other[:4], 0)
    assert all(one["loss"] != two["loss"] for one, two in zip(same[4:], other[4:], strict=True))


class RandomShift(nn.Module):
    """Called as torchvision's random transforms are: one draw at each call, any number of inputs."""

    def forward(self, *inputs):
        shift = torch.rand(())
        found = [x + shift for x in inputs]
        return found[0] if len(found) == 1 else tuple(found)


def test_what_is_called_as_torchvisions_transforms_are_works_as_it_is_written(monkeypatch):
    plan = PLAN.replace(augment=RandomShift())
    same_on_both(lambda: [plan] * 4, monkeypatch)


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="needs torchvision")
def test_torchvisions_own_transforms(monkeypatch):
    from torchvision.transforms import v2

    def plan():
        augment = v2.Compose([v2.RandomCrop(6, padding=1), v2.RandomHorizontalFlip()])
        transform = v2.Compose([v2.ToDtype(torch.float64), v2.Normalize([0.1], [0.3])])
        return PLAN.replace(augment=augment, transform=transform)

    found = same_on_both(lambda: [plan() for _ in range(4)], monkeypatch)
    other = played("serial", [PLAN.replace(transform=Normalize(0.1, 0.3))] * 4)
    assert found.history.rows()[0]["loss"] != other.history.rows()[0]["loss"]


def test_shared_test_data_are_transformed_once_for_all(monkeypatch):
    seen = []
    made = ReadyInputs._made
    monkeypatch.setattr(ReadyInputs, "_made", lambda self, *given: (seen.append(1), made(self, *given))[1])
    people = [
        potluck.Participant(f"p{i}", cnn(i), made_data(20, i), plan=PLAN.replace(transform=WAYS["lambda"]()))
        for i in range(4)
    ]
    potluck.Federation(people, Local(), test=TEST, engine="batched").run(3)
    assert len(seen) == 5, "four participants' own data, and one test set"
