"""Jobs for tests: everything that Fit can express, from four networks with unequal data."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from potluck.core.job import Job
from potluck.core.model_view import FrozenModel
from potluck.core.objectives import cross_entropy
from potluck.core.plan import Plan
from potluck.core.requests import Fit
from potluck.core.samples import Samples
from potluck.engines.batched.trainer import Training
from potluck.learners.network import Network
from tests.tables import cnn, made_data

CPU = torch.device("cpu")
PLAN = Plan(optimizer="sgd", lr=0.05, momentum=0.9, weight_decay=0.01, epochs=2, batch_size=8)


def samples(rows, seed):
    x, y = made_data(rows, seed)
    return Samples({"x": torch.from_numpy(x), "y": torch.from_numpy(y)})


def jobs(work_of, plan_of=lambda i: PLAN, sizes=(20, 20, 13, 30)):
    """The same request from four networks of one architecture with unequal data."""
    made = []
    for i, size in enumerate(sizes):
        learner = Network(cnn(i))
        work = work_of(i, learner)
        on = work.on if not isinstance(work, Fit) or work.on is not None else samples(size, i)
        made.append(Job(f"p{i}", work, learner, on, plan_of(i), seed=100 + i, round=1))
    return made


def proximal(net, batch, given):
    distance = sum(((p - given["start"][name]) ** 2).sum() for name, p in net.parameters.items())
    return cross_entropy(net, batch, given) + given["mu"] / 2 * distance


def inner(net, batch, given):
    return F.mse_loss(net.part(["1", "2"], given["features"]), given["targets"])


def tapping(net, batch, given):
    logits, taken = net.taps(batch["x"], at=["1"])
    return F.cross_entropy(logits, batch["y"]) + taken["1"].square().mean()


def noisy(net, batch, given):
    return F.cross_entropy(net(batch["x"] + 0.1 * batch["noise"]), batch["y"])


def beside(net, batch, given):
    return cross_entropy(net, batch, given) + F.mse_loss(net(batch["x"]), given["teacher"](batch["x"]))


def towards(net, batch, given):
    return F.mse_loss(net(batch["x"]), batch["aim"])


def corrected(gradients, given):
    return {name: gradient + given["correction"][name] for name, gradient in gradients[0].items()}


def weighted_sum(gradients, given):
    return {name: gradients[0][name] - 0.5 * gradients[1][name] for name in gradients[0]}


def parameters(learner):
    return {name: p.detach().clone() for name, p in learner.trainable().items()}


def generator(i):
    return torch.Generator().manual_seed(i)


REQUESTS = {
    "cross entropy": lambda i, learner: Fit(),
    "proximal term": lambda i, learner: Fit(proximal, context={"start": parameters(learner), "mu": 0.3}),
    "a part of the model": lambda i, learner: Fit(
        [cross_entropy, inner],
        context={
            "features": torch.randn(6, 4, 6, 6, generator=generator(i)).double(),
            "targets": torch.ones(6, 4, 6, 6).double() * i,
        },
    ),
    "inner features": lambda i, learner: Fit(tapping),
    "random draws": lambda i, learner: Fit(noisy, noise={"noise": (1, 6, 6)}),
    "a frozen companion": lambda i, learner: Fit(
        beside, context={"teacher": FrozenModel(Network(cnn(50 + i)).weights())}
    ),
    "a companion of another architecture": lambda i, learner: Fit(
        beside, context={"teacher": FrozenModel(Network(cnn(i, width=7)).weights(), cnn(0, width=7))}
    ),
    "targets": lambda i, learner: Fit(
        towards, on=samples(11, i).with_targets(aim=torch.randn(11, 3, generator=generator(i)).double())
    ),
    "a correction of gradients": lambda i, learner: Fit(
        combine_gradients=corrected,
        context={"correction": {n: 0.01 * i + torch.zeros_like(p) for n, p in parameters(learner).items()}},
    ),
    "a rule over several objectives": lambda i, learner: Fit([cross_entropy, tapping], combine_gradients=weighted_sum),
    "a mask": lambda i, learner: Fit(
        mask={"0.weight": torch.rand(4, 1, 3, 3, generator=generator(i)) > 0.5, "4.weight": torch.tensor(False)}
    ),
    "frozen statistics": lambda i, learner: Fit(freeze_norm_stats=True),
}


def trained_together(monkeypatch):
    """The sizes of the stacks that are trained from now on."""
    sizes = []
    load = Training.load
    monkeypatch.setattr(Training, "load", lambda self, jobs: (sizes.append(len(jobs)), load(self, jobs))[1])
    return sizes


def trainings(objective=cross_entropy, sizes=(40, 40, 40), build=cnn, **settings):
    """A training of each of some networks, long enough for steps to come again."""
    plan = Plan(**{"lr": 0.01, "epochs": 6, "batch_size": 8, **settings})
    return [
        Job(f"p{i}", Fit(objective), Network(build(i)), samples(size, i), plan, seed=i, round=1)
        for i, size in enumerate(sizes)
    ]
