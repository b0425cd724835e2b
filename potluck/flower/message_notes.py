"""How a message is noted in the audit log, the same at both sides, so that their logs can be compared."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from potluck.channel.audit_log import AuditLog, outline
from potluck.core.errors import PayloadError
from potluck.flower.protocol import Invitation

PLACE = ("kind", "phase", "round", "step", "exchange")
"""What of a head says where in the course of a run a message belongs."""
LONGEST = 200
"""How long what somebody says of its place, and how many metrics, may be to be noted: nobody is to fill the log."""


def terms_of(invitation: dict[str, Any]) -> str:
    """The SHA-256 of the head of an invitation: the terms to which an owner agrees, and by which work is asked for."""
    return hashlib.sha256(json.dumps(invitation, sort_keys=True).encode()).hexdigest()


def note_message(
    log: AuditLog,
    what: str,
    participant: str,
    invitation: Invitation | None,
    head: dict[str, Any],
    body: bytes = b"",
    why: str | None = None,
) -> None:
    """Notes one message.

    Args:
        log: the audit log.
        what: "sent", "received", "agreed" or "refused".
        participant: whom it is from, or for.
        invitation: the terms by which it is sent, with the run they belong to; None before there are any.
        head: its head, of which only its place in the run is noted.
        body: its payload, of which names, shapes, size and checksum are noted; by default empty.
        why: why it was refused.
    """
    place = {
        name: said for name in PLACE if isinstance(said := head.get(name), str | int) and len(str(said)) <= LONGEST
    }
    measured = head["metrics"] if isinstance(head.get("metrics"), dict) else None
    offered = head if head.get("kind") == "invitation" else None
    terms = offered or (None if invitation is None else invitation.model_dump(mode="json"))
    try:
        holds = outline(body)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, PayloadError):
        holds = {"…": ["it cannot be read"]}
    log.note(
        what,
        federation=None if invitation is None else invitation.federation,
        terms=None if terms is None else terms_of(terms),
        participant=participant,
        **place,
        bytes=len(body) or None,
        payload=hashlib.sha256(body).hexdigest() if body else None,
        holds=holds,
        metrics=None if measured is None else [name[:LONGEST] for name in sorted(measured)[:LONGEST]],
        why=why,
    )
