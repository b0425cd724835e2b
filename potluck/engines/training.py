"""One Fit of many networks at once: gradients by ``torch.func.vmap``, optimizer steps on the whole stack."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor
from torch.func import grad_and_value, vmap
from torch.utils._pytree import tree_leaves, tree_map

from potluck.engines.graphs import replayed
from potluck.engines.optimizers import Moments, advance, fresh
from potluck.engines.stacks import Stack, StackedData, StackedGiven, networks, some, stack_weights
from potluck.learners.base import Fitted
from potluck.learners.net import Net
from potluck.learners.network import add_up, set_mode
from potluck.learners.steps import Step, course, epoch_means
from potluck.objectives import Gradients
from potluck.plan import Plan
from potluck.randomness import derive, seeded
from potluck.requests import Fit, Job

OFTEN = 8
"""From how many steps of one size on it pays to capture one."""


class Training:
    """One Fit of networks of one architecture. Nothing is written to them before the end."""

    def __init__(self, jobs: list[Job], device: torch.device) -> None:
        fits = [job.work for job in jobs if isinstance(job.work, Fit)]
        self.jobs, self.device, self.work, self.plan = jobs, device, fits[0], jobs[0].plan
        self.networks = networks(jobs)
        self.networks[0].check_names(self.work.mask)
        self.dtype = self.networks[0].dtype
        self.skeleton = copy.deepcopy(self.networks[0].model).to(device)
        set_mode(self.skeleton, self.work.frozen_norms)
        stacked = stack_weights(self.networks, device)
        self.parameters = {name: stacked.pop(name) for name in self.networks[0].trainable()}
        self.buffers = stacked
        self.moments = {name: self._moments(name, parameter) for name, parameter in self.parameters.items()}
        self.mask = {name: self._mask(name, [fit.mask[name] for fit in fits]) for name in self.work.mask}
        self.given = StackedGiven([fit.given for fit in fits], self.skeleton, device)
        self.data = StackedData(jobs, self.dtype, device)
        self.gradients: Callable[..., Any] = vmap(self._gradients, randomness="different")
        self.replays: dict[int, Callable[..., Tensor]] = {}

    def run(self) -> list[Fitted]:
        """Takes everyone's steps side by side, then writes the results back."""
        courses = [list(course(len(j.samples), j.plan, j.seed, j.round)) for j in self.jobs]
        losses: list[list[Tensor]] = [[] for _ in self.jobs]
        self._capture(courses)
        with seeded(derive(self.jobs[0].seed, "model")):
            for steps in zip_longest(*courses):
                for members in same_size(steps):
                    found = self._step(members, [steps[member] for member in members])
                    for member, loss in zip(members, found.unbind(), strict=True):
                        losses[member].append(loss)
        self._write_back()
        return [
            Fitted(len(steps), epoch_means(torch.stack(rows).cpu(), torch.tensor([s.epoch for s in steps])))
            if steps
            else Fitted(steps=0)
            for steps, rows in zip(courses, losses, strict=True)
        ]

    def _step(self, members: list[int], steps: list[Step]) -> Tensor:
        """One step of some of the networks, those whose batches have one size. Returns their losses."""
        lr = torch.tensor([step.lr for step in steps], dtype=torch.float64, device=self.device)
        if len(members) < len(self.jobs):
            return self._step_of_some(members, self.data.batch(members, steps), lr)
        if replay := self.replays.get(len(steps[0].rows)):
            return replay(self.data.rows(members, steps), lr)
        return self._step_of_all(self.data.batch(members, steps), lr)

    def _step_of_some(self, members: list[int], batch: Stack, lr: Tensor) -> Tensor:
        """Takes out the slices of some networks, and puts them back."""
        state = (self.parameters, self.buffers, self.moments)
        mine, mask, given = some((state, self.mask, self.given.slices()), members, of=len(self.jobs))
        parameters, buffers, moments = mine
        losses = self._advance(parameters, buffers, moments, mask, given, batch, lr)
        rows = torch.tensor(members, device=self.device)
        tree_map(lambda old, new: old.index_copy_(0, rows, new), state, mine)
        return losses

    def _step_of_all(self, batch: Stack, lr: Tensor) -> Tensor:
        return self._advance(self.parameters, self.buffers, self.moments, self.mask, self.given.slices(), batch, lr)

    def _capture(self, courses: Sequence[Sequence[Step]]) -> None:
        """On a GPU, steps of all networks that come often enough are captured in a graph, one for each batch size."""
        if self.device.type != "cuda" or self.data.drawn:
            return
        everyone = list(range(len(self.jobs)))
        whole = [steps for steps in zip(*courses, strict=False) if len(same_size(steps)) == 1]
        counts = Counter(len(steps[0].rows) for steps in whole)
        state = [*tree_leaves((self.parameters, self.buffers, self.moments))]

        def step(rows: Tensor, lr: Tensor) -> Tensor:
            return self._step_of_all(self.data.look_up(rows), lr)

        for steps in whole:
            size = len(steps[0].rows)
            if counts[size] >= OFTEN and size not in self.replays:
                lr = torch.tensor([s.lr for s in steps], dtype=torch.float64, device=self.device)
                self.replays[size] = replayed(step, [self.data.rows(everyone, list(steps)), lr], state)

    def _advance(
        self,
        parameters: Stack,
        buffers: Stack,
        moments: dict[str, Moments],
        mask: Stack,
        given: list[Any],
        batch: Stack,
        lr: Tensor,
    ) -> Tensor:
        """One step in place. What a mask holds back stays: weight decay and momentum would move it."""
        gradients, written, losses = self.gradients(parameters, buffers, batch, given)
        gradients = clipped({n: g * mask[n] if n in mask else g for n, g in gradients.items()}, self.plan)
        for name, buffer in buffers.items():
            buffer.copy_(written[name])
        for name, parameter in parameters.items():
            held = parameter.clone() if name in mask else parameter
            advance(self.plan, parameter, gradients[name], moments[name], lr)
            if name in mask:
                parameter.copy_(torch.where(mask[name], parameter, held))
        assert isinstance(losses, Tensor)
        return losses

    def _gradients(self, parameters: Stack, buffers: Stack, batch: Stack, given: list[Any]) -> Any:
        """One network's gradients, buffers and losses, as a pure function: this is what vmap stacks."""
        known = self.given.rebuild(given)
        batch = {**batch, "x": self.plan.inputs(batch["x"], self.dtype)}
        gradients: list[Gradients] = []
        losses = []
        for objective in self.work.objectives:

            def loss_of(
                parameters: Stack, buffers: Stack, objective: Any = objective
            ) -> tuple[Tensor, tuple[Tensor, Stack]]:
                # Layers write to their buffers: let them write to copies, and pass those on.
                written = {name: buffer.clone() for name, buffer in buffers.items()}
                loss = objective(Net(self.skeleton, {**parameters, **written}), batch, known)
                return loss, (loss.detach(), written)

            gradient, (_, (loss, buffers)) = grad_and_value(loss_of, has_aux=True)(parameters, buffers)
            gradients.append(gradient)
            losses.append(loss)
        combined = self.work.rule(gradients, known) if self.work.rule else add_up(gradients)
        return combined, buffers, torch.stack(losses)

    def _moments(self, name: str, parameter: Tensor) -> Moments:
        """What the optimizers remember of a parameter. Networks of one likeness all remember it, or none does."""
        each = [network.remembered(job).get(name) for job, network in zip(self.jobs, self.networks, strict=True)]
        kept = [moments for moments in each if moments]
        if not kept:
            return fresh(self.plan, parameter)
        return {key: torch.stack([moments[key] for moments in kept]).to(self.device) for key in kept[0]}

    def _mask(self, name: str, masks: Sequence[Tensor]) -> Tensor:
        """A mask for each network, broadcast to its parameter."""
        shape = self.parameters[name].shape[1:]
        return torch.stack([mask.bool().expand(shape) for mask in masks]).to(self.device)

    def _write_back(self) -> None:
        stacks = {**self.parameters, **self.buffers}
        for index, (job, network) in enumerate(zip(self.jobs, self.networks, strict=True)):
            with torch.no_grad():
                for name, tensor in network.tensors().items():
                    tensor.copy_(stacks[name][index])
            if job.keep_optimizer:
                memory = {
                    name: {key: value[index].to("cpu", copy=True) for key, value in moments.items()}
                    for name, moments in self.moments.items()
                    if moments
                }
                network.remember(self.plan, memory)


def same_size(steps: Sequence[Step | None]) -> list[list[int]]:
    """Who goes together at one step: those with batches of one size; those who have finished drop out."""
    groups: dict[int, list[int]] = defaultdict(list)
    for member, step in enumerate(steps):
        if step is not None:
            groups[len(step.rows)].append(member)
    return list(groups.values())


def clipped(gradients: Gradients, plan: Plan) -> Gradients:
    """Each network's gradients scaled down to a total norm of at most ``plan.clip``, by torch's formula."""
    if plan.clip is None:
        return gradients
    norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients.values()]).norm(dim=0)
    factor = (plan.clip / (norms + 1e-6)).clamp(max=1.0)
    return {name: g * factor.reshape(-1, *[1] * (g.ndim - 1)) for name, g in gradients.items()}
