"""SCAFFOLD (Karimireddy et al., ICML 2020): control variates cancel the drift of local training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from potluck.core.errors import RequirementsError
from potluck.core.objectives import Context, Gradients
from potluck.core.payload import MAX_TENSORS, Payload
from potluck.core.requests import Fit, Fitted, Request
from potluck.core.schema import Schema
from potluck.federation.method import Leaving, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.methods.fedavg import FedAvg
from potluck.methods.local_steps import effective_steps
from potluck.methods.tensor_groups import group_of, under
from potluck.methods.weight_sharing import Merge
from potluck.methods.windows import Part

CONTROL = "c"
"""Under which name the control variates, and what changes in them, travel beside the weights."""


class SCAFFOLD(FedAvg):
    """Algorithm 1 with option II: local steps are corrected by the server's control variate c and one's own c_i.

    y ← y − η(g − c_i + c) in each local step; c_i⁺ = c_i − c + (x − y)/(Kη) after K of them; the server takes
    x ← x + η_g · mean(y − x) and c ← c + Σ(c_i⁺ − c_i)/N, with N all participants (on mixed models those who have the
    entry), whoever took part. Control variates begin at zero, cover parameters only, and last between rounds.

    Args:
        server_lr: η_g; by default 1.
        optimizers: "sgd" (the default) refuses plans for which option II does not hold: others than SGD, with momentum,
            a schedule or clipping. "any" takes any plan, and (x − y)/(‖a‖η) for the mean gradient, where FedNova's ‖a‖
            is K without momentum. Public code divides by Kη with momentum, too, which makes of 0.9 corrections ten
            times too large.
        aggregation: as in ``FedAvg``; by default "whole".
        weighting: as in ``FedAvg``; by default "uniform", as in the paper.
        batchnorm: as in ``FedAvg``; by default "average".
        fine_tune: as in ``FedAvg``; by default 0.
    """

    sends: ClassVar[Mapping[str, str]] = {
        **FedAvg.sends,
        "weights": f"{FedAvg.sends['weights']}, and the change of its control variate, as large as the weights",
        "greet": f"{FedAvg.sends['greet']}, and which of them it trains",
    }
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {
        **FedAvg.leaves,
        "control": ("statistics",),
        "weights": ("weights",),
    }
    tells_buffers: ClassVar[bool] = True

    weighting: Literal["samples", "uniform"] = "uniform"
    server_lr: float = Field(1.0, gt=0)
    optimizers: Literal["sgd", "any"] = "sgd"

    def join(self, me: Participant) -> Steps:
        plan = me.plan
        plain = plan.optimizer == "sgd" and not plan.momentum and plan.schedule == "constant"
        if self.optimizers == "sgd" and (not plain or plan.max_grad_norm is not None):
            raise RequirementsError(
                f"{me.name}: SCAFFOLD needs plain SGD at a constant rate; its plan is {plan!r}. Change the plan, or "
                f'have SCAFFOLD take it as it is: optimizers="any".'
            )
        yield from super().join(me)
        zeros = {name: torch.zeros_like(entry) for name, entry in self.shared(me).items() if name in trained(me)}
        me.state.update(own=zeros, c=zeros)
        return None

    def introduction(self, me: Participant) -> dict[str, Any]:
        return {**super().introduction(me), "trained": sorted(trained(me))}

    def greeting(self, server: Server, sender: str) -> Schema:
        schema = super().greeting(server, sender)
        return replace(schema, facts={**schema.facts, "trained": Annotated[list[str], Field(max_length=MAX_TENSORS)]})

    def round(self, me: Participant) -> Steps:
        yield from super().round(me)
        change = me.state.pop("change")
        me.state["own"] = {name: c + change[name] for name, c in me.state["own"].items()}
        return None

    def local_work(self, me: Participant) -> Generator[Request, Any, Fitted]:
        x = self.shared(me)
        fitted: Fitted = yield self.training(me)
        me.state["change"] = self.change(me, x, fitted.steps)
        return fitted

    def upload(self, me: Participant, fitted: Fitted) -> Payload:
        return Payload({**self.shared(me), **under(CONTROL, me.state["change"])})

    def training(self, me: Participant) -> Fit:
        return Fit(combine_gradients=corrected, context={"c": me.state["c"], "own": me.state["own"]})

    def change(self, me: Participant, x: Mapping[str, Tensor], steps: int) -> dict[str, Tensor]:
        """c_i⁺ − c_i = (x − y)/(Kη) − c; nothing, where no step was taken."""
        y, c = self.shared(me), me.state["c"]
        if not steps:
            return {name: torch.zeros_like(entry) for name, entry in c.items()}
        far = effective_steps(steps, me.plan) * me.plan.lr
        return {name: (x[name] - y[name]) / far - entry for name, entry in c.items()}

    def take(self, me: Participant, reply: Payload) -> None:
        """Loads the weights, and stores the server's control variate."""
        me.load({name: entry for name, entry in reply.tensors.items() if not name.startswith(f"{CONTROL}/")})
        if control := group_of(reply, CONTROL):
            me.state["c"] = control

    def reply_schema(self, me: Participant, sent: Schema) -> Schema:
        """Weights, and a control variate for each that is trained."""
        entries = self.entries_schema(me).tensors or {}
        return Schema({**entries, **{f"{CONTROL}/{name}": entries[name] for name in me.state["c"]}})

    @exchange(lambda self, server, sender: Schema.of(self.reply(server, sender).tensors))
    def weights(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """The mean, and c ← c + ΣΔc_i / N."""
        old, c, sent = server.state["global"], dict(server.state.get("control", {})), Counter[str]()
        holders = Counter(key for name in server.state["told"] for key in self.controlled(server, name).values())
        merge = Merge(self, server, more={f"{CONTROL}/{key}": torch.zeros_like(old[key]) for key in holders})
        for sender, payload in answers:
            change, own = group_of(payload, CONTROL), self.controlled(server, sender)
            parts = [Part(f"{CONTROL}/{key}", change[name]) for name, key in own.items()]
            sent.update(own.values() if merge.add(sender, payload.tensors, more=parts) else ())
        means = merge.means()
        for key, count in sent.items():
            c[key] = c.get(key, 0) + means.pop(f"{CONTROL}/{key}") * (count / holders[key])
        self.step(server, means)
        server.state["control"] = c
        return self.replies(server, merge.senders)

    def step(self, server: Server, means: dict[str, Tensor]) -> None:
        old = server.state["global"]
        moved = {k: old[k] + self.server_lr * (means[k] - old[k]) for k in self.parameters(server) & means.keys()}
        super().step(server, means if self.server_lr == 1 else {**means, **moved})

    def controlled(self, server: Server, sender: str) -> dict[str, str]:
        """The keys of those entries of a participant that its control variate covers."""
        names = set(server.state["told"][sender]["trained"])
        return {name: key for name, key in self.keys(server, sender).items() if name in names}

    def reply(self, server: Server, sender: str) -> Payload:
        entries, c = self.entries(server, sender), server.state.get("control", {})
        own = {n: c.get(key, torch.zeros_like(entries[n])) for n, key in self.controlled(server, sender).items()}
        return Payload({**entries, **under(CONTROL, own)})


def trained(me: Participant) -> set[str]:
    """The names of what a participant trains."""
    return set(me.network.trainable())


def corrected(gradients: list[Gradients], context: Context) -> Gradients:
    """g − c_i + c."""
    c: Mapping[str, Any] = context["c"]
    return {name: g - context["own"][name] + c[name] if name in c else g for name, g in gradients[0].items()}
