"""A plan: how one participant trains. Each has its own, and it is not sent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import torch
from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, PrivateAttr, model_validator
from torch.utils._pytree import tree_leaves

from potluck.core.augmentation import Augmenter, Halves
from potluck.core.errors import SettingsError
from potluck.core.input_changes import TRIED, InputChanges, TransformKind, UnruledError, kind_of
from potluck.core.inputs import as_model_reads
from potluck.core.registry import import_object
from potluck.core.settings import Settings

if TYPE_CHECKING:
    from potluck.core.samples import Samples


def _named(value: Any) -> Any:
    return import_object(value) if isinstance(value, str) else value


def _name(function: Any) -> Any:
    named = hasattr(function, "__module__") and hasattr(function, "__qualname__")
    return f"{function.__module__}:{function.__qualname__}" if named else function


def _augmentation(value: Any) -> Any:
    """What is named; of a class of augmentations, one as it is by default; of several, one after the other."""
    if isinstance(value, list | tuple):
        return Augmenter([_augmentation(one) for one in value])
    found = _named(value)
    return found() if isinstance(found, type) and issubclass(found, Halves) else found


Imported = Annotated[Callable[..., Any], BeforeValidator(_named), PlainSerializer(_name, when_used="json")]
"""A callable named as ``"package.module:name"``."""

Augment = Annotated[
    Callable[..., Any] | Halves, BeforeValidator(_augmentation), PlainSerializer(_name, when_used="json")
]
"""An augmentation, or its name as ``"package.module:name"``."""

Schedule = Callable[[float, int], float]
"""(progress through this training from 0 to 1, round) → what the learning rate is multiplied by."""

SCHEDULES: dict[str, Schedule] = {
    "constant": lambda progress, round: 1.0,
    "linear": lambda progress, round: 1.0 - progress,
    "cosine": lambda progress, round: 0.5 * (1.0 + math.cos(math.pi * progress)),
}


ClassWeight = Literal["balanced"] | dict[str | int, Annotated[float, Field(ge=0)]] | None
"""How much labels count."""


class Plan(Settings):
    """How a participant trains a network. An estimator ignores all of it but ``class_weight``.

    Args:
        optimizer: "sgd", "adam" (the default) or "adamw"; or what makes a torch optimizer from parameters and ``lr``
            (and ``momentum`` and ``weight_decay`` where set), such as ``torch.optim.RMSprop``, or its name as
            ``"package.module:name"``.
        lr: the learning rate; by default 0.001.
        momentum: for "sgd", and other optimizers that take it; by default 0.
        weight_decay: by default 0.
        epochs: passes over the samples in each training; by default 1. With 0 nothing is trained.
        batch_size: samples at each step; by default 32. A last batch of a single sample is added to the batch before
            it, since BatchNorm cannot train on one sample.
        accumulate: how many batches a step looks at, one after the other, where all of them at once would take too much
            memory: their gradients are put together, as of one batch so many times as large. By default 1.
        schedule: what ``lr`` is multiplied by: "constant" (the default), "linear", "cosine", or a function of the
            progress through a training, from 0 to 1, and the round.
        max_grad_norm: the largest norm of the gradient; by default None, for no bound.
        transform: turns a batch of inputs (a tensor, or a dict or tuple of several) into what the model reads, in
            training and prediction, in the place of ``scale``; by default None. One that draws random numbers is
            seeded in training, and refused where something is predicted.
        augment: changes a batch of inputs, in training only: what has ``draw`` and ``apply``, such as
            ``potluck.data.Crop()``, or is called with the batch and a generator to draw from, or with one sample, as
            torchvision's transforms; or a list of these. By default nothing.
        scale: which bytes (uint8) are divided by 255: "pictures" (the default), where a sample has two or more axes;
            "bytes", wherever they are; "never". No other integers are scaled or cast.
        class_weight: how much each label of the participant's own training data counts: "balanced", for all the same,
            or a dict of labels and weights, where others count 1; by default None, for each sample the same. It is in
            the samples' weights, which plain training and estimators with sample weights heed.
    """

    model_config = ConfigDict(title="a plan")
    RENAMED: ClassVar[dict[str, str]] = {"clip": "max_grad_norm"}

    optimizer: Literal["sgd", "adam", "adamw"] | Callable[..., torch.optim.Optimizer] | Imported = "adam"
    lr: float = Field(1e-3, gt=0)
    momentum: float = Field(0.0, ge=0, lt=1)
    weight_decay: float = Field(0.0, ge=0)
    epochs: int = Field(1, ge=0)
    batch_size: int = Field(32, ge=1)
    accumulate: int = Field(1, ge=1)
    schedule: Literal["constant", "linear", "cosine"] | Schedule | Imported = "constant"
    max_grad_norm: float | None = Field(None, gt=0)
    transform: Callable[[Any], Any] | Imported | None = None
    augment: Augment | None = None
    scale: Literal["pictures", "bytes", "never"] = "pictures"
    class_weight: ClassWeight = None
    _changes: InputChanges | None = PrivateAttr(None)

    def __eq__(self, other: object) -> bool:
        """Plans are equal by their settings, whatever was found out about their transforms."""
        return type(other) is type(self) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))

    @model_validator(mode="after")
    def _nothing_is_ignored(self) -> Plan:
        if self.momentum and self.optimizer in ("adam", "adamw"):
            raise ValueError(f"momentum = {self.momentum!r} with {self.optimizer!r}, which has its own; leave it out")
        if isinstance(self.class_weight, dict) and not any(self.class_weight.values()):
            raise ValueError(f"class_weight = {self.class_weight!r}; expected some weights above 0")
        return self

    def replace(self, **changes: Any) -> Plan:
        """This plan with some settings changed; those that are None stay as they are."""
        settings = {name: getattr(self, name) for name in type(self).model_fields}
        changed = Plan(**(settings | {name: value for name, value in changes.items() if value is not None}))
        changed._changes = self._changes
        return changed

    def rate(self, progress: float, round: int) -> float:
        """The learning rate at one point of a training."""
        schedule = SCHEDULES[self.schedule] if isinstance(self.schedule, str) else self.schedule
        return self.lr * float(schedule(progress, round))

    def inputs(self, x: Any, dtype: torch.dtype) -> Any:
        """A batch of stored inputs as the model reads it: transformed, or as ``as_model_reads`` says."""
        if self.transform is not None and tree_leaves(x):
            return as_model_reads(self.transform(x), dtype, "never")
        return as_model_reads(x, dtype, self.scale)

    @property
    def changes(self) -> InputChanges:
        """What ``transform`` and ``augment`` are, as far as it was found out."""
        known = self._changes
        if known is None or known.transform is not self.transform or known.augment is not self.augment:
            self._changes = known = InputChanges(self.transform, self.augment)
        return known

    def look_again(self) -> bool:
        """Has ``transform`` and ``augment`` looked at anew, if they are made of something else by now; says so."""
        changed = self._changes is not None and self._changes.outdated
        if changed:
            self._changes = None
        return changed

    def kind_of_transform(self, samples: Samples) -> TransformKind:
        """Where ``transform`` can run, found out once, on some of these samples."""
        if self.transform is None or not samples.kinds:
            return TransformKind.EACH
        if self.changes.kind is None:
            rows = torch.linspace(0, len(samples) - 1, min(TRIED, len(samples))).long()
            try:
                self.changes.kind = kind_of(lambda x: self.inputs(x, torch.float64), samples.at(rows))
            except UnruledError as error:
                raise SettingsError(f"The plan's transform {_name(self.transform)} {error}") from None
        return self.changes.kind

    def draws(self, samples: Samples) -> bool:
        """Whether ``transform`` draws random numbers."""
        return self.kind_of_transform(samples) is TransformKind.DRAWS

    def with_inputs_ready(self) -> Plan:
        """This plan for inputs that are as the model reads them already."""
        return self.model_copy(update={"transform": None, "scale": "never"})

    def check_prediction(self, samples: Samples, owner: str) -> None:
        """Raises SettingsError where a prediction would change from one time to the next."""
        if self.draws(samples):
            raise SettingsError(
                f"{owner}: the plan's transform {_name(self.transform)} draws random numbers, so a prediction would "
                f"differ from one time to the next. Do what is random in `augment`, which is for training alone and is "
                f"given a generator to draw from; leave in `transform` what is the same each time."
            )


def as_plan(given: Plan | Mapping[str, Any] | None, owner: str) -> Plan:
    """A plan, or one of the settings in a dict; the default one for None."""
    if isinstance(given, Plan):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise SettingsError(f"{owner}: plan is {given!r}; expected a Plan, e.g. Plan(lr=0.01), or a dict of settings.")
    return Plan(**(given or {}))
