"""Codecs that leave out what matters least: all but the largest values, or all but a matrix's strongest directions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from potluck.channel.codec import Codec, Coding, Original, Parts, part
from potluck.core.errors import PayloadError
from potluck.core.payload import Payload


class TopK(Codec):
    """Sends each tensor's largest values by magnitude, and where they are; the receiver has zeros elsewhere.

    With error feedback (Seide et al., 2014; Stich et al., 2018) the sender adds what it left out to what it sends the
    next time, in the same exchange and direction; whatever codecs after this one lose is made good in the same way.
    That is for changes, such as gradients: with whole weights, put ``Difference()`` before it.

    Args:
        share: how much of each tensor is sent, above 0 and up to 1; at least one value.
        error_feedback: whether what is left out is added the next time; by default True.
        min_size: tensors with fewer values pass as they are; by default 64.
    """

    feeds_back: ClassVar[bool] = True

    share: float = Field(gt=0, le=1)
    error_feedback: bool = True

    if TYPE_CHECKING:

        def __init__(self, share: float, error_feedback: bool = True, *, min_size: int = 64) -> None: ...

    def encode_tensor(self, tensor: Tensor, coding: Coding) -> Parts:
        values = self._owed(coding.tensor, tensor, coding).reshape(-1)
        count = max(1, math.ceil(self.share * len(values)))
        places = values.abs().topk(count, sorted=False).indices.sort().values
        return {"values": values[places], **_written(places, len(values))}

    def decode_tensor(self, parts: Parts, like: Original, coding: Coding) -> Tensor:
        places = _read(parts, like.size)
        values = part(parts, "values", like.dtype, len(places))
        return torch.zeros(like.size, dtype=like.dtype).index_copy_(0, places, values).reshape(like.shape)

    def settle(self, payload: Payload, received: Payload, coding: Coding) -> None:
        """What was owed and did not arrive is owed the next time, unless it is in the next payload by itself."""
        if not self.error_feedback:
            return
        for name, tensor in payload.tensors.items():
            if self.codes(name, tensor, coding) and name not in coding.corrected:
                coding.memory[name] = self._owed(name, tensor, coding) - received[name]

    def _owed(self, name: str, tensor: Tensor, coding: Coding) -> Tensor:
        left = None if name in coding.corrected else coding.memory.get(name)
        return tensor if left is None or left.shape != tensor.shape else tensor + left.to(tensor.dtype)


def _written(places: Tensor, size: int) -> dict[str, Tensor]:
    """Positions in ascending order, as numbers or as a bit for each value: whatever is shorter."""
    kind = next(kind for kind in (torch.uint8, torch.int16, torch.int32, torch.int64) if size <= torch.iinfo(kind).max)
    if len(places) * kind.itemsize <= (size + 7) // 8:
        return {"places": places.to(kind)}
    bits = torch.zeros(size, dtype=torch.bool)
    bits[places] = True
    return {"mask": torch.from_numpy(np.packbits(bits.numpy(), bitorder="little"))}


def _read(parts: Parts, size: int) -> Tensor:
    """Positions in a tensor of some size."""
    if "mask" in parts:
        mask = part(parts, "mask", torch.uint8, (size + 7) // 8)
        found = torch.from_numpy(np.unpackbits(mask.contiguous().numpy(), bitorder="little")).nonzero().reshape(-1)
    elif "places" in parts and not parts["places"].is_floating_point():
        found = parts["places"].reshape(-1).long()
    else:
        raise PayloadError("it does not say where its values are")
    if len(found) and not 0 <= int(found.min()) <= int(found.max()) < size:
        raise PayloadError(f"it has values outside of its {size}")
    return found


class LowRank(Codec):
    """Sends a matrix as the product of two thin ones, where that is smaller; of more dimensions, the first by the rest.

    The singular value decomposition's strongest directions are kept: as few as hold ``energy`` of the squared singular
    values (FedKD, Wu et al., 2022, section "Dynamic Gradients Approximation").

    Args:
        energy: the share of the squared singular values that is kept, above 0 and up to 1.
        min_size: tensors with fewer values pass as they are; by default 64.
    """

    energy: float = Field(gt=0, le=1)

    if TYPE_CHECKING:

        def __init__(self, energy: float, *, min_size: int = 64) -> None: ...

    def encode_tensor(self, tensor: Tensor, coding: Coding) -> Parts | None:
        matrix = tensor.reshape(len(tensor), -1) if tensor.ndim > 1 else None
        if matrix is None or not bool(torch.isfinite(matrix).all()):
            return None  # what is not finite has no decomposition, and is refused
        working = matrix if matrix.dtype == torch.float64 else matrix.float()
        left, strengths, right = torch.linalg.svd(working, full_matrices=False)
        held = strengths.double().square().cumsum(0)
        rank = min(len(strengths), 1 + int((held < self.energy * held[-1]).sum()))
        if rank * sum(matrix.shape) >= matrix.numel():
            return None
        return {"left": (left * strengths)[:, :rank].to(tensor.dtype), "right": right[:rank].to(tensor.dtype)}

    def decode_tensor(self, parts: Parts, like: Original, coding: Coding) -> Tensor:
        rows = like.shape[0] if len(like.shape) > 1 else 0
        if not rows or not like.size or {"left", "right"} - set(parts):
            raise PayloadError(f"a tensor of shape {like.shape} is no product of two matrices")
        rank = parts["left"].numel() // rows
        left = part(parts, "left", like.dtype, rows * rank).reshape(rows, rank)
        right = part(parts, "right", like.dtype, rank * (like.size // rows)).reshape(rank, -1)
        working = like.dtype if like.dtype == torch.float64 else torch.float32
        return (left.to(working) @ right.to(working)).to(like.dtype).reshape(like.shape)
