"""What an engine says of itself: to a checkpoint, to the run folder, to whoever reads the summary."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from typing import Any, Self

import torch

from potluck.core.profiler import Profiler

log = logging.getLogger(__name__)


class EngineRecord:
    """What is recorded of an engine in the course of a run.

    Args:
        device: what networks compute on.
        precision: what they compute in.
    """

    def __init__(self, device: torch.device, precision: str) -> None:
        self.device, self.precision = device, precision
        self._begin()

    def _begin(self) -> None:
        """Sets everything that belongs to a federation to what it is before the first one."""
        self.profiler: Profiler | None = None
        """Times what the engine does, where somebody asked for it."""
        self.incidents: list[str] = []
        """What went another way than planned, for the run's summary."""
        self._memory: int | None = None
        """How much memory decides who run together: what was free the first time."""

    def fresh(self) -> Self:
        """An engine of the same settings that knows of no federation yet: each one works with its own."""
        other = copy.copy(self)
        other._begin()
        return other

    def snapshot(self) -> dict[str, Any]:
        """What a checkpoint must keep of the engine, so that a run that goes on is carried out in the same way."""
        return {"engine": self.described(), "memory": self._memory}

    def described(self) -> dict[str, Any]:
        """Which engine it is, and what of the machine decides how its results are rounded."""
        cores = {"cores": torch.get_num_threads()} if self.device.type == "cpu" else {}
        return {"name": type(self).__name__.lower(), "device": str(self.device), **cores}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Takes up what ``snapshot`` gave. Says so where another engine gave it, or one on other hardware."""
        self._memory = snapshot.get("memory")
        before, now = snapshot.get("engine"), self.described()
        if before is not None and before != now:
            self._tell(
                f"The run goes on with {_in_words(now)}; up to here it was {_in_words(before)}. Results can differ by "
                f"rounding from those of a run without the change."
            )

    def decisions(self) -> dict[str, Any]:
        """What it decided by itself, or by what it found, for the run folder."""
        cores = {name: value for name, value in self.described().items() if name == "cores"}
        return {**cores, **({"memory": self._memory} if self._memory is not None else {})}

    def _tell(self, incident: str) -> None:
        """Says once what goes another way than planned, and keeps it for the run's summary."""
        if incident not in self.incidents:
            log.warning("%s", incident)
            self.incidents.append(incident)

    def report(self) -> dict[str, Any]:
        """What a run's summary says of the engine."""
        profile = {} if self.profiler is None else {"profile": dict(self.profiler.seconds)}
        return {"decisions": self.decisions(), "incidents": list(self.incidents), **profile}


def _in_words(engine: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in engine.items()).replace("name ", "engine ", 1)
