"""A participant's state folder opened again, with its model as it is after its last round: read, and left as it is."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from potluck.channel.limits import Limits
from potluck.core.errors import DataError, PotluckError, SettingsError
from potluck.federation.fingerprint import participant_fingerprint
from potluck.federation.participant import Participant
from potluck.flower.client_store import write_whole
from potluck.flower.config import ParticipantFile, read_participant
from potluck.flower.consent import channel_of, method_of
from potluck.flower.protocol import Invitation
from potluck.flower.public_data import PublicDataStore
from potluck.runs import checkpoint

log = logging.getLogger(__name__)

SITE, INVITATION = "participant.json", "invitation.json"
"""What a state folder tells of the participant, and each federation's folder in it of what was agreed to."""
FEDERATION = re.compile("[0-9a-f]{16}")
"""How the folders of federations are called."""


def note_site(state: Path, file: Path, server: str) -> None:
    """Notes in a state folder which file the participant has, and which server it deals with."""
    write_whole(state / SITE, json.dumps({"file": str(file.resolve()), "server": server}).encode())


def note_invitation(folder: Path, invitation: Invitation) -> None:
    """Notes in a federation's folder what was agreed to."""
    write_whole(folder / INVITATION, invitation.model_dump_json().encode())


def participant_of(source: Path, name: str | None, file: Path | None) -> tuple[Participant, dict[str, str]]:
    """A participant as it is after the last round that its state folder holds, and where that is from.

    Args:
        source: the state folder, or the folder of one federation in it.
        name: the participant's name, if it must have this one.
        file: the participant's file, where it is not where it was; None for where it was.
    """
    folder = source if FEDERATION.fullmatch(source.resolve().name) else _newest(source)
    site = _site(folder.resolve().parent)
    path = file or Path(site["file"])
    if not path.is_file():
        raise SettingsError(f"The participant's file {path} is not there any more; say where it is with --file.")
    settings = read_participant(path)
    if name not in (None, settings.name):
        raise SettingsError(f"{source} is {settings.name!r}'s; expected --participant {settings.name}, or none.")
    try:
        invitation = Invitation.model_validate_json((folder / INVITATION).read_bytes())
    except (OSError, ValidationError) as error:
        raise DataError(f"{folder / INVITATION} cannot be read: {error}.") from error
    me = _as_it_was(settings, invitation, folder)
    return me, {"federation": invitation.federation, "server": site["server"], "potluck there": invitation.potluck}


def _newest(state: Path) -> Path:
    """The folder of the federation that was worked for last."""
    found = [path for path in state.iterdir() if FEDERATION.fullmatch(path.name) and (path / INVITATION).is_file()]
    if not found:
        raise SettingsError(
            f"{state} is neither a run folder nor a participant's state folder that holds a federation; expected the "
            f"folder that `potluck run` wrote, or the `state_dir` of a participant's file after `potluck join`."
        )
    return max(found, key=lambda path: max(part.stat().st_mtime for part in [path, *path.iterdir()]))


def _site(state: Path) -> dict[str, str]:
    try:
        found = json.loads((state / SITE).read_text())
        return {key: str(found[key]) for key in ("file", "server")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{state / SITE} cannot be read: {error!r}. `potluck join` writes it when it begins."
        ) from error


def _as_it_was(settings: ParticipantFile, invitation: Invitation, folder: Path) -> Participant:
    """The participant, joined as it was in the federation, with what it has learned."""
    allowed = tuple(settings.allow_imports)
    method, me = method_of(invitation, allowed), settings.build()
    channel = channel_of(invitation, allowed, Limits(settings.max_payload_bytes), None)
    public = None
    if invitation.public is not None:
        load = settings.public.load if settings.public else None
        public = PublicDataStore(folder.parent, load).find(invitation.public, invitation.seed)
    me.join(invitation.seed, public, method)
    me.check_keepable()
    identity = participant_fingerprint(me, method, invitation.keep_optimizer, channel)
    number, state = _last_state(folder, identity, me.name)
    me.restore(state)
    me.round = number
    return me


def _last_state(folder: Path, identity: dict[str, str], name: str) -> tuple[int, Any]:
    """The newest state. Data may be others by now, as where a table has grown: what was learned stays."""
    try:
        found = checkpoint.read_latest(folder / "states", identity)
    except PotluckError:
        found = checkpoint.read_latest(folder / "states", identity, may_differ=("data",))
        log.warning(
            "%s's training data are not those that it learned from; what was learned is exported as it is.", name
        )
    if found is None:
        raise DataError(f"{folder} holds no whole state yet; the first one is there when joining has ended.")
    return found
