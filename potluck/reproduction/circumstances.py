"""What a run was made with, in the words of a result line: the source, the engine, the data, what else ran."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


def load() -> float | None:
    """How many processes wanted a core, on average over the last minute; None where the system does not say."""
    try:
        return round(os.getloadavg()[0], 2)
    except (OSError, AttributeError):
        return None


def made_with(settings: Mapping[str, Any], fingerprint: Mapping[str, str]) -> dict[str, Any]:
    """Parts of a result line, from what a run folder says.

    Args:
        settings: the settings as run.
        fingerprint: the checksums that its checkpoints belong to.
    """
    commit: str | None = settings["commit"]
    plans = {str(person.get("plan")) for person in settings["participants"]}
    return {
        "commit": commit and commit.rstrip("+"),
        "dirty": None if commit is None else commit.endswith("+"),
        "engine": settings["engine"],
        "device": settings["device"],
        "precision": settings["precision"],
        "method": str(settings["method"]),
        "plan": plans.pop() if len(plans) == 1 else None,
        "data": {
            **{name: digest for name, digest in fingerprint.items() if name.endswith("data")},
            "samples": [person.get("samples") for person in settings["participants"]],
            "public samples": settings["public_samples"],
        },
        "versions": {"python": settings["python"], **settings["versions"]},
    }
