"""A participant that is elsewhere: what the server knows of it."""

from __future__ import annotations

from typing import ClassVar

import torch

from potluck.core.errors import SettingsError
from potluck.core.plan import Plan
from potluck.core.samples import Samples, SharedData
from potluck.federation.participant import Participant, State
from potluck.flower.protocol import Accepted


class Remote(Participant):
    """A name and a weight; labels and the kind of its inputs once it has come. Its state is on its own disk."""

    is_local: ClassVar[bool] = False

    def __init__(self, name: str, weight: float, told: Accepted | None, like: Accepted) -> None:
        if not 0 < weight < float("inf"):
            raise SettingsError(f"{name}: weight is {weight!r}; expected a finite number above 0.")
        kind = told or like  # whoever has not come is checked when it comes
        self.name = name
        self.weight = weight
        self.plan = Plan()
        self.labels = tuple(kind.labels)
        data = Samples({"x": torch.empty(0, *kind.inputs, dtype=torch.uint8 if kind.in_bytes else torch.float32)})
        self.storage = None
        self.working_bytes = 0
        self.held = {"data": data, "test": None, "learner": None, "state": {}}
        self.public = None
        self.seed = 0
        self.round = 0
        self._brought_model = "elsewhere"

    def join(self, seed: int, public: SharedData | None) -> None:
        """It takes its seat where it is."""
        self.seed, self.round = seed, 0

    def snapshot(self) -> State:
        """Nothing: it keeps its state itself."""
        return {}

    def restore(self, kept: State) -> None:
        """It goes back to the round that it is asked for."""

    def check_keepable(self) -> None:
        """It looks after that itself."""
