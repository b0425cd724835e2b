"""The codec that packs a whole payload, header and all, without loss."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from potluck.channel.codec import Coding, PayloadCodec
from potluck.core.errors import PayloadError
from potluck.core.payload import Payload


class Compress(PayloadCodec):
    """Packs all bytes of a payload, where that makes it smaller. It must be the last codec: others see bytes after it.

    How small it gets depends on the last bits of the values, so bytes may differ a little from engine to engine.

    Args:
        algorithm: "zstd" (the default), which needs the package zstandard (``pip install "potluck-fl[compression]"``),
            or "zlib", which comes with Python and is slower.
        level: how hard it tries; by default 3.
        min_bytes: payloads of fewer bytes pass as they are; by default 256.
    """

    place: ClassVar[Literal["last"]] = "last"

    algorithm: Literal["zstd", "zlib"] = "zstd"
    level: int = Field(3, ge=1, le=22)
    min_bytes: int = Field(256, ge=0)

    if TYPE_CHECKING:

        def __init__(
            self, algorithm: Literal["zstd", "zlib"] = "zstd", level: int = 3, min_bytes: int = 256
        ) -> None: ...

    @model_validator(mode="after")
    def _installed(self) -> Compress:
        if self.algorithm == "zstd":
            _zstandard()
        elif self.level > 9:
            raise ValueError(f"zlib has levels from 1 to 9; got {self.level}.")
        return self

    def encode(self, payload: Payload, coding: Coding) -> Payload:
        if payload.size < self.min_bytes:
            return payload
        data = payload.to_bytes()
        packed = zlib.compress(data, self.level) if self.algorithm == "zlib" else self._zstd(data)
        sent = Payload({"packed": torch.frombuffer(bytearray(packed), dtype=torch.uint8)}, {coding.mark: len(data)})
        return sent if sent.size < payload.size else payload

    def decode(self, payload: Payload, coding: Coding) -> Payload:
        if coding.mark not in payload.facts:
            return payload
        size = payload.facts[coding.mark]
        packed = payload.tensors.get("packed")
        if type(size) is not int or size < 0 or len(payload.facts) > 1 or len(payload.tensors) > 1 or packed is None:
            raise PayloadError("it cannot be unpacked: expected packed bytes and their size")
        coding.fits(size)
        return Payload.from_bytes(self._unpacked(packed, size), finite=False)

    def _unpacked(self, packed: Tensor, size: int) -> bytes:
        """Exactly so many bytes; never more are made."""
        data = packed.contiguous().view(torch.uint8).numpy().tobytes()
        try:
            found = _inflated(data, size) if self.algorithm == "zlib" else _unzstd(data, size)
        except (zlib.error, ValueError) as error:
            raise PayloadError(f"it cannot be unpacked: {error}") from error
        if len(found) != size:
            raise PayloadError(f"it was said to unpack to {size} bytes; it gives {len(found)}")
        return found

    def _zstd(self, data: bytes) -> bytes:
        packed: bytes = _zstandard().ZstdCompressor(level=self.level).compress(data)
        return packed


def _inflated(data: bytes, size: int) -> bytes:
    stream = zlib.decompressobj()
    found = stream.decompress(data, size + 1)
    if not stream.eof or stream.unused_data:
        raise ValueError("more or fewer bytes than were announced")
    return found


def _unzstd(data: bytes, size: int) -> bytes:
    zstandard = _zstandard()
    try:
        if zstandard.frame_content_size(data) != size:
            raise ValueError("its header tells another size")
        found: bytes = zstandard.ZstdDecompressor().decompress(data, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    return found


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise ValueError(
            'Compress("zstd") needs the package zstandard: pip install "potluck-fl[compression]". '
            'Compress("zlib") needs nothing.'
        ) from None
    return zstandard
