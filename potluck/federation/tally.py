"""What is counted while parties exchange: for each participant of a phase, and for each exchange over all rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ParticipantTally:
    """What one participant sent, received and noted in one round, or in joining.

    Args:
        bytes_up: the size of all payloads it sent.
        bytes_down: the size of all payloads it received.
        seconds: how long it worked.
        simulated_seconds: how far the virtual clock was for it when its half ended; None without such a clock.
        refused: why its answer was refused, or lost, if it was.
        notes: what its half returned for the history.
        since: of joining, the round it is counted in.
        absent: whether its half ended early because it was not there, or did not answer in time.
    """

    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0
    simulated_seconds: float | None = None
    refused: str | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    since: int = 1
    absent: bool = False

    @property
    def simulated(self) -> float:
        """How far the virtual clock was, with none as 0."""
        return self.simulated_seconds or 0.0


@dataclass(slots=True)
class ExchangeTally:
    """What travelled at one exchange, in all rounds so far.

    Args:
        answers: how many payloads participants sent.
        bytes_up: their size.
        replies: how many payloads the server sent.
        bytes_down: their size.
    """

    answers: int = 0
    bytes_up: int = 0
    replies: int = 0
    bytes_down: int = 0
