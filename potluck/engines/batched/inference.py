"""Predict and Tap for many networks at once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap
from torch.utils._pytree import tree_map

from potluck.core.model_view import ModelView, reached, tapped
from potluck.core.requests import Job, Predict, Tap
from potluck.engines.batched.kernels.dispatch import ours_pay, stacked_layers
from potluck.engines.batched.stacking import Stack, networks, stack_weights
from potluck.engines.precision import computing_in
from potluck.learners.network import EVALUATION_BATCH


def predict(jobs: list[Job], device: torch.device, precision: str = "torch") -> list[Tensor]:
    """Logits or probabilities of many networks at once."""
    assert isinstance(jobs[0].work, Predict)
    logits = torch.cat(_forward(jobs, device, precision, lambda output, _: output), dim=1)
    return list((logits if jobs[0].work.logits else logits.softmax(dim=-1)).unbind())


def tap(jobs: list[Job], device: torch.device, precision: str = "torch") -> list[dict[str, Tensor]]:
    """Inner layers' outputs of many networks at once."""
    assert isinstance(jobs[0].work, Tap)
    at = jobs[0].work.at
    parts = _forward(jobs, device, precision, lambda _, taken: {name: reached(name, taken) for name in at}, at)
    whole = {name: torch.cat([part[name] for part in parts], dim=1) for name in at}
    return [{name: outputs[index] for name, outputs in whole.items()} for index in range(len(jobs))]


def _forward(
    jobs: list[Job],
    device: torch.device,
    precision: str,
    keep: Callable[[Tensor, Mapping[str, Tensor]], Any],
    at: Sequence[str] = (),
) -> list[Any]:
    """What to keep of each batch, stacked over the networks; all on the CPU."""
    members = networks(jobs)
    skeleton = copy.deepcopy(members[0].model).to(device).eval()
    stacked, dtype = stack_weights(members, device), members[0].dtype
    shared = all(job.samples.x is jobs[0].samples.x for job in jobs)

    through = work.submodules if isinstance(work := jobs[0].work, Tap) else ()

    def run(weights: Stack, x: Tensor) -> Any:
        net = ModelView(skeleton, weights)
        with tapped(skeleton, at) as taken:
            output = net.part(through, x) if through else net(x)
        return keep(output, taken)

    def inputs(job: Job, cut: slice) -> Tensor:
        x = job.samples.x[cut].to(device)
        return x if through else job.plan.inputs(x, dtype)

    kept = []
    with torch.no_grad(), stacked_layers(ours_pay(device, len(members))), computing_in(precision):
        for start in range(0, len(jobs[0].samples), EVALUATION_BATCH):
            cut = slice(start, start + EVALUATION_BATCH)
            x = inputs(jobs[0], cut) if shared else torch.stack([inputs(job, cut) for job in jobs])
            found = vmap(run, in_dims=(0, None if shared else 0), randomness="different")(stacked, x)
            kept.append(tree_map(lambda tensor: tensor.cpu(), found))
    return kept
