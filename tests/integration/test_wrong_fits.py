"""A Fit that names what is not there, or whose function returns what no optimizer can use, is told so."""

from __future__ import annotations

import pytest
import torch

import potluck
from potluck import Fit, Group, ModelError, Update, exchange
from potluck.core.objectives import task_loss
from tests.tables import PLAN, mlp, participants


class One(potluck.Method):
    """Plays one Fit, which ``make`` makes of the participant."""

    make: object

    def round(self, me):
        yield self.make(me)
        yield potluck.Exchange("done", potluck.Payload())

    @exchange(lambda self, server, sender: potluck.Schema({}))
    def done(self, server, answers):
        list(answers)
        return potluck.Payload()


def play(make, engine):
    people = participants([mlp(0), mlp(1)], sizes=[12, 12])
    return potluck.Federation(people, One(make=make), seed=3, engine=engine).run(1)


def first_alone(gradients, context):
    return dict(list(gradients[0].items())[:1])


def one_more(gradients, context):
    return {**gradients[0], "1.wieght": gradients[0]["1.weight"]}


def unsummed(gradients, context):
    return gradients[0]


def no_dict(gradients, context):
    return gradients[0]["1.weight"]


WRONG = {
    "a mask's shape": (
        lambda me: Fit(mask={"1.weight": torch.ones(5, dtype=torch.bool)}),
        r"The mask of '1\.weight' has shape \(5,\), which does not broadcast to the parameter's, \(8, 36\)",
    ),
    "a mask larger than its parameter": (
        lambda me: Fit(mask={"1.bias": torch.ones(2, 8, dtype=torch.bool)}),
        r"The mask of '1\.bias' has shape \(2, 8\)",
    ),
    "a mask's name": (lambda me: Fit(mask={"1.wieght": torch.tensor(True)}), r"'1\.wieght'. Did you mean '1\.weight'"),
    "a group's name": (
        lambda me: Fit(groups=[Group(["1"], PLAN), Group(["haed"], PLAN)]),
        r"no trainable parameter in 'haed'\. Known: 1, 1\.bias",
    ),
    "noise in the place of the inputs": (lambda me: Fit(noise={"x": (3,)}), "Noise named 'x' would take the place"),
    "noise in the place of targets": (lambda me: Fit(noise={"y": ()}), "Noise named 'y' would take the place"),
    "nothing to be trained": (lambda me: Fit(only=()), "to change nothing: `only` names no parameter"),
    "a step that trains nothing": (lambda me: Fit([Update(task_loss, only=[])]), "`only` names no parameter"),
    "a gradient that is missing": (
        lambda me: Fit(combine_gradients=first_alone),
        r"first_alone returned no gradient for '1\.bias'",
    ),
    "a gradient of nothing": (
        lambda me: Fit(combine_gradients=one_more),
        r"one_more returned a gradient for '1\.wieght', which is not trained\. Did you mean '1\.weight'",
    ),
    "gradients of samples": (
        lambda me: Fit(per_sample=True, combine_gradients=unsummed),
        r"unsummed returned a gradient of shape \(\d+, 8, 36\) for '1\.weight'; expected \(8, 36\), .*Sum or average",
    ),
    "no gradients by name": (lambda me: Fit(combine_gradients=no_dict), "no_dict returned a Tensor; expected a dict"),
}


@pytest.mark.parametrize("engine", ["serial", "batched"])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_told_on_every_engine(wrong, engine):
    make, message = WRONG[wrong]
    with pytest.raises(ModelError, match=message):
        play(make, engine)


@pytest.mark.parametrize("engine", ["serial", "batched"])
def test_a_group_may_be_frozen_and_masks_may_broadcast(engine):
    def fit(me):
        me.model[1].requires_grad_(False)
        return Fit(groups=[Group(["1"], PLAN)], mask={"3.weight": torch.ones(1, 8, dtype=torch.bool)})

    play(fit, engine)


def test_names_may_come_from_a_generator():
    people = participants([mlp(0), mlp(0)], sizes=[12, 12])
    start = {name: entry.clone() for name, entry in people[0].model.state_dict().items()}
    fit = One(make=lambda me: Fit(only=(name for name in me.head), groups=[Group((name for name in me.head), PLAN)]))
    potluck.Federation(people, fit, seed=3, engine="batched").run(1)
    moved = {name for name, entry in people[0].model.state_dict().items() if not torch.equal(entry, start[name])}
    assert moved == {"3.weight", "3.bias"}


def test_a_fit_has_an_objective():
    with pytest.raises(potluck.SettingsError, match="A Fit has no objective"):
        Fit([])


def test_an_optimizer_that_asks_for_the_loss_again_is_refused():
    plan = PLAN.replace(optimizer=torch.optim.LBFGS, momentum=0.0)
    people = participants([mlp(0)], sizes=[12], plan=plan)
    with pytest.raises(ModelError, match="LBFGS asks for the loss again within a step"):
        potluck.Federation(people, potluck.methods.Local(), engine="serial").run(1)
