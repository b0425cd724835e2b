"""How a participant comes to its data: read, divided for a federation, and prepared for its model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from potluck.core.plan import Plan
from potluck.core.randomness import generator
from potluck.core.samples import Samples
from potluck.core.tasks import Task
from potluck.core.window import Window
from potluck.federation.attacks import Attack
from potluck.federation.class_weights import with_class_weights
from potluck.federation.model_inputs import ModelInputs, divided
from potluck.ingestion.lazy import Preload
from potluck.ingestion.user_data import read_labelled

if TYPE_CHECKING:
    from potluck.core.samples import SharedData

HELD_DATA = ("brought", "brought validation", "brought test", "data", "validation", "test")
"""The fields that hold data: as they were brought, and as the model reads them."""


class DataHolder(ABC):
    """Reads what an owner brought, divides it for a federation, and prepares it for the model."""

    name: str
    plan: Plan
    task: Task
    held: dict[str, Any]
    """Those of its heavy fields that are in memory. ``thing`` loads the others."""
    window: Window | None = None
    """Which of its samples it trains on in which round."""

    attack: Attack | None = None
    """What it does to spoil the others' learning, in a simulation."""

    held_back = 0.0
    """The share of its data that it chooses settings by."""

    _public: SharedData | None = None

    @abstractmethod
    def thing(self, name: str) -> Any:
        """A field of it, from memory or from disk."""

    def _hold(
        self,
        data: Any,
        task: Task,
        test: Any,
        validation: Any,
        preprocess: Any,
        window: Window | None,
        preload: Preload,
    ) -> None:
        """Reads what its owner brought, and finds in it what the task leaves open."""
        self.window, self.inputs = window, ModelInputs(self.name, preprocess)
        labelled = read_labelled(data, self.name, preload)
        self.task = labelled.fitted(task, self.name)
        brought = labelled.encoded(self.task, self.name)
        self.kinds = brought.kinds
        """What one sample's inputs look like, as they were brought; ``data.kinds`` says what its model reads."""
        as_data = not isinstance(validation, int | float)
        self.held_back = 0.0 if as_data else float(validation)
        own = {"validation": validation if as_data else None, "test": test}
        self.held |= {"brought": brought} | {
            f"brought {part}": None if labelled is None else self._own(labelled, f"{self.name} ({part})", preload)
            for part, labelled in own.items()
        }
        self._take_up(0, None, fit=False)

    def _own(self, data: Any, owner: str, preload: Preload = "auto") -> Samples:
        labelled = read_labelled(data, owner, preload)
        return replace(labelled, inputs=labelled.inputs.inputs()).encoded(self.task, owner)

    def _take_up(self, seed: int, public: SharedData | None, *, fit: bool) -> None:
        """Divides its data anew for a federation of this seed, and preprocesses them."""
        self.held |= self.as_brought(seed)
        self._public, self.inputs.network = public, False
        self._seen: dict[bool, tuple[SharedData, Samples | None]] = {}
        if fit:
            training = self.thing("data")
            first = training if self.window is None else training.take(self.window.rows(0, len(training)))
            self.inputs.begin(first, self.task, seed)
            self._convert(lambda samples, what: self.inputs.preprocessed(samples))
            data = self.thing("data")
            if self.attack is not None:
                data = self.attack.poisoned(data, self.task, self.name, generator(seed, self.name, "attack on data"))
            self.held["data"] = with_class_weights(data, self.task, self.plan.class_weight, self.name)

    def as_brought(self, seed: int) -> dict[str, Any]:
        """Its training ("data"), validation and test data under a federation's seed, as they were brought."""
        brought, in_order = self.thing("brought"), self.window is not None
        training, validation = divided(brought, self.held_back, seed, self.name, in_order=in_order)
        given = self.thing("brought validation")
        return {"data": training, "validation": given or validation, "test": self.thing("brought test")}

    def _convert(self, change: Callable[[Samples, str], Samples]) -> None:
        """Changes what it holds for its model to read."""
        for part in ("data", "validation", "test"):
            samples: Samples | None = self.thing(part)
            self.held[part] = None if samples is None else change(samples, "" if part == "data" else part)
