"""The codecs there are, by name."""

from __future__ import annotations

from potluck.channel.codec import Codec, PayloadCodec
from potluck.channel.codecs_bytes import Compress
from potluck.channel.codecs_difference import Difference
from potluck.channel.codecs_precision import Cast, Quantize
from potluck.channel.codecs_privacy import Clip, Noise
from potluck.channel.codecs_sparse import LowRank, TopK
from potluck.core.registry import Registry

CODECS = Registry(
    "codecs", {kind.__name__: kind for kind in (Cast, Clip, Compress, Difference, LowRank, Noise, Quantize, TopK)}
)

__all__ = [
    "CODECS",
    "Cast",
    "Clip",
    "Codec",
    "Compress",
    "Difference",
    "LowRank",
    "Noise",
    "PayloadCodec",
    "Quantize",
    "TopK",
]
