"""Small networks with adapters, and what tests of the methods that share them compute by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import potluck
from potluck.core.payload import Payload
from potluck.federation.server import Server
from tests.tables import mlp, participants

A, B = "1.lora_A.default.weight", "1.lora_B.default.weight"
LAYER = "1.base_layer"
ADAPTER_PLAN = potluck.Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=1000)


def low_rank_people(count: int, **settings: Any) -> list[potluck.Participant]:
    """Participants with the same network, of which a method trains adapters of layer 1 and the head, layer 3."""
    return participants([mlp(0, 5) for _ in range(count)], **{"plan": ADAPTER_PLAN, **settings})


def state_of(person: potluck.Participant) -> dict[str, Tensor]:
    return {name: entry.clone() for name, entry in person.weights().items()}


def adapter_step(
    w: Mapping[str, Tensor], person: potluck.Participant, scale: float, more: Any = None
) -> dict[str, Tensor]:
    """What a participant has after one step of plain SGD on its adapters and head, and perhaps a further loss."""
    leaves = {name: w[name].clone().requires_grad_() for name in (A, B, "3.weight", "3.bias")}
    x, y = person.data.x.flatten(1), person.data.y
    whole = w[f"{LAYER}.weight"] + scale * leaves[B] @ leaves[A]
    z = torch.tanh(x @ whole.T + w[f"{LAYER}.bias"])
    loss = F.cross_entropy(z @ leaves["3.weight"].T + leaves["3.bias"], y)
    loss = loss if more is None else loss + more(leaves)
    gradients = torch.autograd.grad(loss, list(leaves.values()))
    new = {name: (leaf - 0.1 * g).detach() for (name, leaf), g in zip(leaves.items(), gradients, strict=True)}
    return {**w, **new}


def head_mean(trained: list[dict[str, Tensor]], sizes: list[int]) -> dict[str, Tensor]:
    """The mean of the heads, by samples."""
    return {
        name: sum(n * w[name] for n, w in zip(sizes, trained, strict=True)) / sum(sizes)  # type: ignore[misc]
        for name in ("3.weight", "3.bias")
    }


def low_rank_server(
    method: Any, pairs: Mapping[str, tuple[Any, Any]], samples: Mapping[str, int], scales: Mapping[str, float]
) -> tuple[Server, dict[str, tuple[Tensor, Tensor]]]:
    """A server that has put together one adapter of each, A and B as lists, and what each receives."""
    server = Server(0, dict.fromkeys(pairs, 1.0))
    parts = {name: (torch.tensor(a), torch.tensor(b)) for name, (a, b) in pairs.items()}
    told = {
        name: {
            "samples": samples[name],
            "layout": {},
            "adapters": {A: ["float32", *a.shape], B: ["float32", *b.shape]},
            "scales": {"1": float(scales[name])},
            "frozen": [],
            "checksum": "",
        }
        for name, (a, b) in parts.items()
    }
    method.greet(server, iter((name, Payload(facts=facts)) for name, facts in told.items()))
    answers = {name: Payload({A: a, B: b}) for name, (a, b) in parts.items()}
    replies = method.weights(server, iter(answers.items()))
    return server, {name: (replies[name][A], replies[name][B]) for name in parts}
