"""Gradients for each sample and from pieces of a batch, against plain PyTorch and by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from potluck.core.errors import ModelError, SettingsError
from potluck.core.job import Job
from potluck.core.objectives import cross_entropy
from potluck.core.plan import Plan
from potluck.core.randomness import generator
from potluck.core.requests import Fit
from potluck.core.samples import Samples
from potluck.engines import Batched, Serial
from potluck.engines.batched import engine as batched
from potluck.learners.gradients import pieces
from potluck.learners.network import Network
from tests.jobs import CPU, jobs, samples, trained_together
from tests.tables import cnn, mlp


def private(gradients, context):
    """Each sample's gradient cut to a norm, summed over two objectives, and their mean."""
    both = {name: sum(found[name] for found in gradients) for name in gradients[0]}
    norms = torch.stack([own.flatten(1).norm(dim=1) for own in both.values()]).norm(dim=0)
    factors = (context["norm"] / norms).clamp(max=1)
    return {name: torch.einsum("s,s...->...", factors, own) / len(own) for name, own in both.items()}


def flat(net, batch, context):
    return net(batch["x"]).square().mean() + 0.1 * batch["noise"].sum()


def picky(net, batch, context):
    """What cannot be mapped over samples."""
    return F.cross_entropy(net(batch["x"]), batch["y"]) * (2.0 if float(batch["x"].sum()) > 0 else 1.0)


def smooth(i=0, dtype=torch.float64):
    """A network with a normalisation that knows nothing of the batch."""
    torch.manual_seed(i)
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(4 * 36, 3)).to(
        dtype
    )


def by_hand(module, job, objective=cross_entropy):
    """One epoch of private training in plain PyTorch, sample by sample."""
    from potluck.learners.schedule import batch_schedule

    for step in batch_schedule(len(job.samples), job.plan, job.seed, job.round):
        total = {name: torch.zeros_like(p) for name, p in module.named_parameters()}
        for row in step.rows.tolist():
            batch = {name: column[row : row + 1] for name, column in job.samples.columns.items()}
            module.zero_grad()
            objective(module, batch, {}).backward()
            norm = torch.cat([p.grad.flatten() for p in module.parameters()]).norm()
            for name, p in module.named_parameters():
                total[name] += p.grad * min(1.0, float(0.5 / norm)) / len(step.rows)
        with torch.no_grad():
            for name, p in module.named_parameters():
                p -= step.lr * total[name]


PRIVATE = Fit(combine_gradients=private, per_sample=True, context={"norm": 0.5})
PLAN = Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=8)


def private_jobs(work, build=smooth, plan=PLAN, sizes=(20, 20, 13)):
    return [
        Job(f"p{i}", work, Network(build(i)), samples(size, i), plan, seed=i, round=1) for i, size in enumerate(sizes)
    ]


@pytest.mark.parametrize("objective", [cross_entropy, picky])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_each_samples_gradients_are_those_of_plain_pytorch_on_both_engines(objective, accumulate, monkeypatch):
    sizes = trained_together(monkeypatch)
    work, plan = replace(PRIVATE, objective=objective), PLAN.replace(accumulate=accumulate)
    alone, stacked = private_jobs(work, plan=plan), private_jobs(work, plan=plan)
    told = [Serial(CPU).answer(alone), Batched(CPU).answer(stacked)]
    for one, other, mine, theirs in zip(alone, stacked, *told, strict=True):
        module = smooth(int(one.owner[1]))
        by_hand(module, one, objective)
        torch.testing.assert_close(one.learner.weights(), dict(module.state_dict()), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(other.learner.weights(), one.learner.weights(), rtol=1e-9, atol=1e-9)
        assert mine.steps == theirs.steps == -(-len(one.samples) // (8 * accumulate))
        torch.testing.assert_close(mine.losses, theirs.losses, rtol=1e-9, atol=1e-9)
    assert sizes[:1] == [3]


def test_stacks_are_smaller_where_each_samples_gradients_are_held(monkeypatch):
    """A smooth network has 483 numbers of 8 bytes; a step looks at 8 samples, or at all 5 that there are."""
    monkeypatch.setitem(batched.STACK_BYTES, "cpu", 2 * 483 * 8 * 8)
    sizes = trained_together(monkeypatch)
    Batched(CPU).answer(private_jobs(PRIVATE, sizes=(20,) * 4))
    Batched(CPU).answer(private_jobs(Fit(), sizes=(20,) * 4))
    assert sizes == [2, 2, 4]
    (job,) = private_jobs(PRIVATE, sizes=(5,))
    assert (job.work.gradients_held(job), Fit().gradients_held(job)) == (5, 1)


def test_several_objectives_noise_and_some_layers_alone():
    def made():
        work = replace(PRIVATE, objective=[cross_entropy, flat], noise={"noise": (2,)}, only=("3",))
        return private_jobs(work, plan=PLAN.replace(epochs=2, optimizer="adam"))

    alone, stacked = made(), made()
    Serial(CPU).answer(alone)
    Batched(CPU).answer(stacked)
    for one, other in zip(alone, stacked, strict=True):
        torch.testing.assert_close(other.learner.weights(), one.learner.weights(), rtol=1e-9, atol=1e-9)
        assert torch.equal(one.learner.weights()["0.weight"], smooth(int(one.owner[1]))[0].weight)
        assert not torch.equal(one.learner.weights()["3.weight"], smooth(int(one.owner[1]))[3].weight)


def test_a_layer_that_looks_at_the_whole_batch_is_an_error_unless_its_statistics_are_frozen():
    for engine in (Serial(CPU), Batched(CPU)):
        with pytest.raises(ModelError, match=r"layer '1' normalises over the batch.*freeze_norm_stats=True"):
            engine.answer(private_jobs(PRIVATE, cnn))
    alone, stacked = (private_jobs(replace(PRIVATE, freeze_norm_stats=True), cnn) for _ in range(2))
    Serial(CPU).answer(alone)
    Batched(CPU).answer(stacked)
    for one, other in zip(alone, stacked, strict=True):
        torch.testing.assert_close(other.learner.weights(), one.learner.weights(), rtol=1e-9, atol=1e-9)


def test_each_samples_gradients_need_something_that_makes_one_of_them():
    with pytest.raises(SettingsError, match="per_sample=True needs combine_gradients"):
        Fit(per_sample=True)


def noisy_mean(gradients, context):
    """Differentially private training (Abadi et al., 2016, Algorithm 1): clipped, summed, noise added, averaged."""
    own, noise = private(gradients, context), context["gradient_noise"]
    count = len(next(iter(gradients[0].values())))
    return {name: mean + context["sigma"] * context["norm"] * noise[name] / count for name, mean in own.items()}


@pytest.mark.parametrize("accumulate", [1, 2])
def test_noise_for_gradients_is_drawn_anew_at_each_step_and_equal_on_both_engines(accumulate):
    work = replace(PRIVATE, combine_gradients=noisy_mean, gradient_noise=True, context={"norm": 0.5, "sigma": 2.0})
    plan = PLAN.replace(accumulate=accumulate)
    alone, stacked, quiet = private_jobs(work, plan=plan), private_jobs(work, plan=plan), private_jobs(PRIVATE)
    Serial(CPU).answer(alone)
    Batched(CPU).answer(stacked)
    for one, other in zip(alone, stacked, strict=True):
        torch.testing.assert_close(other.learner.weights(), one.learner.weights(), rtol=1e-9, atol=1e-9)
    if accumulate == 2:
        return
    job = replace(quiet[2], plan=PLAN.replace(batch_size=13))
    loud = replace(job, work=work, learner=Network(smooth(2)))
    Serial(CPU).answer([job, loud])
    for name, entry in loud.learner.weights().items():
        drawn = torch.randn(entry.shape, generator=generator(2, "gradient noise", name, 0), dtype=entry.dtype)
        torch.testing.assert_close(entry, job.learner.weights()[name] - 0.1 * 2.0 * 0.5 * drawn / 13)


def test_noise_for_gradients_needs_something_that_adds_it():
    with pytest.raises(SettingsError, match="gradient_noise=True needs combine_gradients"):
        Fit(gradient_noise=True)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("engine", [Serial, Batched])
def test_accumulated_gradients_are_those_of_one_large_batch(optimizer, engine):
    """20 samples: a step of 12 in pieces of 4, and one of 8; 13: one step, its last piece of 5."""

    def made(plan):
        return private_jobs(Fit(), mlp, plan)

    pieces_of, large = (
        made(Plan(optimizer=optimizer, lr=0.1, epochs=2, **sizes))
        for sizes in ({"batch_size": 4, "accumulate": 3}, {"batch_size": 12})
    )
    told = [engine(CPU).answer(each) for each in (pieces_of, large)]
    for one, other, mine, theirs in zip(pieces_of, large, *told, strict=True):
        torch.testing.assert_close(other.learner.weights(), one.learner.weights(), rtol=1e-9, atol=1e-9)
        assert mine.steps == theirs.steps
        torch.testing.assert_close(mine.losses, theirs.losses, rtol=1e-9, atol=1e-9)


def test_batch_norm_sees_piece_after_piece():
    def made():
        return jobs(lambda i, learner: Fit(), lambda i: Plan(optimizer="sgd", lr=0.05, batch_size=5, accumulate=2))

    alone, stacked = made(), made()
    Serial(CPU).answer(alone)
    Batched(CPU).answer(stacked)
    for one, other in zip(alone, stacked, strict=True):
        torch.testing.assert_close(other.learner.weights(), one.learner.weights(), rtol=1e-9, atol=1e-9)
        assert one.learner.weights()["1.num_batches_tracked"] == -(-len(one.samples) // 5)


def test_plans_that_differ_in_their_pieces_are_not_stacked(monkeypatch):
    sizes = trained_together(monkeypatch)
    made = [
        replace(job, plan=Plan(batch_size=size, accumulate=2))
        for job, size in zip(private_jobs(Fit(), mlp, sizes=(20, 20, 20, 20)), (4, 4, 8, 8), strict=True)
    ]
    Batched(CPU).answer(made)
    assert sizes == [2, 2]


def test_a_batch_is_cut_into_pieces_none_of_which_is_a_single_sample():
    batch = {"x": {"ids": torch.arange(9)}, "y": torch.arange(9)}
    found = [(piece["x"]["ids"].tolist(), piece["y"].tolist()) for piece in pieces(batch, Plan(batch_size=4))]
    assert found == [([0, 1, 2, 3], [0, 1, 2, 3]), ([4, 5, 6, 7, 8], [4, 5, 6, 7, 8])]


def test_samples_of_several_inputs_have_gradients_of_their_own():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2).double()

        def forward(self, a, b):
            return self.fc(a + b)

    torch.manual_seed(0)
    x = {name: torch.randn(6, 2, dtype=torch.float64) for name in ("a", "b")}
    data = Samples({f"x.{name}": column for name, column in x.items()} | {"y": torch.tensor([0, 1] * 3)})
    made = []
    for engine in (Serial(CPU), Batched(CPU)):
        torch.manual_seed(1)
        work = [Job(f"p{i}", PRIVATE, Network(Both()), data, PLAN, seed=i, round=1) for i in range(2)]
        engine.answer(work)
        made.append([job.learner.weights() for job in work])
    torch.testing.assert_close(made[0], made[1], rtol=1e-9, atol=1e-9)
