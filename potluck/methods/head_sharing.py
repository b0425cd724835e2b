"""Sharing a linear head, whatever its name in each network, in front of a body of everybody's own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from potluck.core.errors import RequirementsError
from potluck.core.model_spec import ModelSpec
from potluck.core.payload import Payload, dtype_named
from potluck.core.plan import Plan
from potluck.federation.method import Leaving, Needs
from potluck.federation.participant import Participant
from potluck.federation.server import Server
from potluck.methods.weight_sharing import WeightSharing


class HeadSharing(WeightSharing):
    """Joining with one common head, which the first participant by name brings: a Linear layer of one shape for all.

    Args:
        aggregation: "whole": the head is one for all.
        weighting: as in ``WeightSharing``.
        batchnorm: "average": a head has no normalisation layer.
    """

    needs = Needs(torch_module=True, head=True, one_label_space=True)
    sends: ClassVar[Mapping[str, str]] = {
        "greet": "how many samples it has, and the shape and type of its head, once",
        "start": "the head that all start from, if it is the first by name, once",
        "fetch": "that it sat out, and asks for the current head",
    }
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {"greet": ("statistics",), "start": ("weights",), "fetch": ()}

    aggregation: Literal["whole"] = "whole"
    batchnorm: Literal["average"] = "average"

    def shared(self, me: Participant) -> dict[str, Tensor]:
        return {name: entry.detach().cpu().clone() for name, entry in linear_head(me).named_parameters()}

    def take(self, me: Participant, reply: Payload) -> None:
        layer = head_of(me)
        me.load({f"{layer}.{name}": reply[name] for name in ("weight", "bias") if name in reply.tensors})


def head_of(me: Participant) -> str:
    """The one layer that is a participant's head."""
    if len(me.head) > 1:
        raise RequirementsError(f"{me.name}'s head is {', '.join(me.head)}; expected one Linear layer.")
    return me.head[0]


def linear_head(me: Participant) -> nn.Linear:
    """That layer."""
    layer = me.network.model.get_submodule(head_of(me))
    if not isinstance(layer, nn.Linear):
        found = f"{me.name}'s head, {head_of(me)}, is a {type(layer).__name__}"
        raise RequirementsError(f'{found}; expected a Linear layer. Name one: Participant(head="…").')
    return layer


def global_head(method: WeightSharing, server: Server) -> dict[str, Tensor]:
    """The common head."""
    return method.entries(server, next(iter(server.state["layouts"])))


def head_shape(server: Server) -> tuple[int, int]:
    """How many classes a head tells apart, and by how many features."""
    layout = next(iter(server.state["layouts"].values()))
    _, classes, width = layout["weight"]
    return int(classes), int(width)


def head_spec(server: Server, plan: Plan, keep_optimizer: bool) -> ModelSpec:
    """The head as a model of the server's."""
    layout: dict[str, Any] = next(iter(server.state["layouts"].values()))
    classes, width = head_shape(server)
    build = partial(_linear, width, classes, "bias" in layout, dtype_named(layout["weight"][0]))
    return ModelSpec(build, plan=plan, keep_optimizer=keep_optimizer)


def _linear(width: int, outputs: int, bias: bool, dtype: torch.dtype) -> nn.Linear:
    return nn.Linear(width, outputs, bias, dtype=dtype)
