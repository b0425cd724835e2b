"""IDX files are read as they are defined, and damaged ones are refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from potluck.core.errors import DataError
from potluck.ingestion.idx import read_idx


@pytest.mark.parametrize(
    ("code", "kind"), [(0x08, ">u1"), (0x09, ">i1"), (0x0B, ">i2"), (0x0C, ">i4"), (0x0D, ">f4"), (0x0E, ">f8")]
)
def test_numbers_of_every_type_come_with_their_shape(code, kind):
    array = np.arange(6).reshape(2, 3).astype(kind)
    found = read_idx(struct.pack(">HBB2I", 0, code, 2, 2, 3) + array.tobytes(), "x")
    assert found.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found.dtype.isnative
    assert found.flags.writeable


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"", "x is no IDX file: it begins with ."),
        (b"\x89PNG....", "it begins with 89 50 4e 47"),
        (b"\0\0\x07\x01\0\0\0\x00", "no IDX file"),
        (struct.pack(">HBBI", 0, 8, 1, 4) + b"abc", r"x has 11 bytes; an IDX file of shape \(4,\) has 12"),
        (struct.pack(">HBBI", 0, 8, 1, 2) + b"abc", "x has 11 bytes"),
        (b"\0\0\x08\x03\0\0\0\x01", "x has 8 bytes"),
    ],
)
def test_other_files_are_refused(content, wrong):
    with pytest.raises(DataError, match=wrong):
        read_idx(content, "x")
