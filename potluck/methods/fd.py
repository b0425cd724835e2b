"""FD, federated distillation: participants learn from each other's predictions on public data.

As MHAT compares with it (Hu et al., 2021, section 2.3): the server replies with the uniform mean of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from pydantic import Field

from potluck.core.labels import one_space
from potluck.core.objectives import hard_and_soft
from potluck.core.payload import Payload
from potluck.core.requests import Exchange, Fit, Predict
from potluck.core.samples import Samples
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.method import Method, Needs, Replies, ServerSteps, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server


def probabilities_schema(method: Method, server: Server, sender: str) -> Schema:
    """A row of probabilities for each public sample."""
    return Schema({"probabilities": TensorSpec((server.public_size, len(server.state["labels"])), low=0, high=1)})


class FD(Method):
    """Train on own data ∪ public data ∪ (public inputs, the server's soft labels); upload one's own soft labels.

    Public data without labels drops the hard-label term.

    Args:
        temperature: T; soft labels are softmax(z/T) at the participants and at the server (eq. 2); by default 5.
        first_epochs: epochs in the first round; by default None, for the plan's.
        epochs: epochs in later rounds; by default None, for the plan's.
        distill_lr: the learning rate once there are soft labels; by default None, for the plan's.
    """

    needs = Needs(torch_module=True, public="inputs", one_label_space=True)

    late_joining: ClassVar[bool] = True
    sends: ClassVar[Mapping[str, str]] = {
        "labels": "its label space, once",
        "probabilities": "for each public sample the probability that its model gives to each label",
    }

    temperature: float = Field(5.0, gt=0)
    first_epochs: int | None = Field(None, ge=0)
    epochs: int | None = Field(None, ge=0)
    distill_lr: float | None = Field(None, gt=0)

    def join(self, me: Participant) -> Steps:
        yield Exchange("labels", Payload(facts={"labels": list(me.labels)}))
        return None

    def round(self, me: Participant) -> Steps:
        assert me.public is not None
        yield self.training(me, me.public)
        soft = ((yield Predict(me.public, logits=True)) / self.temperature).softmax(dim=-1).float()
        reply = yield Exchange("probabilities", Payload({"probabilities": soft}))
        me.state["soft"] = reply["probabilities"]
        return None

    def training(self, me: Participant, public: Samples) -> Fit:
        """Own data, public data as far as they have labels, and the server's last soft labels of them."""
        soft = me.state.get("soft")
        sets = [me.data.with_targets(soft=torch.zeros(len(me.data), len(me.labels)))]
        if public.labelled:
            sets.append(public)
        if soft is not None:
            sets.append(public.inputs().with_targets(soft=soft))
        plan = me.plan.replace(epochs=self.first_epochs if soft is None else self.epochs)
        return Fit(
            hard_and_soft,
            on=Samples.concat(sets),
            context={"temperature": self.temperature},
            plan=plan if soft is None else plan.replace(lr=self.distill_lr),
        )

    @exchange(lambda self, server, sender: Schema(facts={"labels": list[str | int]}))
    def labels(self, server: Server, answers: Answers) -> Payload:
        """Makes sure that all have the same label space, so that columns of probabilities agree."""
        told = {sender: payload.facts["labels"] for sender, payload in answers}
        known = {"the federation": server.state["labels"]} if "labels" in server.state else {}
        server.state["labels"] = one_space({**told, **known})
        return Payload()

    @exchange(probabilities_schema)
    def probabilities(self, server: Server, answers: Answers) -> Replies | ServerSteps:
        """Eq. 3: the uniform mean of all answers."""
        count, total = 0, torch.zeros((), dtype=torch.float64)
        for _, payload in answers:
            count, total = count + 1, total + payload["probabilities"]
        return Payload({"probabilities": (total / count).float()})
