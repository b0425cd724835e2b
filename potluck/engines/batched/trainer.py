"""Fits of many networks at once: gradients by ``torch.func.vmap``, optimizer steps on the whole stack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import grad_and_value, vmap

from potluck.core.groups import chosen
from potluck.core.inputs import Batch, size_of
from potluck.core.job import Job
from potluck.core.model_view import copy_holding, view_of
from potluck.core.objectives import AnyObjective, Gradients
from potluck.core.randomness import derive
from potluck.core.requests import Fitted
from potluck.engines.batched.cuda_graphs import CaptureError, Replayed, replayed
from potluck.engines.batched.kernels.dispatch import FEW, stacked_layers
from potluck.engines.batched.kernels.factored_linear import (
    Call,
    Factored,
    OtherCallsError,
    Watched,
    plain_sgd,
    subtract_products,
)
from potluck.engines.batched.optimizers import advance, clipped, fresh
from potluck.engines.batched.stacked_jobs import StackedData
from potluck.engines.batched.stacking import (
    Capacity,
    Stack,
    StackedContext,
    StackState,
    SubStacks,
    copy_all,
    empty_stack,
    fill,
    networks,
    on_host,
)
from potluck.learners.gradients import check_each_sample, gradients_in_pieces, noise_apart, of_each_sample
from potluck.learners.network import set_mode
from potluck.learners.schedule import JointStep, StepShape, batch_schedule, epoch_means, in_lockstep

Objectives = tuple[AnyObjective, ...]

OFTEN = 4
"""From how many turns of one form on it pays to capture one: capturing takes as long as two steps without a graph,
where the GPU waits for Python most of the time."""


class GraphKey(NamedTuple):
    """What a graph of a turn depends on.

    Args:
        shape: how many networks take the step, and how many samples each.
        abreast: whether its networks can be advanced as one.
        full: whether as many networks take part as the stack can hold.
    """

    shape: StepShape
    abreast: bool
    full: bool


class StepInputs(NamedTuple):
    """What a turn's step reads, on the device.

    Args:
        rates: each network's learning rates (networks × plans).
        samples: the batch; or, where the samples are on the device, the rows to look up.
    """

    rates: Tensor
    samples: Stack | Tensor


class Training:
    """A stack for networks of one architecture to be trained in, again and again.

    That is ``load``, ``steps`` to the end, ``fetch_losses``, ``finish``. Before ``finish`` nothing is written to the
    networks.

    Args:
        jobs: trainings that may be stacked.
        capacity: how many networks and samples there is to be room for.
        device: what they compute on.
        precision: what they compute in.
        common: the names of frozen parameters that are equal in all of the networks, and so are held once.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        capacity: Capacity,
        device: torch.device,
        precision: str = "torch",
        common: frozenset[str] = frozenset(),
    ) -> None:
        first, network = jobs[0], networks(jobs)[0]
        self.device, self.precision, self.capacity, self.common = device, precision, capacity, common
        self.work, self.plan = first.fit, first.plan
        first.check_names(network.trainable, network.frozen)
        self.dtype = network.dtype
        self.skeleton = copy_holding(network.model, common).to(device)
        set_mode(self.skeleton, self.work.freeze_norm_stats)
        if self.work.per_sample:
            check_each_sample(self.skeleton)
        self._whole = not self.work.per_sample and self.plan.accumulate == 1
        """Whether gradients are those of a step's batch as a whole."""
        tensors = {name: tensor for name, tensor in network.tensors().items() if name not in common}
        parameters = empty_stack({n: tensors.pop(n) for n in network.trainable()}, capacity.networks, device)
        frozen = empty_stack({n: tensors.pop(n) for n in network.frozen() if n in tensors}, capacity.networks, device)
        self._plans = [(plan, names) for plan, names in zip(first.plans, first.by_plan(parameters), strict=True)]
        self._updates = [
            (objectives, tuple(parameters if only is None else chosen(parameters, only, network.frozen())))
            for objectives, only in self.work.updates
        ]
        self.context = StackedContext(self.work.context, self.skeleton, capacity.networks, device)
        self.state = StackState(
            parameters=parameters,
            buffers=empty_stack(tensors, capacity.networks, device),
            moments={name: fresh(plan, parameters[name]) for plan, names in self._plans for name in names},
            frozen=frozen,
            mask={name: torch.zeros_like(parameters[name], dtype=torch.bool) for name in self.work.mask},
            context=self.context.slices(),
        )
        self.data = StackedData(first, capacity.samples, self.dtype, device)
        self._substacks = SubStacks(self.state, kept=device.type == "cuda")
        self._replays: dict[GraphKey, Replayed | None] = {}
        self._seen: Counter[GraphKey] = Counter()
        self._failed_capture: str | None = None
        self._unused = True
        """Whether optimizers have never taken a step, and so remember nothing."""
        on_gpu = device.type == "cuda"
        every = len(self._plans) == 1 and self._updates[0][1] == tuple(parameters)
        alone = every and len(self.work.objectives) == 1 and not self.work.combine_gradients and not self.state.mask
        plain = self.plan.optimizer == "sgd" and plain_sgd(self.plan)
        may_factor = alone and plain and self._whole and not on_gpu and precision != "bfloat16"
        self._calls: tuple[Call, ...] | None = None if may_factor else ()
        """The calls of linear layers whose gradients stay in factors; None until the first turn has seen them."""
        self._stream = torch.cuda.Stream(device) if on_gpu else None  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle() if on_gpu else None

    def load(self, jobs: Sequence[Job]) -> None:
        """Brings everything over: samples, weights, what optimizers remember, what was given."""
        self.jobs, members = jobs, networks(jobs)
        self._substacks.abandon()  # if the last training was broken off
        fits = [job.fit for job in jobs]
        self.courses = [list(batch_schedule(len(j.samples), j.plan, j.seed, j.round, j.plans[1:])) for j in jobs]
        self.turns = list(in_lockstep(self.courses, None if self._stream is None else self.capacity.networks))
        memories = [network.remembered(job) for job, network in zip(jobs, members, strict=True)]
        self.level = len({float(m.get("step", 0)) for memory in memories for m in memory.values()}) <= 1
        self.data.load(jobs, self.turns)
        self._rates = self._rates_of_turns()
        self._capture()  # before the weights come, since it spoils them
        each = [network.tensors() for network in members]
        fill(self.state.parameters, each)
        fill(self.state.buffers, each)
        fill(self.state.frozen, each)
        if self.common and self._stream is not None:  # elsewhere they are the memory of the first network's
            held = dict(self.skeleton.named_parameters())
            copy_all([[held[name] for name in self.common]], [[each[0][name].detach() for name in self.common]])
        self._remember(memories)
        shapes = {name: mask.shape[1:] for name, mask in self.state.mask.items()}
        fill(self.state.mask, [{n: fit.mask[n].bool().expand(shape) for n, shape in shapes.items()} for fit in fits])
        self.context.load([fit.context for fit in fits])
        self.losses: list[Tensor] = []

    def steps(self) -> Iterator[bool]:
        """Takes everyone's steps. Pauses after each turn, so that other trainings can take theirs beside it."""
        torch.manual_seed(derive(self.jobs[0].seed, "model"))  # whatever a capture, or a try that failed, has drawn
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream())
        for number, turn in enumerate(self.turns):
            with self._beside():
                self._gather(turn)
                key = self._graph_key(turn)
                step = self._replays.get(key) or partial(self._step, key=key)
                self.losses.append(step(self._inputs(number)))
            yield True
        with self._beside():
            self._substacks.dissolve()
        if self._stream is not None:
            torch.cuda.current_stream().wait_stream(self._stream)

    def fetch_losses(self) -> None:
        """Brings all losses back at once: the last thing for which a device needs memory."""
        if self.losses:
            self.losses = [torch.cat(self.losses).cpu()]

    def finish(self) -> list[Fitted]:
        """Writes the results back to the networks."""
        self._write_back()
        return [
            Fitted(len(steps), epoch_means(rows, [step.epoch for step in steps])) if steps else Fitted(steps=0)
            for steps, rows in zip(self.courses, self._rows_of_losses(), strict=True)
        ]

    def _rows_of_losses(self) -> Sequence[Tensor]:
        """The losses of each network, a row for each of its steps."""
        if not self.losses:
            return [torch.empty(0)] * len(self.courses)
        members = torch.tensor([member for turn in self.turns for member in turn.members])
        by_member = torch.cat(self.losses)[members.argsort(stable=True)]
        return torch.split(by_member, [len(steps) for steps in self.courses])

    def _rates_of_turns(self) -> Sequence[Tensor]:
        """Each turn's learning rates, all brought to the device at once."""
        rates = [step.rates for turn in self.turns for step in turn.steps]
        lr = torch.tensor(rates, dtype=torch.float64, device=self.device)
        return torch.split(lr, [len(turn.members) for turn in self.turns]) if rates else ()

    def _inputs(self, number: int) -> StepInputs:
        """What the step of a turn reads."""
        return StepInputs(self._rates[number], self.data.of_turn(number))

    def _gather(self, turn: JointStep) -> None:
        """Has the turn's networks where they can step together: all where they are, some in a sub-stack."""
        if self._is_full(turn):
            self._substacks.dissolve()
        else:
            self._substacks.gather(turn.members)

    def _is_full(self, turn: JointStep) -> bool:
        return len(turn.members) == self.capacity.networks

    def _capture(self) -> None:
        """On a GPU, turns of a shape that comes often are captured in a graph, which later trainings use again."""
        self._seen.update(self._graph_key(turn) for turn in self.turns)
        if self._stream is None:
            return
        self._unused = False
        for number, turn in enumerate(self.turns):
            key = self._graph_key(turn)
            if self._seen[key] >= OFTEN and key not in self._replays:
                step, inputs, many = partial(self._step, key=key), self._inputs(number), key.shape[0] > FEW
                try:
                    self._replays[key] = replayed(step, inputs, self._stream, self._pool, try_kernels=many)
                except CaptureError as error:
                    self._replays[key], self._failed_capture = None, str(error)
                    self._pool = torch.cuda.graph_pool_handle()  # what has begun in the old one stays begun

    @property
    def uncaptured(self) -> str | None:
        """Why most of its turns run step by step, if a capture failed."""
        failed = sum(self._replays.get(self._graph_key(turn), ...) is None for turn in self.turns)
        return self._failed_capture if 2 * failed > len(self.turns) else None

    def _graph_key(self, turn: JointStep) -> GraphKey:
        return GraphKey(turn.shape, turn.abreast and self.level, self._is_full(turn))

    def _beside(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def _step(self, inputs: StepInputs, key: GraphKey) -> Tensor:
        """One step of some of the networks. Returns their losses."""
        batch, losses = self.data.batch(inputs.samples), []
        state = self.state if key.full else self._substacks.of(key.shape[0]).state
        for objectives, changing in self._updates:
            with nullcontext() if self._stream is None else stacked_layers(True):
                try:
                    calls, found = self._all_gradients(key, state, batch, objectives, changing)
                except OtherCallsError:  # from now on whole gradients
                    self._calls = ()
                    calls, found = self._all_gradients(key, state, batch, objectives, changing)
            gradients, written, loss, outer, inner = found
            self._advance(state, gradients, written, inputs.rates, key.abreast)
            if calls:
                subtract_products(state.parameters, calls, outer, inner, inputs.rates[:, 0])
            losses.append(loss)
        return losses[0] if len(losses) == 1 else torch.cat(losses, dim=1)

    def _advance(self, state: StackState, gradients: Gradients, written: Stack, rates: Tensor, abreast: bool) -> None:
        """One step in place. What a mask holds back stays: weight decay and momentum would move it."""
        parameters, buffers, moments, _, mask, _ = state
        gradients = {n: g * mask[n] if n in mask else g for n, g in gradients.items()}
        copy_all([list(buffers.values())], [[written[name] for name in buffers]])
        held = {name: parameters[name].clone() for name in mask if name in gradients}
        for (plan, names), lr in zip(self._plans, rates.unbind(dim=1), strict=True):
            if mine := clipped({name: gradients[name] for name in names if name in gradients}, plan):
                advance(plan, {n: parameters[n] for n in mine}, mine, moments, lr, abreast)
        for name, old in held.items():
            parameters[name].copy_(torch.where(mask[name], parameters[name], old))

    def _all_gradients(
        self, key: GraphKey, state: StackState, batch: Batch, objectives: Objectives, changing: Sequence[str]
    ) -> tuple[tuple[Call, ...], Any]:
        """Which linear layers' gradients stay in factors, and what ``_gradients`` returns for all networks."""
        calls = self._calls or ()
        zeros = [torch.zeros((), dtype=self.dtype).expand(*key.shape, *call.shape) for call in calls]
        one: Callable[..., Any] = partial(self._gradients, objectives, changing)
        of_all: Callable[..., Any] = vmap(one, randomness="different")
        return calls, of_all(state.parameters, state.buffers, state.frozen, batch, state.context, zeros)

    def _gradients(
        self,
        objectives: Objectives,
        changing: Sequence[str],
        parameters: Stack,
        buffers: Stack,
        frozen: Stack,
        batch: Batch,
        context: list[Stack],
        zeros: list[Tensor],
    ) -> Any:
        """One network's gradients, buffers and losses, as a pure function: this is what vmap stacks.

        Where linear layers' gradients stay in factors, there is a zero for each of their calls. Its gradient and the
        layer's input are returned in the place of the weights' gradients.
        """
        known = self.context.rebuild(context)
        batch, noised = noise_apart(batch, known) if self.work.gradient_noise else (batch, known)
        in_factors = {call.weight for call in self._calls or ()}
        sought = {name: parameters[name] for name in changing if name not in in_factors}
        fixed = {**frozen, **{name: parameter for name, parameter in parameters.items() if name not in sought}}
        buffers = dict(buffers)
        gradients: list[Gradients] = []
        losses, outer, inner = [], zeros, zeros
        for objective in objectives:
            of_batch = partial(self._of_batch, objective, sought, fixed, buffers, known, zeros)
            if self._whole:
                gradient, loss, outer, inner = of_batch(batch)
            else:
                each = partial(self._of_samples, objective, sought, fixed, buffers, known)
                one = each if self.work.per_sample else lambda piece, of_batch=of_batch: of_batch(piece)[:2]
                gradient, loss = gradients_in_pieces(one, batch, self.work, self.plan)
            gradients.append(gradient)
            losses.append(loss)
        return self.work.combined(gradients, noised, sought), buffers, torch.stack(losses), outer, inner

    def _of_batch(
        self, objective: Any, sought: Stack, fixed: Stack, buffers: Stack, known: Any, zeros: list[Tensor], batch: Batch
    ) -> tuple[Gradients, Tensor, list[Tensor], list[Tensor]]:
        """One objective's gradients, its loss, and gradients in factors. ``buffers`` takes up what layers write."""

        def loss_of(sought: tuple[Stack, list[Tensor]]) -> tuple[Tensor, tuple[Tensor, Stack, list[Tensor]]]:
            written = {name: buffer.clone() for name, buffer in buffers.items()}
            parameters = {**sought[0], **fixed}
            learned = {name: parameters[name] for name in self.state.parameters}
            with self._linear_layers(learned, sought[1], size_of(batch)) as inputs:
                loss = objective(view_of(self.skeleton, {**parameters, **written}), batch, known)
            return loss, (loss.detach(), written, inputs)

        (gradients, outer), (_, (loss, written, inner)) = grad_and_value(loss_of, has_aux=True)((sought, zeros))
        buffers.update(written)
        return gradients, loss, outer, inner

    def _of_samples(
        self, objective: Any, sought: Stack, fixed: Stack, buffers: Stack, known: Any, batch: Batch
    ) -> tuple[Gradients, Tensor]:
        """One objective's gradients for each sample, and its loss."""

        def loss_of(sought: Gradients, sample: Batch) -> Any:
            return objective(view_of(self.skeleton, {**sought, **fixed, **buffers}), sample, known)

        return of_each_sample(loss_of, sought, batch)

    @contextmanager
    def _linear_layers(self, parameters: Stack, zeros: list[Tensor], samples: int) -> Iterator[list[Tensor]]:
        """Inside, linear layers put their inputs into the list, once it is known which can; before, it is watched."""
        if self._calls is None:
            with Watched(parameters, samples) as layers:
                yield layers.inputs
            self._calls = layers.calls()
        elif self._calls:
            with Factored(parameters, samples, self._calls, zeros) as layers:
                yield layers.inputs
            layers.check()
        else:
            yield []

    def _remember(self, each: Sequence[dict[str, dict[str, Any]]]) -> None:
        """What the optimizers know. Networks of one architecture all remember a parameter, or none does."""
        for name, moments in self.state.moments.items():
            if name in each[0]:
                fill(moments, [memory[name] for memory in each])
            elif not self._unused:
                for value in moments.values():
                    value.zero_()
        self._unused = False

    def _write_back(self) -> None:
        stacks = on_host({**self.state.parameters, **self.state.buffers}, len(self.jobs))
        keeping = any(job.keep_optimizer for job in self.jobs)
        memory = {name: on_host(moments, len(self.jobs)) for name, moments in self.state.moments.items() if keeping}
        members = networks(self.jobs)
        each = [network.held.all for network in members]
        with torch.no_grad():
            for name, stack in stacks.items():
                copy_all([[tensors[name] for tensors in each]], [stack.unbind()[: len(each)]])
        for index, (job, network) in enumerate(zip(self.jobs, members, strict=True)):
            if job.keep_optimizer:
                mine = {
                    name: {key: value[index].clone() for key, value in moments.items()}
                    for name, moments in memory.items()
                    if moments
                }
                network.remember(job, mine)
