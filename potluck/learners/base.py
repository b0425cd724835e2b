"""A learner: what a participant brings. It can fit and predict; a network can do more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from potluck.core.errors import ModelError
from potluck.core.plan import Plan
from potluck.core.samples import Samples

if TYPE_CHECKING:
    from potluck.core.requests import Job


@dataclass(frozen=True)
class Fitted:
    """What a training did: optimizer steps, and each epoch's mean loss for each objective."""

    steps: int
    losses: tuple[tuple[float, ...], ...] = ()
    weighted: bool = True
    """False where sample weights were given to an estimator that cannot use them."""


class Learner(ABC):
    """The least a learner can do. ``shows_layers``: its parameters, inner layers and gradients are open to methods."""

    shows_layers: ClassVar[bool] = False
    model: Any

    @abstractmethod
    def check(self, samples: Samples, classes: int, plan: Plan, owner: str) -> None:
        """Raises ModelError unless the model takes these inputs and tells that many classes apart."""

    @abstractmethod
    def fit(self, job: Job, device: torch.device) -> Fitted:
        """Answers Fit."""

    @abstractmethod
    def predict(self, job: Job, device: torch.device) -> Tensor:
        """Answers Predict."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep of it: tensors and plain values, in dicts and lists."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Takes up what ``state`` gave."""

    @abstractmethod
    def check_keepable(self, samples: Samples, owner: str) -> None:
        """Raises ModelError unless the learner can be kept in a checkpoint; called before any training."""

    def tap(self, job: Job, device: torch.device) -> dict[str, Tensor]:
        """Answers Tap."""
        raise ModelError(f"{job.owner}: {type(self.model).__name__} has no layers to look into.")
