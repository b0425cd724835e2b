"""Sharing prototypes: what FedProto and the methods derived from it have in common."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from potluck.core.model_view import input_of
from potluck.core.payload import Payload
from potluck.core.requests import Exchange, Request, Tap
from potluck.core.schema import Schema
from potluck.federation.agreement import agreed
from potluck.federation.method import Leaving, Needs, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.learners.structure import feature_width
from potluck.methods.label_sharing import LabelSharing
from potluck.methods.prototypes import class_means_payload, class_means_schema


class PrototypeSharing(LabelSharing):
    """Joining with features of one width, one's own prototypes, and catching up with everybody's.

    Args:
        feature: the layer whose output is the feature; by default None, for what goes into the head.
        weighting: "uniform" (the default), so that everybody who has a class counts the same, or "samples".
    """

    needs = Needs(torch_module=True, head=True, one_label_space=True)
    sends: ClassVar[Mapping[str, str]] = {
        **LabelSharing.sends,
        "features": "how many numbers its feature has, once",
        "fetch": "that it sat out, and asks for the current prototypes",
        "prototypes": "for each class the mean feature of its own samples, and which classes it has (with weighting by "
        "samples: how many samples of each)",
    }
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {
        **LabelSharing.leaves,
        "features": ("statistics",),
        "fetch": (),
        "prototypes": ("features", "statistics"),
    }

    feature: str | None = None
    weighting: Literal["samples", "uniform"] = "uniform"

    def place(self, me: Participant) -> str:
        """Where the feature stands in a participant's network."""
        return self.feature or input_of(me.head[0])

    def join(self, me: Participant) -> Steps:
        yield from super().join(me)
        self.take(me, (yield Exchange("features", Payload(facts={"width": self.width(me)}))))
        me.state["round"] = 0
        return None

    def width(self, me: Participant) -> int:
        """How many numbers a participant's feature has."""
        return feature_width(me.model, self.place(me), me.network.example(me.data, me.plan))

    def current_schema(self, me: Participant, sent: Schema) -> Schema:
        """Everybody's prototypes, of the width of one's own."""
        known = me.state.get("prototypes")
        return class_means_schema(len(me.labels), self.width(me) if known is None else known.shape[1], "samples")

    def take(self, me: Participant, reply: Payload) -> None:
        """Everybody's prototypes: zeros, and a count of zero, for a class that nobody has."""
        me.state.update(prototypes=reply["means"], known=reply["counts"] > 0)

    def catch_up(self, me: Participant) -> Generator[Request, Any, None]:
        """A participant that sat out, or was refused, fetches the current prototypes."""
        if me.state["round"] != me.round - 1:
            self.take(me, (yield Exchange("fetch", Payload())))

    def send_own(self, me: Participant) -> Generator[Request, Any, None]:
        """Sends the mean feature of each class (FedProto's equation 3), in evaluation mode, for everybody's."""
        features: Tensor = (yield Tap(me.data, at=[self.place(me)]))[self.place(me)]
        means = class_means_payload(features, me.data.y, len(me.labels), self.weighting)
        self.take(me, (yield Exchange("prototypes", means)))
        me.state["round"] = me.round

    def width_schema(self, server: Server, sender: str) -> Schema:
        """As many numbers as there is room for, for each label."""
        most = max(server.budget // (8 * len(server.state["labels"])), 1)
        return Schema(facts={"width": Annotated[int, Field(ge=1, le=most)]})

    @exchange(width_schema, phase="join", reply=current_schema)
    def features(self, server: Server, answers: Answers) -> Payload:
        """Makes sure that all features have one width; there are no prototypes yet, unless others joined before."""
        found = {sender: payload.facts["width"] for sender, payload in answers}
        width = agreed(server, found, _other_width, server.state["means"].shape[1] if "means" in server.state else None)
        classes = len(server.state["labels"])
        server.state.setdefault("means", torch.zeros(classes, width))
        server.state.setdefault("counts", torch.zeros(classes, dtype=torch.int64))
        return self.current(server)

    @exchange(lambda self, server, sender: Schema(), optional=True, reply=current_schema)
    def fetch(self, server: Server, answers: Answers) -> Payload:
        """Sends the current prototypes to those that sat out."""
        for _ in answers:
            pass
        return self.current(server)

    def current(self, server: Server) -> Payload:
        """Everybody's prototypes as they travel."""
        return Payload({name: server.state[name] for name in ("means", "counts")})

    def prototypes_schema(self, server: Server, sender: str) -> Schema:
        """Class means of the width that all have."""
        classes, width = server.state["means"].shape
        return class_means_schema(classes, width, self.weighting)


def _other_width(found: int, expected: int) -> str:
    return f"its features have {found} numbers, the others' {expected}; expected as many. Name a layer: `feature`"
