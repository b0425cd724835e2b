from __future__ import annotations

import sys
import zlib

import pytest
import torch
import zstandard

from potluck.channel.codecs_bytes import Compress
from potluck.core.errors import PayloadError, SettingsError
from potluck.core.payload import Payload
from tests.channel.payloads import PAYLOAD, coding

EVEN = Payload({"zeros": torch.zeros(1000)}, {"note": "x" * 100})
BOTH = pytest.mark.parametrize("algorithm", ["zstd", "zlib"])


def packed(data, size):
    return Payload({"packed": torch.tensor(list(data), dtype=torch.uint8)}, {"coded 0": size})


@BOTH
def test_a_payload_comes_out_as_it_went_in(algorithm):
    sent = Compress(algorithm).encode(EVEN, coding())
    assert sent.size < EVEN.size / 10
    read = Compress(algorithm).decode(sent, coding())
    assert read.to_bytes() == EVEN.to_bytes()
    assert sent.facts == {"coded 0": EVEN.size}


@BOTH
def test_what_does_not_get_smaller_passes(algorithm):
    noise = Payload({"v": torch.randint(256, (3000,), dtype=torch.uint8)})
    assert Compress(algorithm).encode(noise, coding()) is noise
    assert Compress(algorithm).encode(small := Payload({"v": torch.zeros(4)}), coding()) is small
    assert Compress(algorithm).decode(PAYLOAD, coding()) is PAYLOAD


@BOTH
def test_a_bomb_is_not_unpacked(algorithm):
    bomb = bytes(10_000_000)
    data = zlib.compress(bomb) if algorithm == "zlib" else zstandard.ZstdCompressor().compress(bomb)
    assert len(data) < 10_000
    with pytest.raises(PayloadError, match="would have 10000000 bytes when it is decoded; the limit is 1000000"):
        Compress(algorithm).decode(packed(data, len(bomb)), coding())
    with pytest.raises(PayloadError, match="it cannot be unpacked"):
        Compress(algorithm).decode(packed(data, 5000), coding())


def test_a_frame_that_does_not_tell_its_size_is_not_unpacked():
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    data = stream.compress(bytes(10_000_000)) + stream.flush()
    for size in (5000, -1):
        with pytest.raises(PayloadError, match="it cannot be unpacked"):
            Compress("zstd").decode(packed(data, size), coding())


@BOTH
@pytest.mark.parametrize("data", [b"", b"nothing packed", b"\x28\xb5\x2f\xfd"])
def test_what_is_damaged_is_refused(algorithm, data):
    with pytest.raises(PayloadError):
        Compress(algorithm).decode(packed(data, 20), coding())


@BOTH
def test_more_than_was_announced_is_refused(algorithm):
    sent = Compress(algorithm).encode(EVEN, coding())
    longer = bytes(sent["packed"].tolist()) + b"more"
    with pytest.raises(PayloadError, match="it cannot be unpacked"):
        Compress(algorithm).decode(packed(longer, EVEN.size), coding())


@pytest.mark.parametrize("size", [-1, 1.5, "5", None, True, {}])
def test_a_size_is_a_number(size):
    with pytest.raises(PayloadError):
        Compress().decode(packed(b"x", size), coding())


def test_nothing_else_is_in_what_is_packed():
    sent = Compress().encode(EVEN, coding())
    with_tensor = Payload({**sent.tensors, "b": torch.ones(1)}, sent.facts)
    for more in (with_tensor, Payload(sent.tensors, {**sent.facts, "b": 1})):
        with pytest.raises(PayloadError, match="expected packed bytes and their size"):
            Compress().decode(more, coding())


def test_without_the_package_the_way_out_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(SettingsError, match=r'pip install "potluck-fl\[compression\]"'):
        Compress("zstd")
    Compress("zlib")
    with pytest.raises(SettingsError, match="zlib has levels from 1 to 9; got 15"):
        Compress("zlib", 15)
