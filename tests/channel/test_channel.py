from __future__ import annotations

import pytest
import torch

from potluck.channel.channel import Channel
from potluck.channel.limits import Limits
from potluck.core.errors import PayloadError
from potluck.core.payload import Payload
from potluck.core.schema import Schema, TensorSpec

PAYLOAD = Payload({"a": torch.ones(3)})
FITTING = Schema({"a": TensorSpec((3,))})


def test_the_size_is_what_travels():
    assert Channel().size(PAYLOAD) == len(PAYLOAD.to_bytes())


def test_a_payload_must_be_small_enough_and_what_was_asked_for():
    Channel(Limits(bytes=PAYLOAD.size)).check(PAYLOAD, FITTING)
    with pytest.raises(PayloadError, match=f"the limit is {PAYLOAD.size - 1}"):
        Channel(Limits(bytes=PAYLOAD.size - 1)).check(PAYLOAD, FITTING)
    with pytest.raises(PayloadError, match="'a'"):
        Channel().check(PAYLOAD, Schema({"a": TensorSpec((4,))}))


def test_each_channel_has_the_default_limits():
    assert Channel().limits == Limits()
