"""A participant that is elsewhere: what the server knows of it."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from potluck.core.errors import DataError, SettingsError
from potluck.core.inputs import InputKinds
from potluck.core.plan import Plan
from potluck.core.samples import InputSource, Samples, SharedData
from potluck.core.task_choice import task_from
from potluck.engines.base import own_model
from potluck.federation.joining import Equipment
from potluck.federation.model_inputs import ModelInputs
from potluck.federation.participant import Participant, State
from potluck.flower.protocol import Accepted


class Elsewhere(InputSource):
    """Inputs on another machine, of which only the kinds are known here.

    Args:
        kinds: what one sample's inputs look like.
    """

    def __init__(self, kinds: InputKinds) -> None:
        self._kinds = kinds

    def __len__(self) -> int:
        return 0

    def read(self, rows: Tensor) -> Any:
        raise DataError("These inputs are on another machine.")

    def take(self, rows: Tensor) -> InputSource:
        return self

    def kinds(self) -> InputKinds:
        return self._kinds

    def digest(self) -> bytes:
        return b""

    def then(self, other: Samples) -> InputSource:
        return self


class RemoteParticipant(Participant):
    """A name and a weight; its task and the kind of its inputs once it has come. Its state is on its own disk.

    Args:
        name: as in the server's file.
        weight: its credibility.
        accepted: what it said when it accepted; None if it has not come yet.
        like: what another one said, to stand for it until it comes.
    """

    is_local: ClassVar[bool] = False

    def __init__(self, name: str, weight: float, accepted: Accepted | None, like: Accepted) -> None:
        if not 0 < weight < float("inf"):
            raise SettingsError(f"{name}: weight is {weight!r}; expected a finite number above 0.")
        known = accepted or like  # whoever has not come is checked when it comes
        self.name = name
        self.weight = weight
        self.plan = Plan()
        self.task = task_from(known.task, known.settings, known.metrics)
        self.storage = None
        self.working_bytes = 0
        data = Samples({}, source=Elsewhere({name: facts.kind() for name, facts in known.inputs.items()}))
        self.kinds, self.window = data.kinds, None
        self.held = {"data": data, "validation": None, "test": None, "learner": None, "state": {}, "codecs": None}
        self._public, self._seen = None, {}
        self.inputs = ModelInputs(name, None)
        self.window = None
        self.seed = 0
        self.round = 0
        self.answering = own_model
        self.brought_model = "elsewhere"

    def join(self, seed: int, public: SharedData | None, method: Equipment | None = None) -> None:
        """It joins where it is."""
        self.seed, self.round = seed, 0

    def snapshot(self) -> State:
        """Nothing: it stores its state itself."""
        return {}

    def restore(self, snapshot: State) -> None:
        """It goes back to the round that it is asked for."""

    def check_keepable(self) -> None:
        """It looks after that itself."""
