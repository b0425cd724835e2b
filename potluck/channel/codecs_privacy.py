"""Codecs that bound what a payload can tell: its length is cut, and noise is added. The receiver sees just that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from pydantic import Field
from torch import Tensor

from potluck.channel.codec import Coding, PayloadCodec
from potluck.core.payload import Payload


class Clip(PayloadCodec):
    """Scales a payload's floats down to a length, all by one factor: v · min(1, norm / ‖v‖).

    ‖v‖ is the Euclidean norm over all its tensors of floating point (DP-FedAvg, McMahan et al., 2018, "flat clipping").
    That is for changes: with whole weights, put ``Difference()`` before it.

    Args:
        norm: the largest length.
    """

    norm: float = Field(gt=0)

    if TYPE_CHECKING:

        def __init__(self, norm: float) -> None: ...

    def encode(self, payload: Payload, coding: Coding) -> Payload:
        chosen = _floats(payload, coding)
        length = sum(float(tensor.double().square().sum()) for tensor in chosen.values()) ** 0.5
        if length <= self.norm:
            return payload
        return Payload({**payload.tensors, **{n: t * (self.norm / length) for n, t in chosen.items()}}, payload.facts)


class Noise(PayloadCodec):
    """Adds Gaussian noise to all floats of a payload.

    The noise derives from the federation's seed, so that runs can be repeated: whoever knows the seed, as the server
    does, can take it off again. It protects against others, not against the server.

    Args:
        std: the noise's standard deviation.
    """

    std: float = Field(gt=0)

    if TYPE_CHECKING:

        def __init__(self, std: float) -> None: ...

    def encode(self, payload: Payload, coding: Coding) -> Payload:
        chosen = _floats(payload, coding)
        if not chosen:
            return payload
        draw = coding.generator()
        # In the order of names, which is the same on every machine.
        noisy = {
            name: chosen[name] + (torch.randn(chosen[name].shape, generator=draw) * self.std).to(chosen[name].dtype)
            for name in sorted(chosen)
        }
        return Payload({**payload.tensors, **noisy}, payload.facts)


def _floats(payload: Payload, coding: Coding) -> dict[str, Tensor]:
    return {n: t for n, t in payload.tensors.items() if t.is_floating_point() and n not in coding.whole}
