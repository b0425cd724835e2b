"""How data reach a participant's model: through its preprocessing, and as tensors where the model is a network."""

from __future__ import annotations

from typing import Any

import torch

from potluck.core.errors import SettingsError
from potluck.core.randomness import generator
from potluck.core.samples import Samples, SharedData
from potluck.core.tasks import Task
from potluck.federation.preprocessing import Preprocessing


class ModelInputs:
    """What a participant's model reads of the data that its owner brought, and of data that all may see.

    Args:
        owner: the participant's name.
        preprocess: its transformer; None for none.
    """

    def __init__(self, owner: str, preprocess: Any) -> None:
        self.preprocessing = None if preprocess is None else Preprocessing(preprocess, owner)
        self.network = False
        """Whether the model is a network, which reads tensors alone."""
        self._owner = owner

    def begin(self, training: Samples, task: Task, seed: int) -> None:
        """Starts anew: fits the preprocessing to these rows, for a model of any kind."""
        self.network = False
        if self.preprocessing is not None:
            self.preprocessing.fit(training, task, seed)

    def preprocessed(self, samples: Samples) -> Samples:
        """What the preprocessing makes of samples."""
        return samples if self.preprocessing is None else self.preprocessing(samples)

    def for_model(self, samples: Samples, what: str = "") -> Samples:
        """Preprocessed samples as the model reads them; ``what`` they are, for an error."""
        return samples.for_network(f"{self._owner} ({what})" if what else self._owner) if self.network else samples

    def read(self, samples: Samples) -> Samples:
        """Samples as the model reads them."""
        return self.for_model(self.preprocessed(samples))

    def seen(self, shared: SharedData, task: Task, *, known: bool = False) -> Samples | None:
        """What all may see, as the model reads it: all samples, or those whose target is known to the task.

        Without preprocessing, all who read in the same way and have the same task share one copy.
        """
        if self.preprocessing is None:
            shared = shared.read_by(self.network)
        samples = shared.known(task) if known else shared.whole(task)
        return samples if self.preprocessing is None or samples is None else self.read(samples)


def divided(
    brought: Samples, share: float, seed: int, owner: str, *, in_order: bool = False
) -> tuple[Samples, Samples | None]:
    """Training data, perhaps in the order given, and validation data; which these are depends on seed and owner."""
    total = len(brought)
    held = round(share * total) if 0 <= share < 1 else 0
    if not 0 <= share < 1 or (share > 0 and held == 0) or held >= total:
        raise SettingsError(
            f"{owner}: validation={share!r} of {total} samples; expected a share from 0 to below 1 that leaves samples "
            f"on both sides, or data."
        )
    if held == 0:
        return brought, None
    order = torch.randperm(total, generator=generator(seed, owner, "validation"))
    training = order[held:].sort().values if in_order else order[held:]
    return brought.take(training), brought.take(order[:held])
