"""What a method may ask for: work on a model (Fit, Predict, Tap), and an exchange with the server.

A participant's side of a method is a generator that yields these instead of doing the work itself, so that an engine
can carry out what many participants ask for at once. A class says all about its kind of request: whether it changes
the model, which requests may be stacked, what a network, an estimator and a dry run answer. An engine asks one thing
only: does it write?
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from potluck.core.classification import Classification
from potluck.core.errors import ModelError, SettingsError, nearest
from potluck.core.groups import Group, Update, names_of
from potluck.core.job import Job, columns_of, steps_of, values_of
from potluck.core.model_spec import ModelSpec
from potluck.core.model_view import ModelView
from potluck.core.objectives import (
    PLAIN,
    TASK,
    AnyObjective,
    CombineGradients,
    Context,
    Gradients,
    cross_entropy,
    task_loss,
)
from potluck.core.payload import Payload
from potluck.core.plan import Plan
from potluck.core.samples import Samples
from potluck.core.tasks import Task

if TYPE_CHECKING:
    from potluck.core.party import Party


class Request(ABC):
    """Anything that a party may yield."""

    @abstractmethod
    def addressed(self, party: Party, seed: int, keep_optimizer: bool) -> Job | Exchange:
        """The request with what it leaves open filled in from the party that yields it."""


@dataclass(frozen=True, eq=False)
class Exchange(Request):
    """Send a payload to the server's function of that name. Answered with the server's reply, a Payload.

    Args:
        name: the exchange.
        payload: what is sent.
    """

    name: str
    payload: Payload

    def addressed(self, party: Party, seed: int, keep_optimizer: bool) -> Exchange:
        return self


class Work(Request):
    """What an engine carries out on one learner."""

    phase: ClassVar[str]
    """The phase of a profile that it counts as."""
    writes: ClassVar[bool]
    """Whether it changes the model. Then it cannot be tried again after a failure."""
    on: Samples | None
    plan: Plan | None
    model: str | None

    def addressed(self, party: Party, seed: int, keep_optimizer: bool) -> Job:
        spec = None if self.model is None else party.spec_of(self.model)
        return Job(
            owner=party.name,
            work=self,
            learner=party.learner_for(self.model),
            samples=party.samples_for(self.on),
            plan=party.plan_for(self.plan or (spec.plan if spec else None)),
            seed=seed,
            round=party.round,
            keep_optimizer=self.writes and _keeps(spec, keep_optimizer),
        )

    @abstractmethod
    def stack_key(self, job: Job) -> Hashable:
        """What must be equal for jobs to be stacked, beside kind, architecture and what is done to inputs."""

    @abstractmethod
    def answer(self, job: Job, device: torch.device) -> Any:
        """Has the job's learner do the work, unstacked: the reference."""

    def dry_answer(self, job: Job, device: torch.device) -> Any:
        """What a dry run answers, which trains nothing."""
        return self.answer(job, device)

    def gradients_held(self, job: Job) -> int:
        """How many gradients of each parameter it holds at once, for those who must find room for them."""
        return 1


def _keeps(spec: ModelSpec | None, otherwise: bool) -> bool:
    """Whether a model's optimizer remembers across trainings."""
    return otherwise if spec is None or spec.keep_optimizer is None else spec.keep_optimizer


@dataclass(frozen=True)
class Fitted:
    """What a training did.

    Args:
        steps: how many optimizer steps.
        losses: each epoch's mean loss for each objective.
        weighted: False where samples have weights and the estimator cannot use them.
    """

    steps: int
    losses: tuple[tuple[float, ...], ...] = ()
    weighted: bool = True


class ChosenStep(NamedTuple):
    """One optimizer step at a batch: what it minimises, and the names of what changes; None for everything.

    Args:
        objectives: what it minimises.
        only: the names of what changes; None for everything.
    """

    objectives: tuple[Any, ...]
    only: tuple[str, ...] | None


def _chosen_step(given: Any, only: tuple[str, ...] | None) -> ChosenStep:
    update = given if isinstance(given, Update) else Update(given)
    objectives = (update.objective,) if callable(update.objective) else tuple(update.objective)
    return ChosenStep(objectives, only if update.only is None else names_of(update.only))


@dataclass(frozen=True, eq=False)
class Fit(Work):
    """Train. Answered with a ``Fitted``.

    Args:
        objective: the loss to minimise, or several; by default the loss of the party's task (``task_loss``).
        on: the samples; by default one's own data.
        context: what the objective reads besides the batch: tensors, plain values, ``FrozenModel`` objects
            of this participant; by default nothing. The party's task is added under "task".
        plan: how to train; by default one's own plan.
        combine_gradients: combines the objectives' gradients (one dict for each, and the context) into those that the
            optimizer gets; by default they are added up.
        per_sample: whether ``combine_gradients`` gets the gradients of each sample, along a first dimension, as a
            differentially private training needs them; by default False.
        gradient_noise: whether ``combine_gradients`` finds standard normal numbers of each trainable parameter's shape,
            drawn anew at each step, as ``context["gradient_noise"]``; by default False.
        mask: parameter name → where it may change (boolean, of its shape or one that broadcasts to it); by default
            everywhere.
        noise: name → shape; standard normal numbers of that shape for each sample, drawn anew at each step, which the
            objective finds in the batch under that name; by default none.
        freeze_norm_stats: whether normalisation layers use their running statistics and leave them as they are; by
            default False.
        model: the name of the model; by default "own", the participant's. The server's half names one of the server's.
        models: the names of several models to train together, instead of one: their objective gets a mapping from name
            to model. By default none.
        only: the names of the parameters, or layers, or models that change, such as ``me.head``; by default all.
        groups: parameters with plans of their own; by default none. The first group that names a parameter counts.
    """

    phase: ClassVar[str] = "train"
    writes: ClassVar[bool] = True

    objective: AnyObjective | Sequence[AnyObjective] | Sequence[Update] = task_loss
    on: Samples | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    plan: Plan | None = None
    combine_gradients: CombineGradients | None = None
    mask: Mapping[str, Tensor] = field(default_factory=dict)
    noise: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    freeze_norm_stats: bool = False
    model: str | None = None
    models: Sequence[str] = ()
    only: Iterable[str] | None = None
    groups: Sequence[Group] = ()
    per_sample: bool = False
    gradient_noise: bool = False

    def __post_init__(self) -> None:
        if self.per_sample and self.combine_gradients is None:
            raise SettingsError("per_sample=True needs combine_gradients, which makes one gradient of the samples'.")
        if self.gradient_noise and self.combine_gradients is None:
            raise SettingsError("gradient_noise=True needs combine_gradients, which adds it to the gradients.")
        if self.only is not None:
            object.__setattr__(self, "only", names_of(self.only))  # a generator would give its names once
        if not self.objectives:
            raise SettingsError("A Fit has no objective: the list of them is empty.")

    def addressed(self, party: Party, seed: int, keep_optimizer: bool) -> Job:
        if TASK not in self.context:
            own = replace(self, context={**self.context, TASK: party.task.encoded})
            return own.addressed(party, seed, keep_optimizer)
        if not self.models:
            job = super().addressed(party, seed, keep_optimizer)
            return replace(job, groups=tuple(self.groups)) if self.groups else job
        specs = {name: party.spec_of(name) for name in self.models}
        keeps = {name: _keeps(spec, keep_optimizer) for name, spec in specs.items()}
        plans = {name: spec.plan for name, spec in specs.items() if spec is not None}
        return Job(
            owner=party.name,
            work=self,
            learner=party.learners_for(self.models),
            samples=party.samples_for(self.on),
            plan=party.plan_for(self.plan),
            seed=seed,
            round=party.round,
            keep_optimizer=any(keeps.values()),
            groups=(*self.groups, *(Group((name,), plan) for name, plan in plans.items() if plan is not None)),
            fresh=frozenset(name for name, keep in keeps.items() if not keep),
        )

    @property
    def updates(self) -> tuple[ChosenStep, ...]:
        """The optimizer steps at each batch: one, unless several are given."""
        only = None if self.only is None else names_of(self.only)
        given = (self.objective,) if callable(self.objective) else tuple(self.objective)
        if not any(isinstance(one, Update) for one in given):
            return (ChosenStep(given, only),)
        return tuple(_chosen_step(one, only) for one in given)

    @property
    def objectives(self) -> tuple[AnyObjective, ...]:
        """All objectives, step by step."""
        return tuple(objective for step in self.updates for objective in step.objectives)

    def combined(self, gradients: list[Gradients], context: Context, sought: Iterable[str]) -> Gradients:
        """What the optimizer gets of the objectives' gradients, where ``sought`` are to have one, each of its shape."""
        if self.combine_gradients is None:
            first, *others = gradients
            return {n: torch.stack([g[n] for g in gradients]).sum(dim=0) for n in first} if others else first
        found, who = (
            self.combine_gradients(gradients, context),
            getattr(self.combine_gradients, "__name__", "combine_gradients"),
        )
        if not isinstance(found, Mapping):
            raise ModelError(f"{who} returned a {type(found).__name__}; expected a dict of gradients by name.")
        for name in sought:
            if name not in found:
                raise ModelError(f"{who} returned no gradient for {name!r}; expected one for all that is trained.")
            shape = gradients[0][name].shape[1 if self.per_sample else 0 :]
            if found[name].shape != shape:
                more = " Sum or average over the samples." if self.per_sample else ""
                raise ModelError(
                    f"{who} returned a gradient of shape {tuple(found[name].shape)} for {name!r}; expected "
                    f"{tuple(shape)}, as the parameter's.{more}"
                )
        for odd in found.keys() - set(sought):
            raise ModelError(f"{who} returned a gradient for {odd!r}, which is not trained.{nearest(odd, sought)}")
        return found

    @property
    def plain(self) -> bool:
        """Whether it is plain training on labels, the only kind that an estimator can do."""
        special = self.mask or self.combine_gradients or self.only is not None or self.groups
        return self.objectives in ((task_loss,), (cross_entropy,)) and not special

    def stack_key(self, job: Job) -> Hashable:
        """In a stack learning rates may differ, and how samples are divided into steps."""
        return (
            self.updates,
            self.combine_gradients,
            self.per_sample,
            self.gradient_noise,
            self.freeze_norm_stats,
            steps_of(job.plan),
            job.plan.batch_size if job.plan.accumulate > 1 else None,
            tuple((group.names, steps_of(group.plan)) for group in job.groups),
            job.fresh,
            columns_of(job.samples),
            values_of(self.context),
            values_of(self.mask),
            tuple(self.noise.items()),
            job.keep_optimizer,
        )

    def gradients_held(self, job: Job) -> int:
        return min(job.plan.batch_size * job.plan.accumulate, len(job.samples)) if self.per_sample else 1

    def answer(self, job: Job, device: torch.device) -> Fitted:
        return job.learner.fit(job, device)

    def dry_answer(self, job: Job, device: torch.device) -> Fitted:
        """Networks stay as they are; an estimator, which cannot predict unfitted, is fitted on a few samples."""
        if job.learner.answers_untrained:
            return Fitted(steps=0)
        return job.learner.fit(replace(job, samples=job.samples.few_of_each()), device)


@dataclass(frozen=True, eq=False)
class Reading(Work):
    """Asks something of a model and leaves it as it is. A kind of reading is a subclass with ``compute``.

    Args:
        on: the samples to read.
        plan: the plan whose ``transform`` prepares them for the model; by default one's own.
        model: the name of the model; by default "own", the participant's. The server's half names one of the server's.
    """

    phase: ClassVar[str] = "predict"
    writes: ClassVar[bool] = False

    on: Samples
    plan: Plan | None = field(default=None, kw_only=True)
    model: str | None = field(default=None, kw_only=True)

    @abstractmethod
    def compute(self, model: ModelView, x: Any) -> Any:
        """What is read of one batch of inputs: tensors with a row for each sample, perhaps in dicts and lists.

        A pure function in evaluation mode: the serial engine calls it, the batched engine maps it over a stack.
        """

    @property
    def of_features(self) -> bool:
        """Whether the samples are inner features, which are not transformed."""
        return False

    def collect(self, batches: Sequence[Any]) -> Any:
        """The answer, from what was read of each batch."""
        return tree_map(lambda *parts: torch.cat(parts), *batches) if len(batches) > 1 else batches[0]

    def collect_all(self, jobs: Sequence[Job], batches: Sequence[Any]) -> list[Any]:
        """The answers of a stack's networks, from what was read of each batch of all of them (networks × samples)."""
        each: list[list[Any]] = [[] for _ in jobs]
        for batch in batches:
            for place, mine in enumerate(each):
                mine.append(tree_map(lambda whole, place=place: whole[place], batch))
        return [job.reading.collect(mine) for job, mine in zip(jobs, each, strict=True)]

    def of_estimator(self, job: Job, predict: Callable[[Samples], Tensor]) -> Any:
        """What an estimator answers. ``predict`` gives its probabilities for samples."""
        raise ModelError(f"{job.owner}: {type(job.learner.model).__name__} has no layers to look into.")

    def stack_key(self, job: Job) -> Hashable:
        own = {name: getattr(self, name) for name in _own_settings(type(self))}
        return values_of(own), len(job.samples), columns_of(job.samples, inputs_alone=True)

    def answer(self, job: Job, device: torch.device) -> Any:
        return job.learner.read(job, device)


@dataclass(frozen=True, eq=False)
class Predict(Reading):
    """Predict each sample's target. Answered with what the task says: probabilities (samples × labels), or values.

    Args:
        on: the samples.
        logits: whether the network's outputs are returned as they are, such as logits; by default False.
        plan: as in ``Reading``.
        model: as in ``Reading``.
        task: what outputs mean; by default the party's task.
    """

    logits: bool = False
    task: Task | None = field(default=None, kw_only=True)

    def addressed(self, party: Party, seed: int, keep_optimizer: bool) -> Job:
        own = replace(self, task=party.task) if self.task is None else self
        return super(Predict, own).addressed(party, seed, keep_optimizer)

    def compute(self, model: ModelView, x: Any) -> Tensor:
        return model(x)

    def collect(self, batches: Sequence[Tensor]) -> Tensor:
        logits = torch.cat(list(batches)) if len(batches) > 1 else batches[0]
        return logits if self.logits else (self.task or PLAIN).answers(logits)

    def collect_all(self, jobs: Sequence[Job], batches: Sequence[Any]) -> list[Tensor]:
        """Probabilities of all at once: they are of each row by itself, whatever the labels."""
        rules = {type(getattr(job.work, "task", None) or PLAIN).answers for job in jobs}
        if self.logits or type(self) is not Predict or rules != {Classification.answers}:
            return super().collect_all(jobs, batches)
        logits = torch.cat(list(batches), dim=1) if len(batches) > 1 else batches[0]
        return list(PLAIN.answers(logits).unbind())

    def of_estimator(self, job: Job, predict: Callable[[Samples], Tensor]) -> Tensor:
        if self.logits:
            raise ModelError(f"{job.owner}: {type(job.learner.model).__name__} has no logits.")
        return predict(job.samples)


@dataclass(frozen=True, eq=False)
class Tap(Reading):
    """Run samples through the network in evaluation mode. Answered with the outputs of named layers.

    Args:
        on: the samples.
        at: the names of the layers; the empty name is the whole network, ``input_of(name)`` what goes into a layer.
        submodules: run only these, one after the other, on inner features instead of inputs; by default the whole
            network.
        plan: as in ``Reading``.
        model: as in ``Reading``.
    """

    phase: ClassVar[str] = "tap"

    at: Sequence[str]
    submodules: Sequence[str] = ()

    def compute(self, model: ModelView, x: Any) -> dict[str, Tensor]:
        return model.taps(x, self.at, self.submodules)[1]

    @property
    def of_features(self) -> bool:
        return bool(self.submodules)


@cache
def _own_settings(kind: type[Reading]) -> tuple[str, ...]:
    """The settings of a kind of reading, beside those that all have."""
    return tuple(field.name for field in fields(kind) if field.name not in ("on", "plan", "model", "task"))
