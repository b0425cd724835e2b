"""A participant's end of the channel: what it codes and decodes over Flower is what the simulation sees."""

from __future__ import annotations

import pytest

from potluck.flower.protocol import Failed
from potluck.methods import FD, FedAvg
from potluck.recipes.channel_section import ChannelSection
from tests.flower.fakes import PUBLIC, FakeGrid, client_of, invitation, on_serial, over_flower, people, served

TOPK = {"name": "topk", "share": 0.2}
SPARSE = {"up": ["difference", TOPK, {"name": "quantize", "bits": 4}, "compress"], "down": ["difference", TOPK]}
COARSE = {"up": ["quantize"], "down": [{"name": "cast", "dtype": "bfloat16"}], "exchanges": {"greet": {"down": []}}}


def both(method, told, folder):
    """The rows of a federation over Flower, and those of the serial engine."""
    section = ChannelSection.model_validate(told)
    public = PUBLIC if method.requires().public != "nothing" else None
    asked = invitation(method, public=public, channel=section.model_dump(mode="json"))
    federation, _ = over_flower(method, folder, channel=section.build(), invite=asked)
    return federation.run(2).rows(), on_serial(method, channel=section.build()).rows()


@pytest.mark.parametrize(("method", "told"), [(FedAvg(), SPARSE), (FedAvg(), COARSE), (FD(), {"up": ["quantize"]})])
def test_the_history_is_the_serial_engines(method, told, tmp_path):
    found, expected = both(method, told, tmp_path)
    assert not any(row["refused"] for row in found)
    same(found, expected)


def coded(folder, told=SPARSE, rounds=1):
    """A federation of three whose payloads are coded, its grid, and the serial engine's rows after three rounds."""
    section = ChannelSection.model_validate(told)
    asked = invitation(FedAvg(), channel=section.model_dump(mode="json"))
    federation, grid = over_flower(FedAvg(), folder, channel=section.build(), invite=asked)
    federation.run(rounds)
    return federation, grid, on_serial(FedAvg(), 3, channel=section.build()).rows()


def same(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        assert {**ours, "seconds": 0} == {**theirs, "seconds": 0}


def test_who_is_started_again_in_the_middle_of_a_round_codes_as_before(tmp_path):
    federation, grid, expected = coded(tmp_path)
    own = {p.name: p for p in people(FedAvg())}

    class Interrupted:
        """Dies when the weights of round 2 come back, and is started again with what is on its disk."""

        def __init__(self, node, before):
            self.node, self.before = node, before

        def answer(self, message):
            if (message.head.get("round"), message.head.get("step")) == (2, 1):
                grid.clients[self.node] = client_of(own["p1"], tmp_path)
                grid.since[self.node] = "second"
            return self.before.answer(message)

    grid.clients[101] = Interrupted(101, grid.clients[101])
    federation.run(2)
    same(federation.history.rows(), expected)


def test_who_misses_a_reply_is_sent_the_whole_again(tmp_path):
    """The server cannot know whether a reply has arrived, so it counts on nothing."""
    federation, grid, _ = coded(tmp_path)
    inner = grid.clients[101]

    class Deaf:
        """Receives nothing of round 2's reply."""

        def answer(self, message):
            if (message.head.get("round"), message.head.get("step")) == (2, 1):
                return Failed(name="p1", error="Deaf").message()
            return inner.answer(message)

    grid.clients[101] = Deaf()
    federation.run(3)
    refused = {row["round"]: row["refused"] for row in federation.history.rows() if row["participant"] == "p1"}
    assert refused[2] == "it failed there with Deaf"
    assert refused[3] is None
    assert refused[4] is None


def test_both_ends_tell_their_audit_logs_the_same(tmp_path):
    here, there = [], []
    section = ChannelSection.model_validate({"up": ["quantize"]})
    asked = invitation(FedAvg(), channel=section.model_dump(mode="json"))
    own = people(FedAvg())
    grid = FakeGrid(client_of(p, tmp_path, audit=there.append if p.name == "p1" else None) for p in own)
    names = [p.name for p in own]
    federation = served(grid, FedAvg(), names, invite=asked, channel=section.build(audit=here.append))
    federation.run(1)
    of_p1 = {(told.route, told.sha256) for told in here if told.route.participant == "p1"}
    assert of_p1 == {(told.route, told.sha256) for told in there}
    assert len(of_p1) == 6


def test_codecs_that_cannot_be_had_here_are_declined(tmp_path):
    client = client_of(people(FedAvg())[0], tmp_path)
    answer = client.answer(invitation(FedAvg(), channel={"up": ["topc"]}).message())
    assert answer.head["kind"] == "declined"
    assert "the server's codecs" in answer.head["reason"]
    assert "There is no codec 'topc'" in answer.head["reason"]
