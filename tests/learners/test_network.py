from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from potluck import Fit, FrozenModel, ModelError, Plan, Predict, Samples, Tap
from potluck.core.classification import Classification
from potluck.core.job import Job
from potluck.core.objectives import cross_entropy
from potluck.core.requests import Fitted
from potluck.learners.network import Network
from potluck.learners.schedule import EVALUATION_BATCH, batch_schedule

CPU = torch.device("cpu")
SEED = 5
RANDOM = torch.Generator().manual_seed(0)
TWO = Classification((0, 1))
SAMPLES = Samples({"x": torch.randn(41, 3, generator=RANDOM).double(), "y": torch.arange(41) % 2})
SGD = Plan(optimizer="sgd", lr=0.1, epochs=2, batch_size=10)


def plain():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()


def normed():
    """With BatchNorm and Dropout: what behaves otherwise in training."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.4), nn.Linear(8, 2)).double()


def job(learner, work=None, plan=SGD, samples=SAMPLES, seed=SEED, keep=False):
    return Job("clinic", work or Fit(), learner, samples, plan, seed, 1, keep)


def fit(module, work=None, **settings):
    learner = Network(module)
    return learner, learner.fit(job(learner, work, **settings), CPU)


def close(one, other, tolerance=1e-12):
    torch.testing.assert_close(one.state_dict(), other.state_dict(), rtol=tolerance, atol=tolerance)


def differ(one, other):
    return any(not torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


# Weights and buffers


def test_weights_are_copies_of_parameters_and_buffers():
    learner = Network(normed())
    weights = learner.weights()
    assert weights.keys() == learner.model.state_dict().keys()
    for entry in weights.values():
        assert not entry.requires_grad
        entry.fill_(7)
    close(learner.model, normed())


def test_what_engines_stack_is_every_tensor_once():
    module = plain()
    module[2].extra = module[0]
    assert set(Network(module).tensors()) == {"0.weight", "0.bias", "2.weight", "2.bias"}


def test_some_entries_can_be_loaded():
    learner = Network(normed())
    learner.load(
        {"3.bias": torch.tensor([1, 2]), "1.running_mean": torch.ones(8), "1.num_batches_tracked": torch.tensor(9)}
    )
    weights, start = learner.weights(), normed().state_dict()
    assert weights["3.bias"].tolist() == [1, 2]
    assert weights["1.running_mean"].tolist() == [1] * 8
    assert weights["1.num_batches_tracked"] == 9
    assert torch.equal(weights["0.weight"], start["0.weight"])
    assert weights["3.bias"].dtype == torch.float64


def test_loading_does_not_tie_the_network_to_what_it_was_given():
    learner, given = Network(plain()), torch.ones(2)
    learner.load({"2.bias": given})
    given.fill_(5)
    assert learner.weights()["2.bias"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"2.bais": torch.ones(2)}, r"no entry '2\.bais'\. Did you mean '2\.bias'\?"),
        ({"2.weight": torch.ones(2)}, r"'2\.weight' has shape \(2, 8\); was given \(2,\)"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_loaded(wrong, complaint):
    learner = Network(plain())
    with pytest.raises(ModelError, match=complaint):
        learner.load({"2.bias": torch.ones(2), **wrong})
    close(learner.model, plain())


def test_the_entries_of_normalisation_layers_are_known():
    module = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2)), nn.LayerNorm(2), nn.InstanceNorm1d(2))
    kinds = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    assert Network(module).norm_entries() == {f"1.0.{kind}" for kind in kinds}
    assert Network(nn.BatchNorm1d(2)).norm_entries() == set(kinds)


def test_trainable_parameters_leave_out_the_frozen():
    module = plain()
    module[0].requires_grad_(False)
    assert set(Network(module).trainable()) == {"2.weight", "2.bias"}


def test_trained_entries_name_a_parameter_that_is_used_twice_by_each_of_its_names():
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2, affine=False), nn.Linear(2, 2, bias=False))
    module[2].weight = module[0].weight
    assert Network(module).trained_entries() == {"0.weight", "0.bias", "2.weight"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_network_knows_its_precision(dtype):
    assert Network(plain().to(dtype)).dtype == dtype


def test_without_parameters_the_precision_is_single():
    assert Network(nn.Flatten()).dtype == torch.float32


# Whether a model fits its owner


class Restless(nn.Module):
    """Draws random numbers even in evaluation mode."""

    def forward(self, x):
        return x[:, :2] + torch.rand(2)


def test_checking_leaves_the_network_and_the_random_numbers_as_they_are():
    learner, before = Network(nn.Sequential(normed(), Restless())), torch.get_rng_state()
    weights = learner.weights()
    learner.check(SAMPLES, TWO, Plan(), "clinic")
    assert torch.equal(torch.get_rng_state(), before)
    torch.testing.assert_close(learner.weights(), weights, rtol=0, atol=0)


def test_checking_reads_inputs_as_the_plan_prepares_them():
    stored = Samples({"x": torch.zeros(1, 1, 3, dtype=torch.uint8), "y": torch.zeros(1).long()})
    Network(plain()).check(stored, TWO, Plan(transform=lambda x: x.flatten(1).double()), "clinic")
    with pytest.raises(ModelError, match=r"for 1 samples; expected \(1, 2\)"):
        Network(plain()).check(stored, TWO, Plan(), "clinic")


# Training


def by_hand(module, make, factor=lambda progress: 1.0, max_grad_norm=None, plan=SGD):
    """The loop anyone would write, over the same batches."""
    optimizer = make(module.parameters())
    steps = list(batch_schedule(len(SAMPLES), plan, SEED, 1))
    module.train()
    for number, step in enumerate(steps):
        optimizer.zero_grad()
        F.cross_entropy(module(SAMPLES.x[step.rows]), SAMPLES.y[step.rows]).backward()
        if max_grad_norm:
            nn.utils.clip_grad_norm_(module.parameters(), max_grad_norm)
        optimizer.param_groups[0]["lr"] = plan.lr * factor(number / len(steps))
        optimizer.step()
    return module


def batchnorm():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).double()


@pytest.mark.parametrize(
    ("settings", "make", "more"),
    [
        ({}, lambda p: torch.optim.SGD(p), {}),
        ({"momentum": 0.9}, lambda p: torch.optim.SGD(p, momentum=0.9), {}),
        ({"weight_decay": 0.1}, lambda p: torch.optim.SGD(p, weight_decay=0.1), {}),
        ({"max_grad_norm": 0.05}, lambda p: torch.optim.SGD(p), {"max_grad_norm": 0.05}),
        ({"schedule": "linear"}, lambda p: torch.optim.SGD(p), {"factor": lambda t: 1 - t}),
        ({"schedule": "cosine"}, lambda p: torch.optim.SGD(p), {"factor": lambda t: (1 + math.cos(math.pi * t)) / 2}),
        ({"optimizer": "adam"}, lambda p: torch.optim.Adam(p), {}),
        ({"optimizer": "adam", "weight_decay": 0.1}, lambda p: torch.optim.Adam(p, weight_decay=0.1), {}),
        ({"optimizer": "adamw", "weight_decay": 0.1}, lambda p: torch.optim.AdamW(p, weight_decay=0.1), {}),
        ({"optimizer": "adamw"}, lambda p: torch.optim.AdamW(p, weight_decay=0), {}),
        ({"optimizer": torch.optim.RMSprop}, lambda p: torch.optim.RMSprop(p), {}),
        ({"optimizer": "torch.optim:NAdam"}, lambda p: torch.optim.NAdam(p), {}),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) and "factor" not in value else "",
)
def test_training_is_a_plain_pytorch_loop(settings, make, more):
    learner, fitted = fit(batchnorm(), plan=SGD.replace(**settings))
    close(learner.model, by_hand(batchnorm(), make, **more))
    assert fitted.steps == 8


def test_losses_are_the_mean_of_each_epoch():
    _, fitted = fit(plain(), plan=SGD.replace(lr=1e-30))
    module = plain()
    for epoch, found in enumerate(fitted.losses):
        steps = [s for s in batch_schedule(41, SGD, SEED, 1) if s.epoch == epoch]
        losses = [F.cross_entropy(module(SAMPLES.x[s.rows]), SAMPLES.y[s.rows]).item() for s in steps]
        assert found == pytest.approx((sum(losses) / len(losses),))
    assert len(fitted.losses) == 2


def test_weights_of_samples_make_the_loss_a_weighted_mean():
    weight = torch.rand(41, generator=torch.Generator().manual_seed(1))
    _, fitted = fit(plain(), samples=SAMPLES.with_targets(weight=weight), plan=SGD.replace(epochs=1, batch_size=41))
    losses = F.cross_entropy(plain()(SAMPLES.x), SAMPLES.y, reduction="none")
    assert fitted.losses[0][0] == pytest.approx(((weight * losses).sum() / weight.sum()).item())


@pytest.mark.parametrize("settings", [{"plan": SGD.replace(epochs=0)}, {"samples": SAMPLES.take(torch.arange(0))}])
def test_no_epochs_or_no_samples_train_nothing(settings):
    learner, fitted = fit(batchnorm(), **settings)
    close(learner.model, batchnorm())
    assert fitted == Fitted(steps=0)


def test_a_last_batch_of_one_sample_does_not_stop_batchnorm():
    seen = []

    def watching(net, batch, given):
        seen.append(len(batch["x"]))
        return cross_entropy(net, batch, given)

    fit(batchnorm(), Fit(watching), plan=SGD.replace(epochs=1))
    assert seen == [10, 10, 10, 11]


def test_bytes_are_scaled_and_augmented_on_the_way_in():
    images = Samples({"x": torch.full((8, 3), 255, dtype=torch.uint8), "y": SAMPLES.y[:8]})
    plan = SGD.replace(augment=lambda x, generator: x - 51, scale="bytes")
    floats = Samples({"x": torch.full((8, 3), 0.8, dtype=torch.float64), "y": SAMPLES.y[:8]})
    close(fit(plain(), samples=images, plan=plan)[0].model, fit(plain(), samples=floats)[0].model)


def test_frozen_parameters_stay():
    module = plain()
    module[0].requires_grad_(False)
    learner, _ = fit(module)
    assert torch.equal(learner.model[0].weight, plain()[0].weight)
    assert not torch.equal(learner.model[2].weight, plain()[2].weight)


def test_training_leaves_no_gradients_behind():
    learner, _ = fit(plain())
    assert all(p.grad is None for p in learner.model.parameters())


def test_the_models_own_random_numbers_come_from_the_job_alone():
    start = normed()
    first, _ = fit(normed())
    torch.manual_seed(2)
    before = torch.get_rng_state()
    again, _ = fit(start)
    assert torch.equal(torch.get_rng_state(), before)
    close(again.model, first.model, 0)


def test_dropout_differs_from_training_to_training():
    def heard(seed):
        answers = []

        def listening(net, batch, given):
            answers.append(net(SAMPLES.x).detach())
            return cross_entropy(net, batch, given)

        fit(normed(), Fit(listening), seed=seed)
        return answers[0]

    assert torch.equal(heard(5), heard(5))
    assert not torch.equal(heard(5), heard(6))


@pytest.mark.parametrize("settings", [{"momentum": 0.9}, {"optimizer": "adamw"}])
def test_a_mask_keeps_positions_as_they_were(settings):
    plan = SGD.replace(weight_decay=0.1, **settings)
    mask = {
        "0.weight": torch.rand(8, 3, generator=torch.Generator().manual_seed(1)) > 0.5,
        "2.bias": torch.tensor(False),
    }
    learner, _ = fit(plain(), Fit(mask=mask), plan=plan)
    start, end = plain().state_dict(), learner.model.state_dict()
    kept = ~mask["0.weight"]
    assert torch.equal(end["0.weight"][kept], start["0.weight"][kept])
    assert (end["0.weight"][~kept] != start["0.weight"][~kept]).all()
    assert torch.equal(end["2.bias"], start["2.bias"])
    assert not torch.equal(end["2.weight"], start["2.weight"])


def test_a_mask_of_ones_is_no_mask():
    everything = {name: torch.ones_like(p, dtype=torch.bool) for name, p in plain().named_parameters()}
    close(fit(plain(), Fit(mask=everything))[0].model, fit(plain())[0].model)


def test_what_a_mask_holds_back_does_not_count_when_gradients_are_clipped():
    mask = {name: torch.tensor(name == "2.bias") for name, _ in plain().named_parameters()}
    learner, _ = fit(plain(), Fit(mask=mask), plan=Plan(optimizer="sgd", lr=1.0, max_grad_norm=1e-3, batch_size=41))
    moved = learner.model[2].bias - plain()[2].bias
    assert moved.norm().item() == pytest.approx(1e-3, rel=1e-3)


def test_draws_are_fresh_at_each_step_and_the_same_each_time():
    def drawn(seed=SEED):
        seen = []

        def noisy(net, batch, given):
            seen.append(batch["noise"])
            return F.cross_entropy(net(batch["x"] + batch["noise"]), batch["y"])

        return fit(plain(), Fit(noisy, noise={"noise": (3,)}), seed=seed)[0], seen

    (first, ours), (again, same), (_, other) = drawn(), drawn(), drawn(6)
    assert [noise.shape for noise in ours] == [(10, 3), (10, 3), (10, 3), (11, 3)] * 2
    assert all(torch.equal(a, b) for a, b in zip(ours, same, strict=True))
    assert not torch.equal(ours[0], ours[1])
    assert not torch.equal(ours[0], other[0])
    close(first.model, again.model, 0)


def pull(net, batch, given):
    """Towards zero, apart from any data."""
    return given["strength"] * sum(p.square().sum() for p in net.parameters.values())


def together(net, batch, given):
    return cross_entropy(net, batch, given) + pull(net, batch, given)


def test_several_objectives_add_up():
    given = {"strength": 0.1}
    apart, fitted = fit(plain(), Fit([cross_entropy, pull], context=given))
    close(apart.model, fit(plain(), Fit(together, context=given))[0].model)
    assert [len(losses) for losses in fitted.losses] == [2, 2]


def scaled(gradients, given):
    first, second = gradients
    return {name: given["share"] * first[name] + second[name] for name in first}


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_rule_decides_what_becomes_of_the_gradients(optimizer):
    plan, given = SGD.replace(optimizer=optimizer), {"strength": 0.1, "share": 0.0}
    ruled, _ = fit(plain(), Fit([cross_entropy, pull], context=given, combine_gradients=scaled), plan=plan)
    close(ruled.model, fit(plain(), Fit(pull, context=given), plan=plan)[0].model)
    summed, _ = fit(
        plain(), Fit([cross_entropy, pull], context=given | {"share": 1.0}, combine_gradients=scaled), plan=plan
    )
    close(summed.model, fit(plain(), Fit(together, context=given), plan=plan)[0].model)


def test_a_rule_may_change_a_single_gradient():
    halved, _ = fit(
        plain(), Fit(combine_gradients=lambda gradients, given: {n: g / 2 for n, g in gradients[0].items()})
    )
    close(halved.model, fit(plain(), plan=SGD.replace(lr=SGD.lr / 2))[0].model)


def test_a_parameter_the_objective_does_not_use_has_a_gradient_of_zero():
    def last_bias(net, batch, given):
        return net.part("2", torch.zeros(1, 8).double()).sum()

    learner, _ = fit(plain(), Fit(last_bias))
    assert torch.equal(learner.model[0].weight, plain()[0].weight)
    assert not torch.equal(learner.model[2].bias, plain()[2].bias)


def test_frozen_norms_use_and_keep_their_running_statistics():
    start = normed()
    start[1].running_mean.fill_(0.3)
    start[1].running_var.fill_(2.0)
    modes = []

    def watching(net, batch, given):
        modes.append((net._module[1].training, net._module[2].training))
        return cross_entropy(net, batch, given)

    learner, _ = fit(copy.deepcopy(start), Fit(watching, freeze_norm_stats=True))
    assert set(modes) == {(False, True)}
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        assert torch.equal(getattr(learner.model[1], name), getattr(start[1], name))
    assert not torch.equal(learner.model[1].weight, start[1].weight)
    learner.fit(job(learner), CPU)
    assert learner.model[1].num_batches_tracked == 8


@pytest.mark.parametrize("own", [True, False], ids=["of one's own architecture", "of another"])
def test_a_companion_is_frozen_and_in_evaluation_mode(own):
    torch.manual_seed(3)
    teacher = normed() if own else nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 2)).double()
    for parameter in teacher.parameters():
        nn.init.normal_(parameter)
    weights = Network(teacher).weights()
    expected = teacher.eval()(SAMPLES.x)
    teacher.train()
    said = []

    def beside(net, batch, given):
        assert given["teacher"].parameters == {}
        said.append(given["teacher"](SAMPLES.x))
        return F.mse_loss(net(batch["x"]), given["teacher"](batch["x"]))

    companion = FrozenModel(weights, None if own else teacher)
    learner, _ = fit(normed(), Fit(beside, context={"teacher": companion}))
    assert len(said) == 8
    for answer in said:
        torch.testing.assert_close(answer, expected)
        assert not answer.requires_grad
    torch.testing.assert_close(Network(teacher).weights(), weights, rtol=0, atol=0)
    assert teacher.training
    assert differ(learner.model, normed())


def test_companions_may_stand_in_lists_and_dicts():
    def two(net, batch, given):
        first, second = given["teachers"]
        return F.mse_loss(net(batch["x"]), first(batch["x"]) + second["model"](batch["x"]))

    companion = FrozenModel(Network(plain()).weights())
    learner, _ = fit(plain(), Fit(two, context={"teachers": [companion, {"model": companion}]}))
    assert differ(learner.model, plain())


# What an optimizer remembers


@pytest.mark.parametrize(
    "settings", [{"optimizer": "adam"}, {"optimizer": "adamw", "weight_decay": 0.1}, {"momentum": 0.9}], ids=str
)
def test_an_optimizer_that_is_kept_goes_on_as_in_one_long_training(settings):
    whole = SGD.replace(batch_size=41, **settings)
    long, _ = fit(plain(), plan=whole.replace(epochs=6))

    def in_pieces(keep):
        learner = Network(plain())
        for epochs in (2, 0, 1, 3):
            learner.fit(job(learner, plan=whole.replace(epochs=epochs), keep=keep), CPU)
        return learner.model

    close(in_pieces(keep=True), long.model, 1e-10)
    assert differ(in_pieces(keep=False), in_pieces(keep=True))


def test_an_optimizer_is_forgotten_unless_it_is_to_be_kept():
    learner, _ = fit(plain(), plan=SGD.replace(optimizer="adam"))
    assert learner.optimizer_state == {}


def test_what_is_remembered_has_torchs_own_names():
    learner, _ = fit(plain(), plan=SGD.replace(optimizer="adam"), keep=True)
    assert set(learner.optimizer_state) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert set(learner.optimizer_state["2.bias"]) == {"step", "exp_avg", "exp_avg_sq"}
    assert learner.optimizer_state["2.bias"]["step"] == 8


def test_a_custom_optimizer_is_kept_too():
    plan = SGD.replace(optimizer=torch.optim.RMSprop, batch_size=41, lr=0.01)
    long, _ = fit(plain(), plan=plan.replace(epochs=4))
    learner = Network(plain())
    for _ in range(2):
        learner.fit(job(learner, plan=plan, keep=True), CPU)
    close(learner.model, long.model, 1e-10)


def test_another_network_takes_up_what_one_kept():
    plan = SGD.replace(optimizer="adam")
    first, _ = fit(normed(), plan=plan, keep=True)
    second = Network(normed())
    second.restore(first.state())
    for learner in (first, second):
        learner.fit(job(learner, plan=plan, seed=6, keep=True), CPU)
    close(first.model, second.model, 0)


# Prediction


def predict(module, samples=SAMPLES, plan=SGD, **settings):
    learner = Network(module)
    return learner.read(job(learner, Predict(samples, **settings), plan, samples), CPU)


def test_predictions_are_probabilities_or_logits_in_evaluation_mode():
    module = normed()
    expected = normed().eval()(SAMPLES.x).detach()
    torch.testing.assert_close(predict(module, logits=True), expected)
    torch.testing.assert_close(predict(module), expected.softmax(dim=1))
    close(module, normed())


@pytest.mark.parametrize("rows", [1, EVALUATION_BATCH, EVALUATION_BATCH + 1])
def test_predictions_come_for_every_row_however_many(rows):
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(1)).double()
    torch.testing.assert_close(predict(plain(), Samples({"x": x}), logits=True), plain()(x).detach())


def test_taps_show_layers_in_evaluation_mode_and_leave_no_hooks():
    module, x = normed(), torch.randn(EVALUATION_BATCH + 2, 3).double()
    learner, samples = Network(module), Samples({"x": x})
    taken = learner.read(job(learner, Tap(samples, at=["1", "3"]), samples=samples), CPU)
    expected = normed().eval()
    assert list(taken) == ["1", "3"]
    torch.testing.assert_close(taken["1"], expected[:2](x).detach())
    torch.testing.assert_close(taken["3"], expected(x).detach())
    assert not any(part._forward_hooks for part in module.modules())


def test_an_unknown_layer_to_tap_is_an_error():
    learner = Network(plain())
    with pytest.raises(ModelError, match="no layer 'fc'"):
        learner.read(job(learner, Tap(SAMPLES, at=["fc"])), CPU)


def test_what_is_frozen_gets_memory_of_its_own_when_another_value_is_loaded():
    one, other = Network(plain()), Network(plain())
    other.model[0] = one.model[0]
    for part in (one.model[0], other.model[0]):
        part.requires_grad_(False)
    shared = one.model[0].weight
    other.model[0] = nn.Linear(*shared.shape[::-1], dtype=shared.dtype).requires_grad_(False)
    other.model[0].weight.data = shared.data
    other.load({"0.weight": shared.clone()})
    assert other.model[0].weight.data_ptr() == shared.data_ptr(), "the same value stays where it is"
    before = shared.clone()
    other.load({"0.weight": (before + 1).float()})
    assert torch.equal(shared, before)
    torch.testing.assert_close(other.weights()["0.weight"], before + 1, rtol=1e-6, atol=1e-6)


def test_what_an_owner_exchanges_in_a_module_is_what_is_copied():
    learner = Network(plain())
    before, twin = learner.weights(), copy.deepcopy(learner)
    learner.model[0].weight = nn.Parameter(torch.zeros_like(learner.model[0].weight))
    assert not learner.weights()["0.weight"].any()
    assert torch.equal(twin.weights()["0.weight"], before["0.weight"])
    assert twin.tensors()["0.weight"] is twin.model[0].weight
    learner.model[2] = nn.Linear(8, 5).double()
    assert learner.weights()["2.bias"].shape == (5,)
