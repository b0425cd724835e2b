"""Networks: torch modules. Their weights, layers and gradients are open to the methods that need them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from potluck.core.architecture import Architecture
from potluck.core.errors import ModelError, nearest
from potluck.core.groups import chosen, names_of, within
from potluck.core.inputs import moved, nested
from potluck.core.job import Job, OptimizerState
from potluck.core.learner import Learner
from potluck.core.model_spec import OWN
from potluck.core.model_view import FrozenModel, HeldTensors, ModelView, SeveralModules, view_of
from potluck.core.plan import Plan
from potluck.core.randomness import derive, seeded
from potluck.core.requests import Fitted
from potluck.core.samples import Samples
from potluck.core.stable_names import stable_name
from potluck.core.tasks import Task
from potluck.learners.gradients import as_asked, noise_apart
from potluck.learners.output_check import check_output
from potluck.learners.schedule import batch_of, batch_schedule, epoch_means, rows_at_once, steps_in
from potluck.learners.traits import Traits, probed

if TYPE_CHECKING:
    from potluck.core.inputs import Batch
    from potluck.core.objectives import Context, Gradients

NORMS = (nn.modules.batchnorm._BatchNorm, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)


class Network(Learner):
    """A torch module with what its optimizer remembers. Training here is plain PyTorch: the reference.

    Args:
        module: the torch module.
    """

    shows_layers: ClassVar[bool] = True
    answers_untrained: ClassVar[bool] = True

    def __init__(self, module: nn.Module) -> None:
        self.model = module
        self.traits: Traits | None = None
        """What its code does besides computing, once ``probe`` has looked."""
        self.remembered_times = 0
        """How often what the optimizer remembers was replaced."""
        self.optimizer_state: OptimizerState = {}
        self._held: HeldTensors | None = None
        self._optimizer_kinds: dict[str, str] = {}

    def __getstate__(self) -> dict[str, Any]:
        """All but what is looked at anew where it comes to: architectures are compared within one process."""
        return {**{name: value for name, value in self.__dict__.items() if name != "architecture"}, "_held": None}

    @cached_property
    def architecture(self) -> Architecture:
        """What it is, apart from its weights: looked at once, until ``look_again``."""
        return Architecture(self.model)

    def look_again(self) -> None:
        """Has the module looked at anew: its owner, or its own code, may have changed it."""
        self.__dict__.pop("architecture", None)
        self._held = None

    def share(self, architecture: Architecture, traits: Traits | None) -> None:
        """Takes over what is known of an equal network, so that it need not be found out again."""
        self.architecture, self.traits = architecture, traits

    @property
    def held(self) -> HeldTensors:
        """Its tensors, looked up anew only where its module was changed by somebody."""
        if self._held is None or not self._held.are_of(self.model):
            self._held = HeldTensors(self.model)
        return self._held

    @property
    def dtype(self) -> torch.dtype:
        """The precision the network computes in."""
        return next((p.dtype for p in self.held.parameters.values() if p.is_floating_point()), torch.float32)

    @property
    def _device(self) -> torch.device:
        return next((tensor.device for tensor in self.held.all.values()), torch.device("cpu"))

    def trainable(self) -> dict[str, nn.Parameter]:
        """The parameters that training changes."""
        return {name: p for name, p in self.held.parameters.items() if p.requires_grad}

    def trained_entries(self) -> set[str]:
        """The entries of the state that training changes, each under all of its names where it is used twice."""
        return {name for name, p in self.model.named_parameters(remove_duplicate=False) if p.requires_grad}

    def frozen(self) -> dict[str, nn.Parameter]:
        """The parameters that training leaves as they are."""
        return {name: p for name, p in self.held.parameters.items() if not p.requires_grad}

    def tensors(self) -> dict[str, Tensor]:
        """Every parameter and buffer, each once: what engines stack."""
        return dict(self.held.all)

    def weights(self) -> dict[str, Tensor]:
        """A copy of every entry of the state: parameters and buffers, on the CPU."""
        with torch.no_grad():
            return {name: entry.to("cpu", copy=True) for name, entry in self.held.state.items()}

    def entries_in(self, places: Iterable[str]) -> set[str]:
        """The names of state entries, parameters and buffers, that belong to these layers, such as ``me.head``."""
        listed = names_of(places)
        return {name for name in self.held.state if within(name, listed)}

    def norm_entries(self) -> set[str]:
        """The names of state entries that belong to normalisation layers with running statistics."""
        return {
            f"{path}.{name}".removeprefix(".")
            for path, module in self.model.named_modules()
            if isinstance(module, NORMS)
            for name in module.state_dict()
        }

    def load(self, entries: Mapping[str, Tensor]) -> None:
        """Takes over some or all entries of the state; names and shapes must be the network's own."""
        own = self.held.state
        for name, entry in entries.items():
            if name not in own:
                raise ModelError(f"The model has no entry {name!r}.{nearest(name, own)}")
            if own[name].shape != entry.shape:
                raise ModelError(f"Entry {name!r} has shape {tuple(own[name].shape)}; was given {tuple(entry.shape)}.")
        frozen = self.frozen()
        if frozen:  # under all names of each
            named = self.model.named_parameters(remove_duplicate=False)
            frozen = {name: parameter for name, parameter in named if not parameter.requires_grad}
        with torch.no_grad():
            for name in entries.keys() & frozen.keys():
                _replace(frozen[name], entries[name])
            written = [name for name in entries if name not in frozen]
            if written:
                torch._foreach_copy_([own[name] for name in written], [entries[name] for name in written])

    def example(self, samples: Samples, plan: Plan) -> Any:
        """Two samples as the network reads them, where it is."""
        return plan.inputs(moved(samples.at(slice(2)), self._device), self.dtype)

    def check(self, samples: Samples, task: Task, plan: Plan, owner: str) -> None:
        """Runs two samples through the module, in evaluation mode so that it stays as it is."""
        check_output(self.model.eval(), self.example(samples, plan), samples, task, owner)
        plan.draws(samples)  # which no seed may decide: reported before anything is trained

    def probe(self, samples: Samples, plan: Plan) -> Traits:
        """What a copy of the module does when it runs two samples, in training and in evaluation; looked at once."""
        if self.traits is None:
            self.traits = probed(self.model, samples, plan, self.dtype)
        return self.traits

    def fit(self, job: Job, device: torch.device) -> Fitted:
        """One optimizer step after the other, as in any PyTorch loop."""
        work, module = job.fit, self.model.to(device)
        job.check_names(self.trainable, self.frozen)
        set_mode(module, work.freeze_norm_stats)
        view, parameters = view_of(module), self.trainable()
        context, mask = on_device(work.context, module, device), on_device(work.mask, module, device)
        updates = [
            (objectives, parameters if only is None else chosen(parameters, only, self.frozen()))
            for objectives, only in work.updates
        ]
        optimizers = Optimizers(job, parameters, self.remembered(job))
        whole = not work.per_sample and job.plan.accumulate == 1
        gradients_of = _gradients if whole else as_asked(_gradients, module, work, job.plan)
        # Held in one tensor: small ones of every step would lie between the batches that are freed, and memory grew.
        losses: Tensor | None = None
        epochs: list[int] = []
        with seeded(derive(job.seed, "model")):
            for step in batch_schedule(len(job.samples), job.plan, job.seed, job.round, job.plans[1:]):
                batch = nested({name: c.to(device) for name, c in batch_of(job, step, self.dtype).items()})
                if not job.plan.draws(job.samples):
                    batch["x"] = job.plan.inputs(batch["x"], self.dtype)
                batch, noised = noise_apart(batch, context) if work.gradient_noise else (batch, context)
                row: list[Tensor] = []
                epochs.append(step.epoch)
                for objectives, sought in updates:
                    gradients: list[Gradients] = []
                    for objective in objectives:
                        found, loss = gradients_of(objective, view, sought, batch, context)
                        gradients.append(found)
                        row.append(loss)
                    optimizers.step(work.combined(gradients, noised, sought), mask, step.rates)
                if losses is None:
                    losses = row[0].new_empty(steps_in(len(job.samples), job.plan), len(row))
                losses[step.number] = torch.stack(row)
        if job.keep_optimizer:
            self.remember(job, optimizers.memory())
        if losses is None:
            return Fitted(steps=0)
        return Fitted(len(losses), epoch_means(losses.cpu(), epochs))

    def read(self, job: Job, device: torch.device) -> Any:
        """What a reading computes of each batch, in evaluation mode, put together on the CPU."""
        reading, view = job.reading, ModelView(self.model.to(device).eval())
        batches = []
        with torch.no_grad():
            size = rows_at_once(job.samples)
            for start in range(0, len(job.samples), size):
                x = self.inputs(job, moved(job.samples.at(slice(start, start + size)), device))
                batches.append(tree_map(_fetched, reading.compute(view, x)))
        return reading.collect(batches)

    def inputs(self, job: Job, x: Any) -> Any:
        """A batch of samples as a reading's ``compute`` sees it."""
        if job.reading.of_features:
            return x
        job.plan.check_prediction(job.samples, job.owner)
        return job.plan.inputs(x, self.dtype)

    def check_keepable(self, samples: Samples, owner: str) -> None:
        """Weights are tensors, and tensors can always be kept."""

    def state(self) -> dict[str, Any]:
        frozen, entries = self.frozen(), self.held.state.items()  # what is frozen is never written to
        with torch.no_grad():
            weights = {n: e.detach() if n in frozen else e.to("cpu", copy=True) for n, e in entries}
        return {"weights": weights, **self.memory()}

    def restore(self, state: dict[str, Any]) -> None:
        self.load(state["weights"])
        self.take_memory(state)

    def memory(self) -> dict[str, Any]:
        """What its optimizers remember, and of which kind each of them is."""
        kinds = self._optimizer_kinds
        alike = len(set(kinds.values())) <= 1
        return {"optimizer": self.optimizer_state, "kind": next(iter(kinds.values()), "") if alike else kinds}

    def take_memory(self, memory: Mapping[str, Any]) -> None:
        """Takes up what ``memory`` returned."""
        self.optimizer_state, kind = memory["optimizer"], memory["kind"]
        self._optimizer_kinds = dict(kind) if isinstance(kind, Mapping) else dict.fromkeys(self.optimizer_state, kind)
        self.remembered_times += 1

    def remembered(self, job: Job) -> OptimizerState:
        """What the optimizers of a training should know from earlier ones; nothing, if they start anew."""
        return self.recall(job.plan_of) if job.keep_optimizer and self.optimizer_state else {}

    def remember(self, job: Job, state: OptimizerState) -> None:
        """Keeps what the optimizers of a training know for the next one with optimizers of the same kind."""
        self.keep(job.plan_of, state)

    def recall(self, plan_of: Callable[[str], Plan | None]) -> OptimizerState:
        """What is remembered of those parameters that are trained by an optimizer of the kind that they were."""
        kinds = {name: _kind(plan) for name in self.optimizer_state if (plan := plan_of(name)) is not None}
        return {name: self.optimizer_state[name] for name, kind in kinds.items() if self._optimizer_kinds[name] == kind}

    def keep(self, plan_of: Callable[[str], Plan | None], state: OptimizerState) -> None:
        """Remembers what is new; of parameters that were not trained, what there was."""
        old = {name: memory for name, memory in self.optimizer_state.items() if plan_of(name) is None}
        kinds = {name: _kind(plan) for name in state if (plan := plan_of(name)) is not None}
        self._optimizer_kinds = {name: self._optimizer_kinds[name] for name in old} | kinds
        self.optimizer_state = {**old, **state}
        self.remembered_times += 1


def _fetched(tensor: Tensor) -> Tensor:
    """An answer on the CPU; detached, since what is a view of a parameter still asks for gradients."""
    return tensor.detach().cpu()


def _replace(frozen: nn.Parameter, entry: Tensor) -> None:
    """Gives a frozen parameter another value: in memory of its own, since several networks may hold one in common."""
    value = entry.to(frozen.device, frozen.dtype)
    if not torch.equal(frozen, value):
        frozen.data = value.clone()


def _kind(plan: Plan) -> str:
    """Which optimizer it is. What has no name to be known by in a later process is known by its address in this one."""
    return stable_name(plan.optimizer) or str(plan.optimizer)


def _gradients(
    objective: Any, view: Any, sought: Mapping[str, Tensor], batch: Batch, context: Context
) -> tuple[Gradients, Tensor]:
    """An objective's gradients for these parameters, and its loss."""
    loss = objective(view, batch, context)
    found = torch.autograd.grad(loss, list(sought.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(sought, found, strict=True)), loss.detach()


def set_mode(module: nn.Module, freeze_norm_stats: bool) -> None:
    """Training mode, but for normalisation layers that are to keep their statistics."""
    module.train()
    if freeze_norm_stats:
        for layer in module.modules():
            if isinstance(layer, NORMS):
                layer.eval()


def skeleton(frozen_model: FrozenModel, own: nn.Module) -> nn.Module:
    """The skeleton a frozen_model's weights are put into: evaluation mode, nothing to train."""
    if frozen_model.module is None and isinstance(own, SeveralModules):
        own = own.get_submodule(OWN)
    module = copy.deepcopy(frozen_model.module or own).requires_grad_(False)
    if missing := sorted(set(module.state_dict()) - set(frozen_model.weights)):
        raise ModelError(f"A frozen model needs every weight and buffer of its model; {missing[0]!r} is missing.")
    return module.eval()


def on_device(context: Any, own: nn.Module, device: torch.device) -> Any:
    """A context moved to the device, its frozen models ready to be called."""

    def move(leaf: Any) -> Any:
        if isinstance(leaf, FrozenModel):
            weights = {name: entry.to(device) for name, entry in leaf.weights.items()}
            return ModelView(skeleton(leaf, own), weights)
        return leaf.to(device) if isinstance(leaf, Tensor) else leaf

    return tree_map(move, dict(context))


class Optimizers:
    """Steps of a network's parameters, each by its plan.

    Args:
        job: the training.
        parameters: the network's trainable parameters by name.
        remembered: what optimizers know of earlier trainings.
    """

    def __init__(self, job: Job, parameters: Mapping[str, nn.Parameter], remembered: OptimizerState) -> None:
        self._parameters = parameters
        self._plans, self._names = job.plans, job.by_plan(parameters)
        self._each = [
            make_optimizer(plan, [parameters[name] for name in names]) if names else None
            for plan, names in zip(self._plans, self._names, strict=True)
        ]
        for optimizer, names in zip(self._each, self._names, strict=True):
            for name in names:
                if optimizer is not None and name in remembered:
                    optimizer.state[parameters[name]] = _taken_up(remembered[name], parameters[name])

    def step(self, gradients: Gradients, mask: Mapping[str, Tensor], rates: Sequence[float]) -> None:
        """One step of those parameters that have gradients, at the rate of each plan. What is masked stays."""
        before = {name: self._parameters[name].detach().clone() for name in mask if name in gradients}
        for name, gradient in gradients.items():
            self._parameters[name].grad = gradient * mask[name] if name in mask else gradient
        for plan, names, optimizer, rate in zip(self._plans, self._names, self._each, rates, strict=True):
            if optimizer is None or gradients.keys().isdisjoint(names):
                continue
            if plan.max_grad_norm is not None:
                nn.utils.clip_grad_norm_([self._parameters[name] for name in names], plan.max_grad_norm)
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
        with torch.no_grad():  # weight decay and momentum move parameters without a gradient, too
            for name, old in before.items():
                parameter = self._parameters[name]
                parameter.copy_(torch.where(mask[name].bool(), parameter, old))

    def memory(self) -> OptimizerState:
        """What they know, for the next training."""
        found: OptimizerState = {}
        for optimizer, names in zip(self._each, self._names, strict=True):
            for name in names:
                if optimizer is not None and optimizer.state[self._parameters[name]]:
                    found[name] = dict(optimizer.state[self._parameters[name]])
        return found


def _taken_up(memory: Mapping[str, object], parameter: nn.Parameter) -> dict[str, object]:
    """What was kept of a parameter, where the parameter is. Torch wants step counts, single numbers, on the CPU."""
    return {
        key: value.to(parameter.device) if isinstance(value, Tensor) and value.ndim else value
        for key, value in copy.deepcopy(dict(memory)).items()
    }


def make_optimizer(plan: Plan, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """The torch optimizer a plan asks for."""
    if plan.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=plan.lr, momentum=plan.momentum, weight_decay=plan.weight_decay)
    if plan.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=plan.lr, weight_decay=plan.weight_decay)
    if plan.optimizer == "adamw":
        return torch.optim.AdamW(parameters, lr=plan.lr, weight_decay=plan.weight_decay)
    more = {name: value for name in ("momentum", "weight_decay") if (value := getattr(plan, name))}
    made = plan.optimizer(parameters, lr=plan.lr, **more)
    if not isinstance(made, torch.optim.Optimizer):
        raise ModelError(f"The plan's optimizer made a {type(made).__name__}; expected a torch optimizer.")
    if signature(made.step).parameters["closure"].default is Parameter.empty:
        raise ModelError(f"{type(made).__name__} asks for the loss again within a step, which no plan's optimizer can.")
    return made
