"""Readings of many networks at once: ``compute`` mapped over a stack of them, batch by batch."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.func import vmap
from torch.utils._pytree import tree_map

from potluck.core.inputs import moved
from potluck.core.job import Job
from potluck.core.model_view import ModelView, copy_holding
from potluck.engines.batched.kernels.dispatch import ours_pay, stacked_layers
from potluck.engines.batched.stacking import Stack, networks, stack_weights
from potluck.learners.schedule import rows_at_once


def read_together(jobs: list[Job], device: torch.device, common: frozenset[str] = frozenset()) -> list[Any]:
    """What a reading makes of many networks at once: its ``compute`` mapped over the stack, batch by batch.

    ``common``: the names of frozen parameters that are equal in all of the networks, and so are held once.
    """
    members, reading = networks(jobs), jobs[0].reading
    skeleton = copy_holding(members[0].model, common).to(device).eval()
    weights = stack_weights(members, device, common)
    shared = all(job.samples.same_inputs(jobs[0].samples) for job in jobs)

    def compute(weights: Stack, x: Any) -> Any:
        return reading.compute(ModelView(skeleton, weights), x)

    def inputs(number: int, cut: slice) -> Any:
        return members[number].inputs(jobs[number], moved(jobs[number].samples.at(cut), device))

    batches: list[Any] = []
    layers = stacked_layers(ours_pay(device, len(members))) if device.type == "cuda" else nullcontext()
    with torch.no_grad(), layers:
        size = rows_at_once(jobs[0].samples)
        for start in range(0, len(jobs[0].samples), size):
            cut = slice(start, start + size)
            each = [inputs(number, cut) for number in range(1 if shared else len(jobs))]
            x = each[0] if shared else tree_map(lambda *parts: torch.stack(parts), *each)
            found = vmap(compute, (0, None if shared else 0), randomness="different")(weights, x)
            batches.append(tree_map(Tensor.cpu, found))
    return reading.collect_all(jobs, batches)
