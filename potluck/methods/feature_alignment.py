"""Drafts: outputs of a network's layers on common inputs, brought into one shape so that a mean can be taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from potluck.core.errors import PayloadError
from potluck.core.payload import Payload
from potluck.core.schema import Schema


def maps(draft: Tensor) -> Tensor:
    """A draft as samples × channels × height × width; sequences have height 1, and logits stay as they are."""
    return draft.unsqueeze(2) if draft.ndim == 3 else draft


def aligned(draft: Tensor, shape: Sequence[int], pad: bool = True) -> Tensor:
    """A draft in the shape of another's (DraftFed, eq. 7). Logits stay as they are.

    Height and width are averaged down or interpolated up, each on its own. Channels too many are cut off.

    Args:
        draft: the draft, as ``maps`` gives it.
        shape: channels, height and width of the result.
        pad: whether missing channels are filled with zeros (the default), or stay missing.
    """
    if draft.ndim == 2:
        return draft
    channels, height, width = shape
    smaller = F.adaptive_avg_pool2d(draft.double(), (min(draft.shape[2], height), min(draft.shape[3], width)))
    resized = F.interpolate(smaller, (height, width), mode="bilinear")[:, :channels]
    return F.pad(resized, (0, 0, 0, 0, 0, channels - resized.shape[1])) if pad else resized


@dataclass(frozen=True)
class ShapesSchema(Schema):
    """Shapes of drafts that the server may allocate memory for: with that many samples they fit into a payload.

    Args:
        samples: how many samples drafts are made of; by default 1.
        budget: how many bytes they may have; by default 0.
    """

    samples: int = 1
    budget: int = 0

    def check(self, payload: Payload) -> None:
        super().check(payload)
        size = 4 * self.samples * int(payload["shapes"].double().prod(dim=1).sum())
        if size > self.budget:
            raise PayloadError(f"drafts of these shapes have {size} bytes; the limit is {self.budget}")
