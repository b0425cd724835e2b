from __future__ import annotations

import contextlib
import json
import random

import pytest
import torch

from potluck.channel.channel import Channel
from potluck.channel.codecs import Cast, Clip, Codec, Compress, Difference, LowRank, Noise, PayloadCodec, Quantize, TopK
from potluck.channel.limits import Limits
from potluck.core.errors import PayloadError, SettingsError
from potluck.core.payload import Payload
from potluck.core.schema import Schema, TensorSpec
from tests.channel.payloads import PAYLOAD as EVERYTHING
from tests.channel.payloads import route

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


# Codecs


class Shifted(Codec):
    """A user's own: adds one, and takes it off again."""

    def encode_tensor(self, tensor, coding):
        return {"": tensor + 1}

    def decode_tensor(self, parts, like, coding):
        return parts[""] - 1


CHAINS = [
    [Cast("bfloat16")],
    [Quantize(8)],
    [Quantize(4, stochastic=False)],
    [TopK(0.1)],
    [LowRank(0.3), Cast("float16")],
    [Compress("zlib")],
    [Clip(1.0), Noise(0.1)],
    [TopK(0.3), Quantize(4), Compress("zstd")],
    [Difference(), TopK(0.1), Quantize(8), Compress("zlib")],
    [Shifted(), Shifted(), Quantize(8)],
]


@pytest.mark.parametrize("chain", CHAINS, ids=str)
def test_what_is_received_is_decoded_from_what_travels(chain):
    channel, schema = Channel(up=chain), Schema.of(EVERYTHING.tensors, {"samples": int})
    coded = channel.encode(EVERYTHING, route(), {})
    read = channel.decode(Limits().read(coded.payload.to_bytes()), route(), {}, schema)
    channel.check(read, schema)
    assert read.facts == EVERYTHING.facts
    for name, tensor in coded.received.tensors.items():
        assert torch.equal(read[name], tensor)
    for name in ("count", "flag"):
        assert torch.equal(read[name], EVERYTHING[name])


def test_the_same_payload_is_coded_in_the_same_way_each_time():
    channel = Channel(up=[TopK(0.3), Quantize(8), Noise(0.1)])
    first, again = (channel.encode(EVERYTHING, route(), {}).payload.to_bytes() for _ in range(2))
    assert first == again
    assert channel.encode(EVERYTHING, route(participant="p1"), {}).payload.to_bytes() != first


def test_single_exchanges_have_codecs_of_their_own():
    special = Cast("float16")
    channel = Channel(
        up=[Quantize(8)], down=[TopK(0.1)], exchanges={"weights": {"up": [special]}, "start": {"down": []}}
    )
    assert channel.codecs("weights", "up") == [special]
    assert channel.codecs("weights", "down") == [TopK(0.1)]
    assert channel.codecs("start", "up") == [Quantize(8)]
    assert channel.codecs("start", "down") == []
    assert channel.of(["start"]).codecs("weights", "up") == [Quantize(8)]
    channel.check_exchanges("FedAvg", ["weights", "start"])
    with pytest.raises(SettingsError, match=r"no exchange of FedAvg\. Did you mean 'weight'\?"):
        channel.check_exchanges("FedAvg", ["weight", "start"])


class Counting(PayloadCodec):
    """Remembers how many payloads it has seen, up to two."""

    def encode(self, payload, coding):
        seen = coding.memory.pop("seen", 0) + 1
        if seen < 3:
            coding.memory["seen"] = seen
        return payload


def test_what_a_codec_forgets_is_forgotten():
    channel, memory = Channel(up=[Counting()]), {}
    for expected in ({"0": {"seen": 1}}, {"0": {"seen": 2}}, {}, {"0": {"seen": 1}}):
        channel.encode(PAYLOAD, route(), memory)
        assert memory["up"]["weights"] == expected


def test_without_codecs_nothing_happens():
    channel = Channel()
    assert channel.is_plain
    assert not channel.has_codecs
    assert channel.encode(PAYLOAD, route(), memory := {}).payload is PAYLOAD
    assert memory == {}
    assert not Channel(exchanges={"weights": {"up": [Clip(1.0)]}}).is_plain
    assert not Channel(audit=print).is_plain


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"limits": [Cast("float16")]}, r"limits is \[Cast\(.*\)\]; expected Limits\(…\)\. Codecs are named"),
        ({"exchanges": [Cast("float16")]}, r"exchanges is \[Cast"),
        ({"up": Cast("float16")}, r"up is Cast\(dtype='float16'\); expected a list of codecs"),
        ({"up": 3}, "up is 3; expected a list of codecs"),
        ({"up": "zstd"}, "up is 'zstd'; expected a list of codecs"),
        ({"down": ["zstd"]}, r"down\[0\] is 'zstd'; expected a codec"),
        ({"up": [TopK]}, r"up\[0\] is <class .*TopK'>; expected a codec"),
        ({"up": [Compress("zlib"), Cast("float16")]}, "Compress must be the last codec, and is number 1"),
        ({"up": [Cast("float16"), Difference()]}, "Difference must be the first codec, and is number 2"),
        ({"exchanges": {"weights": [Clip(1.0)]}}, r"exchanges\['weights'\] is .*; expected codecs by"),
        ({"exchanges": {"weights": {"upward": []}}}, r"expected codecs by"),
        ({"exchanges": {"weights": {"up": [3]}}}, r"exchanges\['weights'\]\['up'\]\[0\] is 3"),
    ],
)
def test_what_is_no_codec_is_told_at_once(settings, why):
    with pytest.raises(SettingsError, match=why):
        Channel(**settings)


def test_a_payload_that_decodes_to_more_than_its_schema_says_is_refused_before():
    channel = Channel(up=[TopK(0.5, min_size=0)])
    sent = channel.encode(Payload({"a": torch.ones(5_000_000)}), route(), {}).payload
    tensors = {"a|values": torch.ones(1), "a|places": torch.tensor([0], dtype=torch.int32)}
    small = Payload(tensors, sent.facts)
    for limits in (Limits(facts=1000), Limits(bytes=10_000)):
        with pytest.raises(PayloadError, match="would have 20000000 bytes when it is decoded"):
            Channel(limits, up=channel.up).decode(small, route(), {}, FITTING)


def test_what_is_decoded_must_be_finite():
    channel = Channel(up=[Quantize(8)])
    sent = channel.encode(Payload({"a": torch.ones(100)}), route(), {}).payload
    spoilt = Payload({**sent.tensors, "a|range": torch.tensor([float("nan"), 1.0])}, sent.facts)
    with pytest.raises(PayloadError, match="holds NaN"):
        channel.decode(spoilt, route(), {})


def test_a_fact_cannot_pass_for_a_codecs():
    with pytest.raises(PayloadError, match="a fact is named 'coded' or begins so"):
        Channel(up=[Clip(1.0)]).encode(Payload(facts={"coded 0": 3}), route(), {})


def test_settings_are_plain_values():
    channel = Channel(up=[TopK(0.1)], exchanges={"start": {"down": [Cast("float16")]}})
    assert channel.settings() == {
        "up": [{"name": "TopK", "share": 0.1, "error_feedback": True, "min_size": 64}],
        "down": [],
        "exchanges": {"start": {"down": [{"name": "Cast", "dtype": "float16", "min_size": 64}]}},
    }


def test_whoever_audits_is_told_of_each_payload():
    told = []
    channel = Channel(up=[Cast("float16")], audit=told.append)
    sent = channel.encode(EVERYTHING, route(), {})
    channel.decode(sent.payload, route(), {})
    assert [each.route for each in told] == [route(), route()]
    assert told[0].sha256 == told[1].sha256
    assert told[0].bytes == sent.payload.size
    assert told[0].uncoded_bytes == EVERYTHING.size


def changed(payload, draw):
    """A payload of which something is not as it was."""
    tensors, facts = dict(payload.tensors), json.loads(json.dumps(payload.facts))
    name = draw.choice(sorted(tensors))
    kind = draw.randrange(8)
    if kind == 0:
        del tensors[name]
    elif kind == 1:
        tensors[name] = tensors[name].to(draw.choice([torch.int64, torch.float64, torch.uint8, torch.bool]))
    elif kind == 2:
        tensors[name] = tensors[name].reshape(-1)[: draw.randrange(tensors[name].numel() + 1)]
    elif kind == 3:
        tensors[name] = torch.cat([tensors[name].reshape(-1)] * 2)
    elif kind == 4:
        tensors[draw.choice(["w|x", "weight|", "|", "packed", "weight", "weight|values|codes"])] = tensors[name]
    elif kind == 5 and tensors[name].is_floating_point():
        tensors[name] = tensors[name] * float("nan")
    elif kind == 6:
        tensors[name] = -tensors[name] if tensors[name].dtype != torch.bool else tensors[name]
    mark = draw.choice(["coded 0", "coded 1", "coded 2"])
    if kind == 7:
        facts[mark] = draw.choice(
            [None, 3, [], {}, {"weight": ["float32", 3]}, {"weight|values": ["float64", 10**6]}, "x"]
        )
    return Payload(tensors, facts)


@pytest.mark.parametrize("chain", CHAINS, ids=str)
def test_whatever_comes_is_read_or_refused(chain):
    """Never another error, and never more memory than allowed."""
    draw, channel = random.Random(3), Channel(Limits(bytes=10**6), up=chain)
    sent = channel.encode(EVERYTHING, route(), {}).payload
    for _ in range(60):
        given = changed(sent, draw)
        if given.tensors and draw.random() < 0.5:
            given = changed(given, draw)
        with contextlib.suppress(PayloadError):
            channel.decode(given, route(), {})
