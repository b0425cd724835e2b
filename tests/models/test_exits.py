"""Networks with early exits."""

import numpy as np
import pytest
import torch
from torch import nn

import potluck
from potluck.core.errors import SettingsError
from potluck.models import build
from potluck.models.exits import ExitNetwork


def test_it_answers_by_its_last_exit_and_the_others_can_be_tapped():
    steps = {"one": nn.Linear(2, 3), "two": nn.Linear(3, 4), "three": nn.Linear(4, 4)}
    network = ExitNetwork(steps, {"one": nn.Linear(3, 5), "three": nn.Linear(4, 5)})
    assert network.exit_names == ["exits.one", "exits.three"]
    x = torch.randn(6, 2)
    _, taken = potluck.ModelView(network).taps(x, network.exit_names)
    torch.testing.assert_close(taken["exits.one"], network.exits["one"](network.one(x)))
    torch.testing.assert_close(network(x), network.exits["three"](network.three(network.two(network.one(x)))))
    torch.testing.assert_close(network(x), taken["exits.three"])


def test_a_shallow_one_is_the_beginning_of_the_whole():
    whole, first = (build("exit_resnet10", (3, 8, 8), 4, exits=exits, width=4) for exits in (4, 2))
    layouts = [{name: entry.shape for name, entry in network.state_dict().items()} for network in (whole, first)]
    assert layouts[1].items() < layouts[0].items()
    assert first.exit_names == ["exits.layer1", "exits.layer2"]
    assert first(torch.zeros(2, 3, 8, 8)).shape == whole(torch.zeros(2, 3, 8, 8)).shape == (2, 4)


@pytest.mark.parametrize("wrong", [0, 5, 1.0, True])
def test_how_many_exits_there_may_be_is_told(wrong):
    with pytest.raises(SettingsError, match=r"exits = .*; expected how many of the four groups"):
        build("exit_resnet10", (3, 8, 8), 4, exits=wrong)


def all_exits(model, batch, context):
    _, taken = model.taps(batch["x"], context["exits"])
    return sum(nn.functional.cross_entropy(taken[name], batch["y"]) for name in context["exits"])


class AllExits(potluck.Method):
    def round(self, me):
        yield potluck.Fit(all_exits, context={"exits": tuple(me.model.exit_names)})


def test_serial_and_batched_train_all_exits_alike():
    random = np.random.default_rng(0)
    data = [(random.normal(size=(12, 1, 8, 8)), random.integers(3, size=12)) for _ in range(3)]

    def play(engine):
        people = []
        for number, own in enumerate(data):
            torch.manual_seed(number)
            model = build("exit_resnet10", (1, 8, 8), 3, width=2, stem="small", exits=2).double()
            people.append(potluck.Participant(f"p{number}", model, own, labels=range(3), test=own))
        plan = potluck.Plan(optimizer="sgd", lr=0.05, batch_size=6)
        for one in people:
            one.plan = plan
        return potluck.Federation(people, AllExits(), engine=engine).run(2)

    for one, other in zip(play("serial").rows(), play("batched").rows(), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-9)
