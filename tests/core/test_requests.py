"""Everything Fit can express gives the same result stacked and alone."""

from __future__ import annotations

import pytest
import torch
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from potluck.core.classification import Classification
from potluck.core.errors import ModelError
from potluck.core.job import Job
from potluck.core.model_view import FrozenModel
from potluck.core.objectives import cross_entropy
from potluck.core.requests import Fit, Fitted, Predict, Tap
from potluck.core.samples import Samples
from potluck.engines import Batched, Serial, base
from potluck.engines.batched import engine as batched
from potluck.learners.estimator import Estimator
from potluck.learners.network import Network
from tests.jobs import CPU, PLAN, REQUESTS, corrected, jobs, proximal, samples, trained_together
from tests.tables import cnn


def both(work_of, monkeypatch, **settings):
    """The networks after the serial and after the batched engine, which must not fall back to the serial way."""
    alone, together = jobs(work_of, **settings), jobs(work_of, **settings)
    serial = Serial(CPU).answer(alone)
    monkeypatch.setattr(base, "timed_alone", None)
    stacked = Batched(CPU).answer(together)
    for one, other in zip(alone, together, strict=True):
        for name, entry in one.learner.weights().items():
            torch.testing.assert_close(entry, other.learner.weights()[name], rtol=1e-10, atol=1e-10)
    return serial, stacked


@pytest.mark.parametrize("work_of", REQUESTS.values(), ids=REQUESTS)
def test_fit_agrees(work_of, monkeypatch):
    serial, stacked = both(work_of, monkeypatch)
    for alone, together in zip(serial, stacked, strict=True):
        assert alone.steps == together.steps > 0
        torch.testing.assert_close(together.losses, alone.losses, rtol=1e-9, atol=1e-9)


PLANS = {
    "plain sgd": PLAN.replace(momentum=0.0, weight_decay=0.0),
    "adam": PLAN.replace(optimizer="adam", momentum=0.0),
    "adamw": PLAN.replace(optimizer="adamw", momentum=0.0),
    "clipping": PLAN.replace(max_grad_norm=0.1),
    "cosine": PLAN.replace(schedule="cosine"),
    "augmentation": PLAN.replace(augment=lambda x, g: x + torch.rand(x.shape, generator=g).to(x.dtype)),
    "transform": PLAN.replace(transform=lambda x: x * 2),
    "nothing": PLAN.replace(epochs=0),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_plans_agree(plan, monkeypatch):
    both(REQUESTS["cross entropy"], monkeypatch, plan_of=lambda i: plan)


def test_learning_rates_may_differ_inside_a_stack(monkeypatch):
    both(REQUESTS["cross entropy"], monkeypatch, plan_of=lambda i: PLAN.replace(lr=0.01 * (i + 1)))


@pytest.mark.parametrize("logits", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_predictions_agree(logits, shared, monkeypatch):
    public = samples(17, 5)
    serial, stacked = both(lambda i, learner: Predict(public if shared else samples(17, i), logits=logits), monkeypatch)
    torch.testing.assert_close(serial, stacked)


def test_taps_agree(monkeypatch):
    public = samples(17, 5)
    serial, stacked = both(lambda i, learner: Tap(public, at=["0", "4"]), monkeypatch)
    torch.testing.assert_close(serial, stacked)
    assert serial[0]["0"].shape == (17, 4, 6, 6)


class Wayward(nn.Module):
    """Decides by its data which way to go: that cannot be stacked."""

    def __init__(self, seed):
        super().__init__()
        self.body = cnn(seed)

    def forward(self, x):
        return self.body(x) if x.sum() > 0 else self.body(2 * x)


def test_what_cannot_be_stacked_runs_alone_and_says_so_once(caplog):
    def made():
        return [Job(f"p{i}", Fit(), Network(Wayward(i)), samples(20, i), PLAN, seed=i, round=1) for i in range(3)]

    alone, together = made(), made()
    Serial(CPU).answer(alone)
    engine = Batched(CPU)
    engine.answer(together)
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one.learner.weights(), other.learner.weights(), rtol=0, atol=0)
    engine.answer(made())
    assert caplog.text.count("cannot be stacked") == 1


def test_on_a_cpu_large_groups_are_answered_in_stacks_that_fit_its_caches(monkeypatch):
    sizes = trained_together(monkeypatch)
    weight = sum(entry.numel() * entry.element_size() for entry in Network(cnn(0)).tensors().values())
    monkeypatch.setitem(batched.STACK_BYTES, "cpu", 2 * weight)
    Batched(CPU).answer(jobs(REQUESTS["cross entropy"], sizes=(20, 20, 13, 30, 7)))
    assert sizes == [2, 2]  # and the fifth alone


@pytest.mark.parametrize("order", [1, -1])
def test_some_may_train_while_others_look(order, monkeypatch):
    """In one step, also where all trainings run side by side as on a GPU."""
    looks = {"predict": Predict(samples(9, 1)), "tap": Tap(samples(9, 1), at=["1"])}

    def step():
        made = [*jobs(REQUESTS["cross entropy"]), *jobs(REQUESTS["proximal term"])]
        return [*made, *(job for work in looks.values() for job in jobs(lambda i, learner, work=work: work))][::order]

    alone, together = step(), step()
    expected = Serial(CPU).answer(alone)
    monkeypatch.setattr(base, "timed_alone", None)
    train, trained = Batched._train, []
    monkeypatch.setattr(Batched, "_train", lambda self, stacks: (trained.append(len(stacks)), train(self, stacks))[1])
    engine = Batched(CPU)
    engine._side_by_side = True
    torch.testing.assert_close(
        [answer for answer in engine.answer(together) if not isinstance(answer, Fitted)],
        [answer for answer in expected if not isinstance(answer, Fitted)],
    )
    assert trained == [2]
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one.learner.weights(), other.learner.weights(), rtol=1e-10, atol=1e-10)


# Which trainings may be stacked


def fit_key(work=None, rows=20, keep_optimizer=False, columns=None, **plan):
    on = samples(rows, 0) if columns is None else Samples(columns)
    job = Job("p0", Fit() if work is None else work, Network(cnn(0)), on, PLAN.replace(**plan), 1, 1, keep_optimizer)
    return job.work.stack_key(job)


@pytest.mark.parametrize("setting", [{"lr": 0.5}, {"schedule": "linear"}, {"epochs": 9}, {"batch_size": 3}])
def test_what_may_differ_in_a_stack_is_not_in_the_key(setting):
    assert fit_key(**setting) == fit_key()
    assert fit_key(rows=9) == fit_key()


DIFFERENT = {
    "objective": lambda: fit_key(Fit(proximal)),
    "two objectives": lambda: fit_key(Fit([cross_entropy, proximal])),
    "combination": lambda: fit_key(Fit(combine_gradients=corrected)),
    "frozen statistics": lambda: fit_key(Fit(freeze_norm_stats=True)),
    "noise": lambda: fit_key(Fit(noise={"z": (3,)})),
    "shape of noise": lambda: fit_key(Fit(noise={"z": (4,)})),
    "mask": lambda: fit_key(Fit(mask={"0.weight": torch.ones(1, dtype=torch.bool)})),
    "context": lambda: fit_key(Fit(context={"mu": 0.1})),
    "value in the context": lambda: fit_key(Fit(context={"mu": 0.2})),
    "name in the context": lambda: fit_key(Fit(context={"nu": 0.2})),
    "tensor in the context": lambda: fit_key(Fit(context={"mu": torch.zeros(2)})),
    "shape in the context": lambda: fit_key(Fit(context={"mu": torch.zeros(3)})),
    "type in the context": lambda: fit_key(Fit(context={"mu": torch.zeros(3, dtype=torch.float64)})),
    "frozen model": lambda: fit_key(Fit(context={"teacher": frozen(cnn(0))})),
    "another frozen model": lambda: fit_key(Fit(context={"teacher": frozen(cnn(0, width=5))})),
    "optimizer": lambda: fit_key(optimizer="adamw", momentum=0.0),
    "momentum": lambda: fit_key(momentum=0.5),
    "decay": lambda: fit_key(weight_decay=0.5),
    "norm of the gradient": lambda: fit_key(max_grad_norm=1.0),
    "memory": lambda: fit_key(keep_optimizer=True),
    "shape of the inputs": lambda: fit_key(columns={"x": torch.zeros(2, 1, 5, 6), "y": torch.zeros(2)}),
    "type of the inputs": lambda: fit_key(columns={"x": torch.zeros(2, 1, 6, 6), "y": torch.zeros(2)}),
    "another column": lambda: fit_key(columns={**samples(20, 0).columns, "weight": torch.zeros(20)}),
}


def frozen(module):
    return FrozenModel(Network(module).weights(), module)


def test_whatever_else_differs_cannot_be_stacked():
    keys = {name: make() for name, make in DIFFERENT.items()}
    assert fit_key() not in keys.values()
    for name, key in keys.items():
        assert [other for other, found in keys.items() if found == key] == [name]
        assert DIFFERENT[name]() == key, "the same twice may be stacked"


def test_tensors_of_one_shape_in_the_context_may_differ():
    keys = [fit_key(Fit(context={"mu": torch.full((2,), value)})) for value in (0.0, 1.0)]
    assert keys[0] == keys[1]
    first, second = (fit_key(Fit(context={"teacher": frozen(cnn(seed))})) for seed in (0, 1))
    assert first == second


def test_which_readings_may_be_stacked():
    def key(work, rows=6, shape=(1, 6, 6), dtype=torch.float64):
        job = Job("p0", work, Network(cnn(0)), Samples({"x": torch.zeros(rows, *shape, dtype=dtype)}), PLAN, 1, 1)
        return job.work.stack_key(job)

    on = samples(4, 0)
    assert key(Predict(on)) == key(Predict(samples(4, 1), plan=PLAN.replace(lr=1.0)))
    different = [
        key(Predict(on)),
        key(Predict(on, logits=True)),
        key(Predict(on), rows=7),
        key(Predict(on), shape=(1, 5, 6)),
        key(Predict(on), dtype=torch.float32),
        key(Tap(on, ["0"])),
        key(Tap(on, ["1"])),
        key(Tap(on, ["1"], ["0"])),
    ]
    assert len(set(different)) == len(different)


def test_what_an_estimator_can_be_asked_for():
    assert Fit().plain
    assert Fit(context={"unused": 1}).plain
    for work in (Fit(proximal), Fit(mask={"a": torch.ones(1)}), Fit(combine_gradients=sum), Fit([cross_entropy] * 2)):
        assert not work.plain


def test_a_dry_run_trains_no_network_and_estimators_on_a_few():
    on = samples(40, 0)
    network = Network(cnn(0))
    before = network.weights()
    job = Job("p0", Fit(), network, on, PLAN, 1, 1)
    assert job.work.dry_answer(job, CPU) == Fitted(steps=0)
    torch.testing.assert_close(network.weights(), before, rtol=0, atol=0)

    class Noting(DecisionTreeClassifier):
        def fit(self, x, y):
            self.seen = sorted(y.tolist())
            return super().fit(x, y)

    tree = Noting()
    job = Job("p1", Fit(), Estimator(tree, Classification((0, 1, 2))), on, PLAN, 1, 1)
    job.work.dry_answer(job, CPU)
    assert 3 <= len(tree.seen) < 40
    assert set(tree.seen) == {0, 1, 2}


def test_a_training_uses_the_weights_of_samples_unless_it_says_otherwise():
    assert Fitted(3) == Fitted(steps=3, losses=(), weighted=True)


def test_predictions_of_all_batches_become_probabilities_of_each_sample():
    batches = [torch.tensor([[0.0, 1.0, 2.0], [3.0, 3.0, 3.0]]), torch.tensor([[5.0, 0.0, 0.0]])]
    together = torch.cat(batches)
    assert Predict(samples(3, 0), logits=True).collect(batches).equal(together)
    expected = together.exp() / together.exp().sum(dim=1, keepdim=True)
    torch.testing.assert_close(Predict(samples(3, 0)).collect(batches), expected)


def test_an_estimator_has_probabilities_and_no_logits():
    tree = Estimator(DecisionTreeClassifier(), Classification((0, 1, 2)))
    job = Job("p1", Predict(samples(3, 0)), tree, samples(3, 0), PLAN, 1, 1)
    assert Predict(samples(3, 0)).of_estimator(job, len) == 3
    with pytest.raises(ModelError, match=r"^p1: DecisionTreeClassifier has no logits\.$"):
        Predict(samples(3, 0), logits=True).of_estimator(job, len)
