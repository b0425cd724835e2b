"""The batched engine: networks of one architecture are stacked and trained in one ``torch.func.vmap`` call.

Parameters, buffers and what optimizers remember are stacked along a first dimension, one slice for each
participant. Everything that cannot be stacked is answered alone, as the serial engine would.
"""

from __future__ import annotations

import copy
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor
from torch.func import grad_and_value, vmap
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from potluck.engines.alike import likeness
from potluck.engines.local import LocalEngine, timed_alone
from potluck.engines.optimizers import Moments, fresh, update
from potluck.learners.base import Fitted
from potluck.learners.net import Companion, Net, reached, tapped
from potluck.learners.network import EVALUATION_BATCH, Network, add_up, frozen, set_mode
from potluck.learners.steps import Step, batch_of, course, epoch_means
from potluck.objectives import Gradients
from potluck.plan import Plan
from potluck.randomness import derive, seeded
from potluck.requests import Fit, Job, Predict, Tap

log = logging.getLogger(__name__)

Stack = dict[str, Tensor]
"""Tensors of many networks by name, one slice of the first dimension for each."""


class Batched(LocalEngine):
    """Answers all jobs of one likeness in one call."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(device)
        self._unstackable: set[Hashable] = set()

    def timed(self, jobs: Sequence[Job]) -> list[tuple[Any, float]]:
        groups: dict[Hashable, list[int]] = defaultdict(list)
        for index, job in enumerate(jobs):
            like = likeness(job)
            groups[("alone", index) if like is None or like in self._unstackable else like].append(index)
        answers: list[tuple[Any, float]] = [(None, 0.0)] * len(jobs)
        for like, members in groups.items():
            for index, answer in zip(members, self._answer_group(like, [jobs[i] for i in members]), strict=True):
                answers[index] = answer
        return answers

    def _answer_group(self, like: Hashable, jobs: list[Job]) -> list[tuple[Any, float]]:
        if len(jobs) > 1:
            try:
                began = time.perf_counter()
                answers = self._answer_stacked(jobs)
                return [(answer, (time.perf_counter() - began) / len(jobs)) for answer in answers]
            except RuntimeError as error:
                # Nothing was written back yet, so the same jobs can be answered alone.
                self._unstackable.add(like)
                kind = type(jobs[0].learner.model).__name__
                log.warning("%d networks of %s cannot be stacked and run one by one: %s", len(jobs), kind, error)
        return [timed_alone(job, self.device) for job in jobs]

    def _answer_stacked(self, jobs: list[Job]) -> list[Any]:
        if isinstance(jobs[0].work, Fit):
            return Training(jobs, self.device).run()
        if isinstance(jobs[0].work, Predict):
            return predict(jobs, self.device)
        return tap(jobs, self.device)


class Training:
    """One Fit of many networks at once."""

    def __init__(self, jobs: list[Job], device: torch.device) -> None:
        work = jobs[0].work
        assert isinstance(work, Fit)
        self.jobs, self.device, self.work, self.plan = jobs, device, work, jobs[0].plan
        self.networks = networks(jobs)
        self.networks[0].check_names(work.mask)
        self.dtype = self.networks[0].dtype
        self.skeleton = copy.deepcopy(self.networks[0].model).to(device)
        set_mode(self.skeleton, self.work.frozen_norms)
        stacked = stack_weights(self.networks, device)
        trainable = self.networks[0].trainable()
        self.parameters = {name: stacked.pop(name) for name in trainable}
        self.buffers = stacked
        self.moments = {name: self._moments(name) for name in trainable}
        self.given = StackedGiven([fit.given for fit in self._fits()], self.skeleton, device)
        self.mask = StackedGiven([fit.mask for fit in self._fits()], self.skeleton, device)

    def run(self) -> list[Fitted]:
        """Takes everyone's steps side by side, then writes the results back."""
        courses = [list(course(len(j.samples), j.plan, j.seed, j.round)) for j in self.jobs]
        losses: list[list[Tensor]] = [[] for _ in self.jobs]
        with seeded(derive(self.jobs[0].seed, "model")):
            for steps in zip_longest(*courses):
                for members in same_size(steps):
                    found = self._step(members, [steps[member] for member in members])
                    for member, loss in zip(members, found, strict=True):
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
        batches = [
            batch_of(self.jobs[m], step, self.dtype, self.device) for m, step in zip(members, steps, strict=True)
        ]
        batch = {name: torch.stack([b[name] for b in batches]) for name in batches[0]}
        lr = torch.tensor([step.lr for step in steps], dtype=torch.float64, device=self.device)
        state = (self.parameters, self.buffers, self.moments)
        everyone = len(members) == len(self.jobs)
        rows = torch.tensor(members, device=self.device)
        mine = state if everyone else tree_map(lambda t: t[rows], state)
        stepped: Callable[..., Any] = vmap(self._step_one, randomness="different")
        new, losses = stepped(*mine, batch, self.given.of(members), self.mask.of(members), lr.to(self.dtype))
        if everyone:
            self.parameters, self.buffers, self.moments = new
        else:
            tree_map(lambda whole, part: whole.index_copy_(0, rows, part), state, new)
        assert isinstance(losses, Tensor)
        return losses

    def _step_one(
        self,
        parameters: Stack,
        buffers: Stack,
        moments: dict[str, Moments],
        batch: Stack,
        given: list[Tensor],
        mask: list[Tensor],
        lr: Tensor,
    ) -> tuple[tuple[Stack, Stack, dict[str, Moments]], Tensor]:
        """One step of one network, as a pure function: this is what vmap stacks."""
        known, masks = self.given.rebuild(given), self.mask.rebuild(mask)
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
        combined = clipped({n: g * masks[n] if n in masks else g for n, g in combined.items()}, self.plan)
        moved, remembered = {}, {}
        for name, parameter in parameters.items():
            new, remembered[name] = update(self.plan, parameter, combined[name], moments[name], lr)
            moved[name] = torch.where(masks[name].bool(), new, parameter) if name in masks else new
        return (moved, buffers, remembered), torch.stack(losses)

    def _fits(self) -> list[Fit]:
        return [job.work for job in self.jobs if isinstance(job.work, Fit)]

    def _moments(self, name: str) -> Moments:
        def remembered(job: Job, network: Network) -> Moments:
            return network.remembered(job).get(name) or fresh(self.plan, network.trainable()[name].detach())

        each = [remembered(job, network) for job, network in zip(self.jobs, self.networks, strict=True)]
        return {key: torch.stack([moments[key].to(self.device) for moments in each]) for key in each[0]}

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


class StackedGiven:
    """What the participants were given, stacked: tensors and companions' weights by slice, the rest as it is."""

    def __init__(self, given: Sequence[Mapping[str, Any]], own: torch.nn.Module, device: torch.device) -> None:
        flat = [tree_flatten(dict(one)) for one in given]
        self._structure = flat[0][1]
        self._plain = flat[0][0]
        self._stacks: list[Any] = []
        self._bodies: list[torch.nn.Module | None] = []
        for leaves in zip(*(leaves for leaves, _ in flat), strict=True):
            if isinstance(leaves[0], Companion):
                self._bodies.append(frozen(leaves[0], own).to(device))
                names = leaves[0].weights
                self._stacks.append({n: torch.stack([leaf.weights[n] for leaf in leaves]).to(device) for n in names})
            else:
                self._bodies.append(None)
                tensor = isinstance(leaves[0], Tensor)
                self._stacks.append(torch.stack(leaves).to(device) if tensor else None)

    def of(self, members: list[int]) -> list[Any]:
        """The stacks of some participants: what vmap runs over."""
        whole = [stack for stack in self._stacks if stack is not None]
        return tree_map(lambda stack: stack[torch.tensor(members, device=stack.device)], whole)  # type: ignore[no-any-return]

    def rebuild(self, slices: list[Any]) -> dict[str, Any]:
        """What one participant was given, from its slices, in the shape the objective expects."""
        remaining = iter(slices)
        leaves = []
        for plain, stack, body in zip(self._plain, self._stacks, self._bodies, strict=True):
            found = plain if stack is None else next(remaining)
            leaves.append(found if body is None else Net(body, found))
        rebuilt: dict[str, Any] = tree_unflatten(leaves, self._structure)
        return rebuilt


def same_size(steps: Sequence[Step | None]) -> list[list[int]]:
    """Who goes together at one step: those with batches of one size; those who have finished drop out."""
    groups: dict[int, list[int]] = defaultdict(list)
    for member, step in enumerate(steps):
        if step is not None:
            groups[len(step.rows)].append(member)
    return list(groups.values())


def clipped(gradients: Gradients, plan: Plan) -> Gradients:
    """Gradients scaled down to a total norm of at most ``plan.clip``, by torch's formula."""
    if plan.clip is None:
        return gradients
    norm = torch.stack([gradient.norm() for gradient in gradients.values()]).norm()
    factor = (plan.clip / (norm + 1e-6)).clamp(max=1.0)
    return {name: gradient * factor for name, gradient in gradients.items()}


def networks(jobs: Sequence[Job]) -> list[Network]:
    """The jobs' learners, all of them networks."""
    return [job.learner for job in jobs if isinstance(job.learner, Network)]


def stack_weights(members: Sequence[Network], device: torch.device) -> Stack:
    """All state entries of networks of one architecture."""
    each = [network.tensors() for network in members]
    return {name: torch.stack([tensors[name].detach() for tensors in each]).to(device) for name in each[0]}


def predict(jobs: list[Job], device: torch.device) -> list[Tensor]:
    """Logits or probabilities of many networks at once."""
    assert isinstance(jobs[0].work, Predict)
    logits = torch.cat(_forward(jobs, device, lambda output, _: output), dim=1)
    return list((logits if jobs[0].work.logits else logits.softmax(dim=-1)).unbind())


def tap(jobs: list[Job], device: torch.device) -> list[dict[str, Tensor]]:
    """Inner layers' outputs of many networks at once."""
    assert isinstance(jobs[0].work, Tap)
    at = jobs[0].work.at
    parts = _forward(jobs, device, lambda _, taken: {name: reached(name, taken) for name in at}, at)
    whole = {name: torch.cat([part[name] for part in parts], dim=1) for name in at}
    return [{name: outputs[index] for name, outputs in whole.items()} for index in range(len(jobs))]


def _forward(
    jobs: list[Job], device: torch.device, keep: Callable[[Tensor, Mapping[str, Tensor]], Any], at: Sequence[str] = ()
) -> list[Any]:
    """What to keep of each batch, stacked over the networks; all on the CPU."""
    members = networks(jobs)
    skeleton = copy.deepcopy(members[0].model).to(device).eval()
    stacked, dtype = stack_weights(members, device), members[0].dtype
    shared = all(job.samples.x is jobs[0].samples.x for job in jobs)

    through = work.through if isinstance(work := jobs[0].work, Tap) else ()

    def run(weights: Stack, x: Tensor) -> Any:
        net = Net(skeleton, weights)
        with tapped(skeleton, at) as taken:
            output = net.part(through, x) if through else net(x)
        return keep(output, taken)

    def inputs(job: Job, cut: slice) -> Tensor:
        x = job.samples.x[cut].to(device)
        return x if through else job.plan.inputs(x, dtype)

    kept = []
    with torch.no_grad():
        for start in range(0, len(jobs[0].samples), EVALUATION_BATCH):
            cut = slice(start, start + EVALUATION_BATCH)
            x = inputs(jobs[0], cut) if shared else torch.stack([inputs(job, cut) for job in jobs])
            found = vmap(run, in_dims=(0, None if shared else 0), randomness="different")(stacked, x)
            kept.append(tree_map(lambda tensor: tensor.cpu(), found))
    return kept
