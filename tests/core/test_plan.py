from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn

from potluck import Plan, Samples, SettingsError
from potluck.core.input_changes import TransformKind
from potluck.core.plan import as_plan
from potluck.learners.network import make_optimizer


def halves(progress, round):
    return 0.5**round


def test_a_plan_needs_no_settings():
    plan = Plan()
    assert (plan.optimizer, plan.lr, plan.epochs, plan.batch_size) == ("adam", 1e-3, 1, 32)
    assert (plan.momentum, plan.weight_decay, plan.max_grad_norm, plan.schedule) == (0, 0, None, "constant")
    assert plan.transform is None
    assert plan.augment is None


def test_a_plan_with_changes_keeps_the_rest():
    plan = Plan(optimizer="sgd", lr=0.5, epochs=3)
    changed = plan.replace(epochs=0, lr=None, batch_size=8)
    assert (changed.optimizer, changed.lr, changed.epochs, changed.batch_size) == ("sgd", 0.5, 0, 8)
    assert plan.epochs == 3


def test_changes_are_checked_too():
    with pytest.raises(SettingsError, match="epochs = -1"):
        Plan().replace(epochs=-1)
    with pytest.raises(SettingsError, match="no setting 'epoch'"):
        Plan().replace(epoch=1)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("optimizer", "adamm"),
        ("optimizer", 3),
        ("optimizer", None),
        ("optimizer", "math:pi"),
        ("optimizer", "no_such_module:Thing"),
        ("lr", 0),
        ("lr", -0.1),
        ("lr", float("nan")),
        ("lr", float("inf")),
        ("lr", "fast"),
        ("momentum", -0.1),
        ("momentum", 1),
        ("weight_decay", -1),
        ("epochs", -1),
        ("epochs", 1.5),
        ("batch_size", 0),
        ("schedule", "cosin"),
        ("schedule", 3),
        ("max_grad_norm", 0),
        ("max_grad_norm", -1),
        ("transform", 3),
        ("transform", "math:pi"),
        ("augment", 3),
    ],
)
def test_a_wrong_value_is_named_with_its_setting(setting, value):
    with pytest.raises(SettingsError) as caught:
        Plan(**{setting: value})
    assert f"Plan: {setting} = {value!r}. " in str(caught.value)
    assert all(line.startswith(f"Plan: {setting} = ") for line in str(caught.value).splitlines())


@pytest.mark.parametrize(("schedule", "factors"), [("constant", (1, 1, 1)), ("linear", (1, 0.5, 0))])
def test_a_schedule_by_name_follows_progress(schedule, factors):
    plan = Plan(lr=0.1, schedule=schedule)
    assert [plan.rate(progress, 7) for progress in (0.0, 0.5, 1.0)] == pytest.approx([0.1 * f for f in factors])


def test_the_cosine_schedule_starts_and_ends_flat():
    plan = Plan(lr=1.0, schedule="cosine")
    assert [plan.rate(p, 1) for p in (0, 1 / 3, 0.5, 1)] == pytest.approx([1, 0.75, 0.5, 0])


@pytest.mark.parametrize("schedule", [halves, f"{__name__}:halves"], ids=["callable", "by path"])
def test_a_schedule_may_be_ones_own_and_depend_on_the_round(schedule):
    plan = Plan(lr=0.8, schedule=schedule)
    assert [plan.rate(0.3, round) for round in (0, 1, 2)] == pytest.approx([0.8, 0.4, 0.2])


@pytest.mark.parametrize(
    ("optimizer", "kind"),
    [
        ("sgd", torch.optim.SGD),
        ("adam", torch.optim.Adam),
        ("adamw", torch.optim.AdamW),
        (torch.optim.RMSprop, torch.optim.RMSprop),
        ("torch.optim:RMSprop", torch.optim.RMSprop),
        (lambda parameters, lr: torch.optim.Adagrad(parameters, lr=lr, eps=0.1), torch.optim.Adagrad),
    ],
)
def test_an_optimizer_is_a_name_a_class_a_path_or_a_function(optimizer, kind):
    made = make_optimizer(Plan(optimizer=optimizer, lr=0.25), [nn.Parameter(torch.ones(1))])
    assert type(made) is kind
    assert made.param_groups[0]["lr"] == 0.25


def test_an_optimizer_by_path_survives_a_change_of_plan():
    assert Plan(optimizer="torch.optim:RMSprop").replace(lr=0.5).optimizer is torch.optim.RMSprop


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_named_optimizers_take_weight_decay(optimizer):
    made = make_optimizer(Plan(optimizer=optimizer, weight_decay=0.3), [nn.Parameter(torch.ones(1))])
    assert made.param_groups[0]["weight_decay"] == 0.3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_bytes_of_pictures_are_divided_by_255(dtype):
    x = Plan().inputs(torch.tensor([[[0, 51, 255]]], dtype=torch.uint8), dtype)
    assert x.dtype == dtype
    torch.testing.assert_close(x, torch.tensor([[[0, 0.2, 1]]], dtype=dtype))


@pytest.mark.parametrize(
    ("scale", "flat", "picture"), [("pictures", False, True), ("bytes", True, True), ("never", False, False)]
)
def test_which_bytes_are_scaled_is_a_setting(scale, flat, picture):
    """A row of bytes may as well hold tokens: only what has a height and a width is a picture."""
    for shape, scaled in (((1, 3), flat), ((1, 3, 3), picture), ((1, 1, 3, 3), picture)):
        x = torch.full(shape, 255, dtype=torch.uint8)
        expected = torch.ones(shape, dtype=torch.float64) if scaled else x
        found = Plan(scale=scale).inputs(x, torch.float64)
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)


def test_each_of_several_inputs_follows_the_rule_by_itself():
    given = {
        "ids": torch.tensor([[3, 255]], dtype=torch.uint8),
        "mask": torch.tensor([[True, False]]),
        "picture": torch.full((1, 2, 2), 255, dtype=torch.uint8),
        "age": torch.tensor([[40.0]], dtype=torch.float64),
    }
    found = Plan().inputs(given, torch.float32)
    assert {name: column.dtype for name, column in found.items()} == {
        "ids": torch.uint8,
        "mask": torch.bool,
        "picture": torch.float32,
        "age": torch.float32,
    }
    assert torch.equal(found["picture"], torch.ones(1, 2, 2))


def test_floats_are_brought_to_the_models_precision():
    x = Plan().inputs(torch.tensor([[0.5]], dtype=torch.float64), torch.float32)
    assert x.dtype == torch.float32
    assert x.item() == 0.5


def test_integers_stay_integers():
    x = torch.tensor([[3, 4]])
    assert torch.equal(Plan().inputs(x, torch.float32), x)


def test_a_transform_sees_the_stored_inputs_and_replaces_the_scaling():
    plan = Plan(transform=lambda x: x.double() * 2)
    x = plan.inputs(torch.tensor([[200]], dtype=torch.uint8), torch.float32)
    assert x.dtype == torch.float32
    assert x.item() == 400


def test_bytes_that_a_transform_leaves_as_bytes_are_not_scaled():
    assert Plan(transform=torch.neg).inputs(torch.tensor([255], dtype=torch.uint8), torch.float32).tolist() == [1]


def test_a_transform_may_be_named():
    assert Plan(transform="torch:neg").inputs(torch.tensor([1.5]), torch.float32).item() == -1.5


def test_class_weights_of_nothing_are_refused():
    with pytest.raises(SettingsError, match="expected some weights above 0"):
        Plan(class_weight={"a": 0.0, "b": 0.0})
    assert Plan(class_weight={"a": 0.0, "b": 1.0}).class_weight == {"a": 0.0, "b": 1.0}


def test_what_is_named_is_written_by_its_name():
    assert Plan(optimizer="torch.optim:RMSprop").model_dump(mode="json")["optimizer"] == "torch.optim.rmsprop:RMSprop"
    assert Plan(transform=halved).model_dump(mode="json")["transform"] == f"{__name__}:halved"


def halved(x):
    return x / 2


class Scaled:
    """A transform that can be changed."""

    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return self.by * x


def test_a_transform_that_was_changed_is_looked_at_anew():
    plan = Plan(transform=Scaled(2))
    assert not plan.look_again()  # nothing was found out yet
    before, compared = plan.changes, plan.changes.value
    assert not plan.look_again()
    assert plan.changes is before
    plan.transform.by = 3
    assert plan.look_again()
    assert plan.changes is not before
    assert plan.changes.value != compared


INPUTS = Samples({"x": torch.arange(12.0).reshape(4, 3)})


@pytest.mark.parametrize(
    ("transform", "draws"),
    [
        (None, False),
        (torch.neg, False),
        (lambda x: x + torch.rand(x.shape), True),
        (lambda x: x * (torch.rand(()) >= 0), True),
        (lambda x: x + np.random.normal(), True),
        (lambda x: x + random.random(), True),
    ],
    ids=["none", "neg", "torch", "torch, without a trace", "numpy", "Python"],
)
def test_a_plan_finds_out_whether_its_transform_draws(transform, draws):
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    plan = Plan(transform=transform)
    assert plan.draws(INPUTS) is draws
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states[1:]
    if draws:
        with pytest.raises(SettingsError, match=r"clinic: the plan's transform .* draws random .* in `augment`"):
            plan.check_prediction(INPUTS, "clinic")
    else:
        plan.check_prediction(INPUTS, "clinic")


def test_a_transform_is_looked_at_once():
    calls = []
    plan = Plan(transform=lambda x: (calls.append(len(x)), x)[1])
    assert not plan.draws(INPUTS)
    seen = list(calls)
    assert set(seen) == {1, 4, 8}, "each alone, all together, and with such of half the size"
    assert not plan.draws(INPUTS)
    assert not plan.replace(epochs=3).draws(INPUTS)
    assert calls == seen
    assert plan.replace(transform=torch.rand_like).draws(INPUTS)


def test_without_inputs_nothing_is_transformed_nor_found_out():
    plan, nothing = Plan(transform=torch.rand_like), Samples({"row": torch.arange(3)})
    assert plan.inputs(nothing.x, torch.float32) == {}
    assert not plan.draws(nothing)
    assert plan.kind_of_transform(nothing) is TransformKind.EACH
    assert Plan().kind_of_transform(INPUTS) is TransformKind.EACH
    assert plan.draws(INPUTS)


def test_a_transform_that_no_seed_decides_is_refused():
    own = torch.Generator().manual_seed(1)
    plan = Plan(transform=lambda x: x + torch.rand(x.shape, generator=own))
    with pytest.raises(SettingsError, match=r"gives other results for the same inputs.*`augment`"):
        plan.draws(INPUTS)


def test_a_plan_may_be_given_as_its_settings():
    plan = Plan(lr=0.1)
    assert as_plan(plan, "p") is plan
    assert as_plan({"lr": 0.1}, "p") == plan
    assert as_plan(None, "p") == Plan()
    with pytest.raises(SettingsError, match="a plan has no setting 'rate'"):
        as_plan({"rate": 1}, "p")
    with pytest.raises(SettingsError, match=r"clinic: plan is 0\.1; expected a Plan"):
        as_plan(0.1, "clinic")
