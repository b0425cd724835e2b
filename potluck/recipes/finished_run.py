"""A run folder opened again, with the models as they are after its last round: read, and left as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from potluck.core.errors import DataError, SettingsError, nearest
from potluck.federation.federation import Federation
from potluck.federation.fingerprint import fingerprint
from potluck.federation.participant import Participant
from potluck.recipes.recipe import Recipe
from potluck.recipes.references import look_beside
from potluck.recipes.validation import Origin
from potluck.runs import checkpoint
from potluck.runs.folder import SETTINGS


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return (folder / SETTINGS).is_file()


def participant_of(folder: Path, name: str | None) -> tuple[Federation, Participant]:
    """A participant as it is after the last round in a run folder, and its federation, whose others are untrained.

    Args:
        folder: the run folder.
        name: the participant's name; None where there is one only.
    """
    try:
        settings: dict[str, Any] = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        names = [str(party["name"]) for party in settings["participants"]]
        made: dict[str, Any] = dict(settings.get("recipe") or {})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder / SETTINGS} cannot be read: {error!r}.") from error
    if name is None and len(names) > 1:
        raise SettingsError(f"{folder} has {len(names)} participants; expected --participant, one of: {_few(names)}.")
    if name is not None and name not in names:
        raise SettingsError(f"{folder} has no participant {name!r}.{nearest(name, names)}")
    if any("model" not in party for party in settings["participants"]):
        raise SettingsError(
            f"{folder} is a server's: its participants have their models on their own machines. There, in each one's "
            f"state folder: potluck export STATE --out MODEL."
        )
    if not made.get("file"):
        raise SettingsError(
            f"{folder} is of a federation that was made in Python, which this command cannot make again; there, after "
            f"federation.run(…, run_dir=…, resume=True): federation.participants[{name or names[0]!r}].save('MODEL')."
        )
    federation = _federation(made)
    found = checkpoint.read_latest(folder / "checkpoints", fingerprint(federation))
    if found is None:
        raise DataError(f"{folder} has no whole checkpoint; play a round first: `potluck run`.")
    number, state = found
    participant = federation.participants[name or names[0]]
    participant.check_keepable()
    participant.restore(state["participants"][participant.name])
    participant.round = number
    return federation, participant


def _federation(made: dict[str, Any]) -> Federation:
    """The federation that a run's settings tell of, on this machine's CPU."""
    folder = Path(made.pop("file")).parent
    made.pop("command", None)
    look_beside(folder, made)
    recipe = Recipe.model_validate({**made, "engine": "serial", "device": "cpu"}, context=Origin(folder))
    return recipe.federation()


def _few(names: list[str]) -> str:
    return ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
