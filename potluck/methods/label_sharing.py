"""Joining of methods whose participants send a row or a column for each label: all must have the same labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from potluck.core.labels import LabelsFact, differing
from potluck.core.payload import Payload
from potluck.core.requests import Exchange
from potluck.core.schema import Schema
from potluck.federation.agreement import agreed
from potluck.federation.method import Leaving, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.replies import nothing
from potluck.federation.server import Answers, Server
from potluck.methods.averaging import Merger, Merging
from potluck.methods.windows import Part

USUAL = 1e4
"""How large outputs and features may be as a rule, before there was a round to know it by."""


class LabelSharing(Merging):
    """Everybody sends its labels (or the numbers of its values) once; they are in ``server.state["labels"]``."""

    late_joining: ClassVar[bool] = True
    sends: ClassVar[Mapping[str, str]] = {"labels": "its label space, once"}
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {"labels": ("statistics",)}

    def join(self, me: Participant) -> Steps:
        yield Exchange("labels", Payload(facts={"labels": list(me.task.columns)}))
        return None

    @exchange(lambda self, server, sender: Schema(facts={"labels": LabelsFact}), phase="join", reply=nothing)
    def labels(self, server: Server, answers: Answers) -> Payload:
        """Makes sure that all have the same label space, so that rows and columns agree."""
        labels_of = {sender: payload.facts["labels"] for sender, payload in answers}
        server.state["labels"] = agreed(server, labels_of, differing, server.state.get("labels"))
        self.tell_few({"labels": len(labels_of)})
        return Payload()

    def merged(self, server: Server, answers: Answers, name: str) -> tuple[Tensor, int]:
        """Everybody's tensor of that name as one, by default their uniform mean, and of how many it is made."""
        nothing: dict[str, Tensor] = {}
        merger = Merger(self, server, nothing, USUAL)
        for sender, payload in answers:
            nothing.setdefault(name, torch.zeros_like(payload[name]))
            merger.add(sender, [Part(name, payload[name])])
        return {**nothing, **merger.results()}[name], len(merger.senders)
