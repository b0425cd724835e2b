"""A status for tests: of a federation that waits for two participants."""

from __future__ import annotations

from typing import Any

from potluck.flower.status import ParticipantStatus, Status


def standing(**changes: Any) -> Status:
    """Of two participants."""
    people = [ParticipantStatus(name=name, state="expected", since=1.0) for name in ("ann", "ben")]
    given: dict[str, Any] = {
        "state": "waiting",
        "since": 1.0,
        "study": "s",
        "method": "FedAvg",
        "rounds": 3,
        "participants": people,
    }
    return Status(**{**given, **changes})
