from __future__ import annotations

import pytest
import torch

from potluck.channel.channel import Channel
from potluck.channel.codecs_difference import Difference
from potluck.channel.codecs_privacy import Clip
from potluck.channel.codecs_sparse import TopK
from potluck.core.errors import PayloadError
from potluck.core.payload import Payload
from tests.channel.payloads import route

CHANNEL = Channel(up=[Difference()], down=[Difference()])


def payload(*values):
    return Payload({"v": torch.tensor(values), "n": torch.tensor(3)})


def known(channel, *values, number=1):
    """A participant's memory that has received these values."""
    memory: dict = {}
    channel.remember(payload(*values), route("down", number), memory)
    return memory


def test_the_change_travels_and_the_whole_is_read():
    memory = known(CHANNEL, 3.0, 4.0)
    sent = CHANNEL.encode(payload(5.0, 4.5), route(round=2), memory)
    assert sent.payload["v"].tolist() == [2.0, 0.5]
    assert sent.payload.facts == {"coded 0": {"1 weights 0": ["v"]}}
    assert sent.received["v"].tolist() == [5.0, 4.5]
    assert sent.received.facts == {}
    assert CHANNEL.decode(sent.payload, route(round=2), memory)["v"].tolist() == [5.0, 4.5]


def test_what_was_not_received_in_this_round_or_the_last_is_sent_whole():
    for memory, number in (({}, 2), (known(CHANNEL, 3.0, 4.0), 3), (known(CHANNEL, 1.0, 2.0, 3.0), 2)):
        given = payload(5.0, 4.5)
        assert CHANNEL.encode(given, route(round=number), memory).payload is given


def test_codecs_after_it_pass_over_what_is_sent_whole():
    channel = Channel(up=[Difference(), TopK(0.5, min_size=0), Clip(1.0)])
    assert channel.encode(payload(5.0, 4.5), route(), {}).received["v"].tolist() == [5.0, 4.5]
    cut = channel.encode(payload(8.0, 4.5), route(round=2), known(channel, 3.0, 4.0))
    assert cut.received["v"].tolist() == [4.0, 4.0], "the change of 5 is cut to 1, that of a half left out"


def test_on_the_way_down_the_next_change_makes_good_what_was_lost():
    """Nothing is owed beside it: it would be made good twice."""
    channel = Channel(down=[Difference(), TopK(0.5, min_size=0)])
    memory = known(channel, 0.0, 0.0)
    for number, expected in ((2, [5.0, 0.0]), (3, [5.0, 4.0]), (4, [5.0, 4.0])):
        read = channel.encode(payload(5.0, 4.0), route("down", number), memory).received
        channel.remember(read, route("down", number), memory)
        assert read["v"].tolist() == expected
    assert set(memory) == {"received"}


def test_a_change_of_something_unknown_is_refused():
    sent = CHANNEL.encode(payload(5.0, 4.5), route(round=2), known(CHANNEL, 3.0, 4.0)).payload
    changed = Payload(sent.tensors, {"coded 0": {"0 start 0": ["v"]}})
    for given, memory in ((sent, {}), (changed, known(CHANNEL, 3.0, 4.0)), (sent, known(CHANNEL, 3.0))):
        with pytest.raises(PayloadError, match="which is not known here"):
            CHANNEL.decode(given, route(round=2), memory)


@pytest.mark.parametrize("told", [3, [], {"1 weights 0": "v"}, {"1 weights 0": [7]}, {"1 weights 0": [["v"]]}])
def test_what_cannot_be_read_is_refused(told):
    with pytest.raises(PayloadError):
        CHANNEL.decode(Payload(payload(1.0, 2.0).tensors, {"coded 0": told}), route(round=2), known(CHANNEL, 3.0, 4.0))


def test_what_came_before_the_last_round_is_forgotten():
    memory = known(CHANNEL, 3.0, 4.0)
    CHANNEL.remember(Payload({"w": torch.ones(2)}), route("down", 2), memory)
    assert set(memory["received"]) == {"v", "w"}
    CHANNEL.remember(Payload({"w": torch.ones(2)}), route("down", 3), memory)
    assert set(memory["received"]) == {"w"}
