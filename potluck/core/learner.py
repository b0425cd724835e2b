"""A learner: a participant's model, which can be trained and read; a network can do more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from potluck.core.plan import Plan
from potluck.core.samples import Samples
from potluck.core.tasks import Task

if TYPE_CHECKING:
    from potluck.core.job import Job
    from potluck.core.requests import Fitted


class Learner(ABC):
    """What every learner can do."""

    shows_layers: ClassVar[bool] = False
    """Whether its parameters, inner layers and gradients are open to methods."""
    answers_untrained: ClassVar[bool] = False
    """Whether it can be read before it was ever trained."""
    model: Any

    @property
    def takes_weights(self) -> bool:
        """Whether weights of samples make a difference when it learns labels."""
        return True

    @abstractmethod
    def check(self, samples: Samples, task: Task, plan: Plan, owner: str) -> None:
        """Raises ModelError unless the model takes these inputs and puts out what the task says."""

    @abstractmethod
    def fit(self, job: Job, device: torch.device) -> Fitted:
        """Trains as a Fit asks."""

    @abstractmethod
    def read(self, job: Job, device: torch.device) -> Any:
        """Answers a Reading; the model stays as it is."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """What a checkpoint stores of it: tensors and plain values, in dicts and lists."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Restores what ``state`` returned."""

    @abstractmethod
    def check_keepable(self, samples: Samples, owner: str) -> None:
        """Raises ModelError unless a checkpoint can store the learner; called before any training."""
