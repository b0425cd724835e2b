"""A learner: what a participant brings. It can be trained and asked; a network can do more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from potluck.core.plan import Plan
from potluck.core.samples import Samples

if TYPE_CHECKING:
    from potluck.core.requests import Fitted, Job


class Learner(ABC):
    """The least a learner can do."""

    shows_layers: ClassVar[bool] = False
    """Whether its parameters, inner layers and gradients are open to methods."""
    answers_untrained: ClassVar[bool] = False
    """Whether it can be asked before it was ever trained."""
    model: Any

    @abstractmethod
    def check(self, samples: Samples, classes: int, plan: Plan, owner: str) -> None:
        """Raises ModelError unless the model takes these inputs and tells that many classes apart."""

    @abstractmethod
    def fit(self, job: Job, device: torch.device) -> Fitted:
        """Trains as a Fit asks."""

    @abstractmethod
    def read(self, job: Job, device: torch.device) -> Any:
        """Answers a Reading; the model stays as it is."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep of it: tensors and plain values, in dicts and lists."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Takes up what ``state`` gave."""

    @abstractmethod
    def check_keepable(self, samples: Samples, owner: str) -> None:
        """Raises ModelError unless the learner can be kept in a checkpoint; called before any training."""
