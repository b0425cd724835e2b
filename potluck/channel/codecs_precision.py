"""Codecs that send fewer bits for each value: a shorter type of floats, or a few levels within a tensor's range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from potluck.channel.codec import Codec, Coding, Original, Parts, part


class Cast(Codec):
    """Sends floats as a shorter type. Values beyond its range become the largest it has.

    Args:
        dtype: "float16" or "bfloat16".
        min_size: tensors with fewer values pass as they are; by default 64.
    """

    dtype: Literal["float16", "bfloat16"]

    if TYPE_CHECKING:

        def __init__(self, dtype: Literal["float16", "bfloat16"], *, min_size: int = 64) -> None: ...

    def encode_tensor(self, tensor: Tensor, coding: Coding) -> Parts | None:
        short = self._short
        if tensor.element_size() <= short.itemsize:
            return None
        most = torch.finfo(short).max
        return {"": tensor.clamp(-most, most).to(short)}  # NaN stays NaN, which is refused

    def decode_tensor(self, parts: Parts, like: Original, coding: Coding) -> Tensor:
        return part(parts, "", self._short, like.size).to(like.dtype).reshape(like.shape)

    @property
    def _short(self) -> torch.dtype:
        return torch.float16 if self.dtype == "float16" else torch.bfloat16


class Quantize(Codec):
    """Sends each value as one of 2^bits levels, evenly spaced from a tensor's least value to its largest.

    A value v between levels is rounded up with the probability of its distance from the lower one, so that the mean of
    many is right (as in QSGD, Alistarh et al., 2017, and FedPAQ, Reisizadeh et al., 2020); or to the nearest.

    Args:
        bits: 8 (the default), or 4: then two values travel in a byte.
        stochastic: whether rounding is by chance, without bias; by default True.
        min_size: tensors with fewer values pass as they are; by default 64.
    """

    bits: Literal[8, 4] = 8
    stochastic: bool = True

    if TYPE_CHECKING:

        def __init__(self, bits: Literal[8, 4] = 8, stochastic: bool = True, *, min_size: int = 64) -> None: ...

    def encode_tensor(self, tensor: Tensor, coding: Coding) -> Parts | None:
        values = tensor.reshape(-1).to(_working(tensor.dtype))
        least, largest = values.aminmax()
        places = (values - least) * (self._top / (largest - least))
        chance = torch.rand(len(values), generator=coding.generator()) if self.stochastic else 0.5
        codes = (places + chance).floor().nan_to_num(0.0).clamp(0, self._top).to(torch.uint8)
        if self.bits == 4:
            codes = _packed(codes)
        return {"codes": codes, "range": torch.stack([least, largest])}

    def decode_tensor(self, parts: Parts, like: Original, coding: Coding) -> Tensor:
        count, working = like.size, _working(like.dtype)
        codes = part(parts, "codes", torch.uint8, count if self.bits == 8 else (count + 1) // 2)
        least, largest = part(parts, "range", working, 2)
        if self.bits == 4:
            codes = _unpacked(codes)[:count]
        values = least + codes.to(working) * ((largest - least) / self._top)
        return torch.minimum(values, largest).to(like.dtype).reshape(like.shape)

    @property
    def _top(self) -> int:
        return 255 if self.bits == 8 else 15


def _packed(codes: Tensor) -> Tensor:
    """Two codes of four bits in a byte, the first in the lower half."""
    even = torch.cat([codes, codes.new_zeros(len(codes) % 2)]).reshape(-1, 2)
    return even[:, 0] | (even[:, 1] << 4)


def _unpacked(packed: Tensor) -> Tensor:
    return torch.stack([packed & 15, packed >> 4], dim=1).reshape(-1)


def _working(dtype: torch.dtype) -> torch.dtype:
    """The type that ranges are computed in: half precision would be too coarse."""
    return dtype if dtype == torch.float64 else torch.float32
