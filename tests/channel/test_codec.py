"""What every codec of tensors leaves alone, marks, and refuses to decode."""

from __future__ import annotations

import pytest
import torch
from pydantic import Field

from potluck.channel.codec import Codec, PayloadCodec, part
from potluck.core.errors import PayloadError, SettingsError
from potluck.core.payload import Payload
from tests.channel.payloads import PAYLOAD, coding, route


class Halves(Codec):
    """A user's own: sends half of each value."""

    factor: float = Field(0.5, gt=0)

    def encode_tensor(self, tensor, coding):
        return {"halves": tensor * self.factor}

    def decode_tensor(self, parts, like, coding):
        return part(parts, "halves", like.dtype, like.size).reshape(like.shape) / self.factor


def decoded(codec, tensors, facts, **more):
    return codec.decode(Payload(tensors, facts), coding(**more))


def test_large_tensors_of_floats_are_coded_and_nothing_else():
    sent = Halves().encode(PAYLOAD, coding())
    assert set(sent.tensors) == {"weight|halves", "precise|halves", "bias", "count", "flag"}
    assert sent.facts == {"samples": 30, "coded 0": {"weight": ["float32", 12, 10], "precise": ["float64", 71]}}
    assert torch.equal(sent["weight|halves"], PAYLOAD["weight"] / 2)
    read = Halves().decode(sent, coding())
    assert read.facts == PAYLOAD.facts
    assert {name: (t.dtype, t.shape) for name, t in read.tensors.items()} == {
        name: (t.dtype, t.shape) for name, t in PAYLOAD.tensors.items()
    }
    for name, tensor in PAYLOAD.tensors.items():
        assert torch.equal(read[name], tensor)


def test_a_payload_without_such_tensors_passes_as_it_is():
    small = Payload({"bias": torch.ones(3)}, {"samples": 3})
    assert Halves().encode(small, coding()) is small
    assert Halves().decode(small, coding()) is small
    assert set(Halves(min_size=0).encode(small, coding()).tensors) == {"bias|halves"}
    empty = Payload({"none": torch.ones(0)})
    assert Halves(min_size=0).encode(empty, coding()) is empty


def test_settings_may_be_given_by_position_and_are_checked():
    assert Halves(0.25) == Halves(factor=0.25)
    assert repr(Halves(0.25, min_size=3)) == "Halves(factor=0.25)"
    with pytest.raises(SettingsError, match="factor = -1"):
        Halves(-1)
    with pytest.raises(TypeError, match="takes 1 settings by position; got 2"):
        Halves(1, 2)


def test_two_tensors_never_travel_under_one_name():
    double = Payload({"w": torch.ones(64), "w|halves": torch.ones(2)})
    with pytest.raises(PayloadError, match=r"two tensors would travel as 'w\|halves'"):
        Halves().encode(double, coding())


def test_what_is_declared_too_large_is_refused_before_it_is_made():
    for shape in ([2**39, 2**39], [10**6]):
        with pytest.raises(PayloadError, match=r"would have \d+ bytes when it is decoded; the limit is 1000000"):
            decoded(Halves(), {"w|halves": torch.ones(2)}, {"coded 0": {"w": ["float32", *shape]}})


@pytest.mark.parametrize(
    "told",
    [
        7,
        ["w"],
        {"w": 3},
        {"w": []},
        {"w": ["float32"] + [1] * 65},
        {"w": ["complex64", 2]},
        {"w": ["int64", 2]},
        {"w": ["float32", -2]},
        {"w": ["float32", 2.0]},
        {"w": ["float32", True]},
        {"w": ["float32", "2"]},
        {"w": ["float32", 2**40]},
    ],
)
def test_what_cannot_be_read_is_refused(told):
    with pytest.raises(PayloadError):
        decoded(Halves(), {"w|halves": torch.ones(2)}, {"coded 0": told})


@pytest.mark.parametrize(
    ("tensors", "why"),
    [
        ({}, "part 'halves' is missing"),
        ({"w|halves": torch.ones(3)}, "part 'halves' holds 3 of torch.float32; expected 2"),
        ({"w|halves": torch.ones(2, dtype=torch.int64)}, "part 'halves' holds 2 of torch.int64"),
    ],
)
def test_parts_that_are_not_as_they_should_be_are_refused(tensors, why):
    with pytest.raises(PayloadError, match=rf"tensor 'w' cannot be decoded by Halves: {why}"):
        decoded(Halves(), tensors, {"coded 0": {"w": ["float32", 2]}})


class Careless(Halves):
    """Trusts what it is sent."""

    def decode_tensor(self, parts, like, coding):
        return parts["halves"] + parts["halves"]


def test_a_careless_codec_of_ones_own_ends_nothing_but_the_payload():
    with pytest.raises(PayloadError, match="cannot be decoded by Careless: KeyError"):
        decoded(Careless(), {}, {"coded 0": {"w": ["float32", 2]}})
    with pytest.raises(PayloadError, match=r"cannot be decoded by Careless: it gives torch.float32 of shape \(3,\)"):
        decoded(Careless(), {"w|halves": torch.ones(3)}, {"coded 0": {"w": ["float32", 2]}})


def test_a_codec_without_halves_says_so():
    with pytest.raises(NotImplementedError, match="PayloadCodec has no `encode`"):
        PayloadCodec().encode(PAYLOAD, coding())
    with pytest.raises(NotImplementedError, match="Codec has no `encode_tensor`"):
        Codec().encode(PAYLOAD, coding())
    assert PayloadCodec().decode(PAYLOAD, coding()) is PAYLOAD


def test_random_numbers_belong_to_the_payload_the_codec_and_the_tensor():
    def drawn(**more):
        return torch.rand(4, generator=coding(**more).generator()).tolist()

    same = drawn()
    assert same == drawn(limit=3)
    others = [
        drawn(route=route(round=2)),
        drawn(route=route(exchange="start")),
        drawn(route=route("down")),
        drawn(route=route(participant="p1")),
        drawn(codec="1 Alone"),
        drawn(tensor="w"),
    ]
    assert all(other != same for other in others)
