"""What a method may ask for: work on a model (Fit, Predict, Tap), and an exchange with the server.

A participant's side of a method is a generator that yields these instead of doing the work itself, so that an engine
can carry out what many participants ask for at once. A class says all about its kind of request: whether it changes
the model, which requests may be stacked, what a network, an estimator and a dry run answer. An engine asks one thing
only: does it write?
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from potluck.core.architecture import spec, token
from potluck.core.errors import ModelError
from potluck.core.learner import Learner
from potluck.core.model_view import FrozenModel, ModelView
from potluck.core.objectives import CombineGradients, Objective, cross_entropy
from potluck.core.payload import Payload
from potluck.core.plan import Plan
from potluck.core.samples import Samples

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
    learner: Learner | None

    def addressed(self, party: Party, seed: int, keep_optimizer: bool) -> Job:
        return Job(
            owner=party.name,
            work=self,
            learner=party.learner_for(self.learner),
            samples=party.samples_for(self.on),
            plan=party.plan_for(self.plan),
            seed=seed,
            round=party.round,
            keep_optimizer=keep_optimizer and self.writes,
        )

    @abstractmethod
    def stack_key(self, job: Job) -> Hashable:
        """What must be equal for jobs to be stacked, beside kind, architecture and the plan's transform."""

    @abstractmethod
    def answer(self, job: Job, device: torch.device) -> Any:
        """Has the job's learner do the work, unstacked: the reference."""

    def dry_answer(self, job: Job, device: torch.device) -> Any:
        """What a dry run answers, which trains nothing."""
        return self.answer(job, device)


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


@dataclass(frozen=True, eq=False)
class Fit(Work):
    """Train. Answered with a ``Fitted``.

    Args:
        objective: the loss to minimise, or several; by default cross-entropy to the labels.
        on: the samples; by default one's own data.
        context: what the objective reads besides the batch: tensors, plain values, ``FrozenModel``s of this
            participant; by default nothing.
        plan: how to train; by default one's own plan.
        combine_gradients: combines the objectives' gradients (one dict for each, and the context) into those that the
            optimizer gets; by default they are added up.
        mask: parameter name → where it may change (boolean, of its shape or one that broadcasts to it); by default
            everywhere.
        noise: name → shape; standard normal numbers of that shape for each sample, drawn anew at each step, which the
            objective finds in the batch under that name; by default none.
        freeze_norm_stats: whether normalisation layers use their running statistics and leave them as they are; by
            default False.
        learner: the model; by default one's own. The server's half names one of the server's.
    """

    phase: ClassVar[str] = "train"
    writes: ClassVar[bool] = True

    objective: Objective | Sequence[Objective] = cross_entropy
    on: Samples | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    plan: Plan | None = None
    combine_gradients: CombineGradients | None = None
    mask: Mapping[str, Tensor] = field(default_factory=dict)
    noise: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    freeze_norm_stats: bool = False
    learner: Learner | None = None

    @property
    def objectives(self) -> tuple[Objective, ...]:
        return (self.objective,) if callable(self.objective) else tuple(self.objective)

    @property
    def plain(self) -> bool:
        """Whether it is plain training on labels, the only kind that an estimator can do."""
        return self.objectives == (cross_entropy,) and not self.mask and self.combine_gradients is None

    def stack_key(self, job: Job) -> Hashable:
        """In a stack learning rates may differ, and how samples are divided into steps."""
        free = ("lr", "schedule", "epochs", "batch_size")
        return (
            self.objectives,
            self.combine_gradients,
            self.freeze_norm_stats,
            tuple((name, getattr(job.plan, name)) for name in Plan.model_fields if name not in free),
            _columns(job.samples),
            _tree(self.context),
            _tree(self.mask),
            tuple(self.noise.items()),
            job.keep_optimizer,
        )

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
        learner: the model; by default one's own. The server's half names one of the server's.
    """

    phase: ClassVar[str] = "predict"
    writes: ClassVar[bool] = False

    on: Samples
    plan: Plan | None = field(default=None, kw_only=True)
    learner: Learner | None = field(default=None, kw_only=True)

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

    def of_estimator(self, job: Job, predict: Callable[[Samples], Tensor]) -> Any:
        """What an estimator answers. ``predict`` gives its probabilities for samples."""
        raise ModelError(f"{job.owner}: {type(job.learner.model).__name__} has no layers to look into.")

    def stack_key(self, job: Job) -> Hashable:
        common = ("on", "plan", "learner")
        own = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in common}
        return _tree(own), len(job.samples), _columns(job.samples.inputs())

    def answer(self, job: Job, device: torch.device) -> Any:
        return job.learner.read(job, device)


@dataclass(frozen=True, eq=False)
class Predict(Reading):
    """Predict each sample's label. Answered with probabilities (samples × labels), or logits.

    Args:
        on: the samples.
        logits: whether logits are returned instead of probabilities; by default False.
        plan: as in ``Reading``.
        learner: as in ``Reading``.
    """

    logits: bool = False

    def compute(self, model: ModelView, x: Any) -> Tensor:
        return model(x)

    def collect(self, batches: Sequence[Tensor]) -> Tensor:
        logits = torch.cat(list(batches))
        return logits if self.logits else logits.softmax(dim=-1)

    def of_estimator(self, job: Job, predict: Callable[[Samples], Tensor]) -> Tensor:
        if self.logits:
            raise ModelError(f"{job.owner}: {type(job.learner.model).__name__} has no logits.")
        return predict(job.samples)


@dataclass(frozen=True, eq=False)
class Tap(Reading):
    """Run samples through the network in evaluation mode. Answered with the outputs of named layers.

    Args:
        on: the samples.
        at: the names of the layers; the empty name is the whole network.
        submodules: run only these, one after the other, on inner features instead of inputs; by default the whole
            network.
        plan: as in ``Reading``.
        learner: as in ``Reading``.
    """

    phase: ClassVar[str] = "tap"

    at: Sequence[str]
    submodules: Sequence[str] = ()

    def compute(self, model: ModelView, x: Any) -> dict[str, Tensor]:
        return model.taps(x, self.at, self.submodules)[1]

    @property
    def of_features(self) -> bool:
        return bool(self.submodules)


@dataclass(frozen=True, eq=False)
class Job:
    """Work with everything filled in.

    Args:
        owner: the name of the party that asked for it.
        work: what is to be done.
        learner: the model.
        samples: the samples.
        plan: the plan.
        seed: what random numbers derive from.
        round: the round.
        keep_optimizer: whether the optimizer's state lasts until the next training; by default False.
    """

    owner: str
    work: Work
    learner: Learner
    samples: Samples
    plan: Plan
    seed: int
    round: int
    keep_optimizer: bool = False

    @property
    def fit(self) -> Fit:
        """The work of a job that trains."""
        assert isinstance(self.work, Fit)
        return self.work

    @property
    def reading(self) -> Reading:
        """The work of a job that reads."""
        assert isinstance(self.work, Reading)
        return self.work

    def answer(self, device: torch.device) -> Any:
        """Has the learner do the work, unstacked: the reference."""
        return self.work.answer(self, device)


_PLAIN = (str, int, float, bool, bytes, type(None))


def _columns(samples: Samples) -> Hashable:
    held = samples.columns.items()
    columns = sorted((name, tuple(column.shape[1:]), str(column.dtype)) for name, column in held)
    return tuple(columns), None if samples.source is None else samples.source.types()


def _tree(context: Mapping[str, Any]) -> Hashable:
    leaves, structure = tree_flatten(dict(context))
    return str(structure), tuple(_leaf(leaf) for leaf in leaves)


def _leaf(leaf: Any) -> Hashable:
    if isinstance(leaf, _PLAIN):
        return leaf
    if isinstance(leaf, Tensor):
        return tuple(leaf.shape), leaf.dtype
    if isinstance(leaf, FrozenModel):
        return leaf.architecture, tuple(sorted((name, str(spec(entry))) for name, entry in leaf.weights.items()))
    return token(leaf)
