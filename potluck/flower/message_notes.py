"""How a message is noted in the audit log, the same at both sides, so that their logs can be compared."""

from __future__ import annotations

import hashlib
from typing import Any

from potluck.channel.audit_log import AuditLog, outline
from potluck.core.errors import PayloadError

PLACE = ("kind", "phase", "round", "step", "exchange")
"""What of a head says where in the course of a run a message belongs."""


def note_message(
    log: AuditLog,
    what: str,
    participant: str,
    federation: str | None,
    head: dict[str, Any],
    body: bytes = b"",
    why: str | None = None,
) -> None:
    """Notes one message.

    Args:
        log: the audit log.
        what: "sent", "received" or "refused".
        participant: whom it is from, or for.
        federation: the run; None before there is one.
        head: its head, of which only its place in the run is noted.
        body: its payload, of which names, shapes, size and checksum are noted; by default empty.
        why: why it was refused.
    """
    place = {name: head[name] for name in PLACE if isinstance(head.get(name), str | int)}
    try:
        holds = outline(body)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, PayloadError):
        holds = {"…": ["it cannot be read"]}
    log.note(
        what,
        federation=federation,
        participant=participant,
        **place,
        bytes=len(body) or None,
        payload=hashlib.sha256(body).hexdigest() if body else None,
        holds=holds,
        metrics=sorted(head["metrics"]) if isinstance(head.get("metrics"), dict) else None,
        why=why,
    )
