"""Reads IDX, the format of MNIST's files: a type, the lengths of the axes, the numbers, all with high bytes first."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.core.errors import DataError

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(content: bytes, name: str) -> NDArray[Any]:
    """The array in a file; ``name`` is what an error calls it."""
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise DataError(f"{name} is no IDX file: it begins with {content[:4].hex(' ')}.")
    axes = content[3]
    shape = np.frombuffer(content[4 : 4 + 4 * axes], ">u4").tolist()
    kind = np.dtype(_TYPES[content[2]])
    expected = 4 + 4 * axes + prod(shape) * kind.itemsize
    if len(shape) != axes or len(content) != expected:
        raise DataError(f"{name} has {len(content):,} bytes; an IDX file of shape {tuple(shape)} has {expected:,}.")
    return np.frombuffer(content, kind, offset=4 + 4 * axes).reshape(shape).astype(kind.newbyteorder("="))
