"""Joining of methods whose participants send a row or a column for each label: all must have the same labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from potluck.core.labels import LabelsFact, differing
from potluck.core.payload import Payload
from potluck.core.requests import Exchange
from potluck.core.schema import Schema
from potluck.federation.agreement import agreed
from potluck.federation.method import Leaving, Method, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server


class LabelSharing(Method):
    """Everybody sends its labels (or the numbers of its values) once; they are in ``server.state["labels"]``."""

    late_joining: ClassVar[bool] = True
    sends: ClassVar[Mapping[str, str]] = {"labels": "its label space, once"}
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {"labels": ("statistics",)}

    def join(self, me: Participant) -> Steps:
        yield Exchange("labels", Payload(facts={"labels": list(me.task.columns)}))
        return None

    @exchange(lambda self, server, sender: Schema(facts={"labels": LabelsFact}), phase="join")
    def labels(self, server: Server, answers: Answers) -> Payload:
        """Makes sure that all have the same label space, so that rows and columns agree."""
        told = {sender: payload.facts["labels"] for sender, payload in answers}
        server.state["labels"] = agreed(server, told, differing, server.state.get("labels"))
        return Payload()
