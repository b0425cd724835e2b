from __future__ import annotations

import hashlib

import torch

from potluck.channel.transmission import Transmission
from potluck.core.payload import Payload
from tests.channel.payloads import route


def test_an_audit_log_is_told_what_travels_and_what_is_read():
    sent, read = Payload({"w": torch.ones(4, dtype=torch.float16)}), Payload({"w": torch.ones(4)}, {"samples": 3})
    told = Transmission(route(), sent, read)
    assert told.tensors == {"w": ["float32", 4]}
    assert told.facts == ["samples"]
    assert (told.bytes, told.uncoded_bytes) == (sent.size, read.size)
    assert told.sha256 == hashlib.sha256(sent.to_bytes()).hexdigest()
