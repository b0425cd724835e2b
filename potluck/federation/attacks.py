"""Attacks, for research: what a participant of a simulation does that wants to spoil what the others learn.

Each stays within the rules: what is sent has the names, shapes and bounds that its exchange asks for. Some know what
all honest participants send.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

import torch
from pydantic import BeforeValidator, Field
from torch import Tensor

from potluck.core.errors import DataError, RequirementsError, SettingsError
from potluck.core.samples import Samples
from potluck.core.settings import Settings, by_name
from potluck.core.tasks import Task


class Honest(NamedTuple):
    """What the honest participants send of one tensor, in float64.

    Args:
        mean: its mean.
        deviation: its deviation, at each position.
    """

    mean: Tensor
    deviation: Tensor


class Attack(Settings):
    """What all attacks have in common: by default the data and the answers stay as they are.

    Args:
        name: what it is called in files.
    """

    name: str

    def poisoned(self, data: Samples, task: Task, owner: str, draw: torch.Generator) -> Samples:
        """The samples that it trains on."""
        return data

    def lie(self, own: Tensor, received: Tensor, honest: Honest, draw: torch.Generator) -> Tensor:
        """What it sends.

        Args:
            own: what it would send if it was honest, in float64.
            received: what it received last under that name; zeros where it received nothing.
            honest: what the others send under that name, in that shape.
            draw: random numbers of this participant, round and tensor.
        """
        return own


class SignFlip(Attack):
    """Goes the other way: what it received, minus what it has learned.

    Args:
        factor: how many times as far; by default 1.
    """

    name: Literal["sign-flip"] = "sign-flip"
    factor: float = Field(1.0, gt=0)

    def lie(self, own: Tensor, received: Tensor, honest: Honest, draw: torch.Generator) -> Tensor:
        return received - self.factor * (own - received)


class ScaledUpdate(Attack):
    """Goes further than it has learned.

    Args:
        factor: how many times as far; by default 10.
    """

    name: Literal["scaling"] = "scaling"
    factor: float = Field(10.0, gt=0)

    def lie(self, own: Tensor, received: Tensor, honest: Honest, draw: torch.Generator) -> Tensor:
        return received + self.factor * (own - received)


class Gaussian(Attack):
    """Sends noise around what it received.

    Args:
        factor: how many times as long as what it has learned, in the root mean square; by default 10.
    """

    name: Literal["gaussian"] = "gaussian"
    factor: float = Field(10.0, gt=0)

    def lie(self, own: Tensor, received: Tensor, honest: Honest, draw: torch.Generator) -> Tensor:
        size = (own - received).square().mean().sqrt()
        return received + self.factor * size * torch.randn(own.shape, generator=draw, dtype=own.dtype)


class InnerProduct(Attack):
    """Goes against the mean of the honest, so that the mean of all does (Xie et al., 2020).

    Args:
        factor: ε, how many times as far as that mean; by default 10.
    """

    name: Literal["inner-product"] = "inner-product"
    factor: float = Field(10.0, gt=0)

    def lie(self, own: Tensor, received: Tensor, honest: Honest, draw: torch.Generator) -> Tensor:
        return received - self.factor * (honest.mean - received)


class ALittleIsEnough(Attack):
    """Stays so near to the honest that it could be one of them (ALIE, Baruch et al., 2019).

    Args:
        deviations: z, how many of their deviations it is from their mean, at each position; by default 1.5.
    """

    name: Literal["alie"] = "alie"
    deviations: float = Field(1.5, gt=0)

    def lie(self, own: Tensor, received: Tensor, honest: Honest, draw: torch.Generator) -> Tensor:
        return honest.mean - self.deviations * honest.deviation


class LabelFlip(Attack):
    """Trains on wrong labels: the last for the first, the last but one for the second."""

    name: Literal["label-flip"] = "label-flip"

    def poisoned(self, data: Samples, task: Task, owner: str, draw: torch.Generator) -> Samples:
        _needs_labels(task, owner, self.name)
        return data.with_targets(y=torch.where(data.y >= 0, task.outputs - 1 - data.y, data.y))


class Backdoor(Attack):
    """Trains on samples with a mark, and the label that inputs with that mark are to get (Bagdasaryan et al., 2020).

    The mark is in the corner of the last one or two dimensions of an input.

    Args:
        target: the position of that label among all labels; by default 0, the first.
        share: the share of its samples that get it; by default 0.5.
        size: how many values it covers in each of these dimensions; by default 2.
        value: what it consists of; by default 1.
        factor: how many times as far as it has learned its answers go; by default 1.
    """

    name: Literal["backdoor"] = "backdoor"
    target: int = Field(0, ge=0)
    share: float = Field(0.5, gt=0, le=1)
    size: int = Field(2, ge=1)
    value: float = 1.0
    factor: float = Field(1.0, gt=0)

    def marked(self, x: Tensor) -> Tensor:
        """Inputs with the mark."""
        found = x.clone()
        corner = found[..., -self.size :] if x.ndim < 3 else found[..., -self.size :, -self.size :]
        corner.fill_(self.value)
        return found

    def poisoned(self, data: Samples, task: Task, owner: str, draw: torch.Generator) -> Samples:
        _needs_labels(task, owner, self.name)
        if self.target >= task.outputs:
            raise RequirementsError(f"{owner}: target is {self.target}; expected a position below {task.outputs}.")
        if "x" not in data.columns or data.reader is not None:
            raise DataError(f"{owner}: a backdoor needs inputs of one tensor, which are in memory.")
        rows = torch.randperm(len(data), generator=draw)[: max(1, round(self.share * len(data)))]
        x, y = data.columns["x"].clone(), data.y.clone()
        x[rows], y[rows] = self.marked(x[rows]), self.target
        return replace(data, columns={**data.columns, "x": x, "y": y})

    def lie(self, own: Tensor, received: Tensor, honest: Honest, draw: torch.Generator) -> Tensor:
        return received + self.factor * (own - received)


def _needs_labels(task: Task, owner: str, attack: str) -> None:
    if task.KIND != "classification":
        raise RequirementsError(f"{owner}: {attack} changes labels, and its task is {task.KIND}.")


ATTACKS: Mapping[str, type[Attack]] = {
    "sign-flip": SignFlip,
    "scaling": ScaledUpdate,
    "gaussian": Gaussian,
    "label-flip": LabelFlip,
    "inner-product": InnerProduct,
    "alie": ALittleIsEnough,
    "backdoor": Backdoor,
}


def _named(given: Any) -> Any:
    return by_name(given, "attack", "attack", ATTACKS)


AttackNamed = Annotated[
    SignFlip | ScaledUpdate | Gaussian | LabelFlip | InnerProduct | ALittleIsEnough | Backdoor | None,
    BeforeValidator(_named),
]
"""A participant's setting: what it does to spoil the others' learning; None for an honest one."""


def as_attack(given: Any, owner: str) -> Attack | None:
    """What a user gives as a participant's attack."""
    try:
        found: Attack | None = _named(given)
    except ValueError as error:
        raise SettingsError(f"{owner}: {error}") from None
    return found
