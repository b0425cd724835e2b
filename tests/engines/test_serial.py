"""The reference: one after the other, as plain PyTorch does it."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import potluck
from potluck.engines import Serial
from potluck.learners.schedule import batch_schedule
from potluck.methods import Local
from tests.tables import PLAN, made_data, mlp


def test_local_training_is_a_loop_in_plain_pytorch():
    x, y = made_data(20, 0)
    person = potluck.Participant("ann", mlp(0), (x, y), plan=PLAN, labels=range(3))
    federation = potluck.Federation([person], Local(), seed=5, engine="serial")
    seeds = []
    timed = federation.engine.timed
    federation.engine.timed = lambda jobs: (seeds.extend(job.seed for job in jobs), timed(jobs))[1]
    federation.run(1)
    [seed] = seeds

    model, inputs, labels = mlp(0), torch.from_numpy(x), torch.from_numpy(y)
    optimizer = torch.optim.SGD(model.parameters(), lr=PLAN.lr, momentum=PLAN.momentum)
    for step in batch_schedule(20, PLAN, seed, 1):
        optimizer.zero_grad()
        F.cross_entropy(model(inputs[step.rows]), labels[step.rows]).backward()
        optimizer.step()
    for name, entry in model.state_dict().items():
        torch.testing.assert_close(person.weights()[name], entry, rtol=1e-12, atol=1e-12)


def test_nobody_runs_beside_another():
    met = []

    class Watched(Local):
        def round(self, me):
            met.append(f"{me.name} begins")
            yield from super().round(me)
            met.append(f"{me.name} ends")

    people = [potluck.Participant(name, mlp(0), made_data(9, 0), plan=PLAN) for name in "ab"]
    potluck.Federation(people, Watched(), engine=Serial(torch.device("cpu"))).run(1)
    assert met == ["a begins", "a ends", "b begins", "b ends"]
