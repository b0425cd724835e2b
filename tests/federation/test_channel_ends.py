"""Federations whose payloads are coded: every engine sees the same, and what codecs remember is kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import potluck
from potluck.channel.channel import Channel
from potluck.channel.codecs import Cast, Clip, Codec, Compress, Difference, Noise, Quantize, TopK
from potluck.core.errors import SettingsError
from potluck.core.payload import Payload
from potluck.methods import FD, FedAvg
from tests.resumable import resumable
from tests.tables import PLAN, agree, cnn, made_data, participants, weights_agree

CHANNELS = {
    "cast": Channel(up=[Cast("float16")], down=[Cast("bfloat16")]),
    "coarse": Channel(up=[Quantize(4)], down=[Quantize(8)]),
    "sparse": Channel(up=[Difference(), TopK(0.1), Quantize(8)], down=[Difference(), TopK(0.3)]),
    "noisy": Channel(up=[Difference(), Clip(0.5), Noise(0.001)], exchanges={"start": {"up": [TopK(0.9)]}}),
}
SPARSE = CHANNELS["sparse"]


def federation(channel, engine="serial", **settings):
    people = participants([cnn(i) for i in range(4)])
    return potluck.Federation(people, FedAvg(), test=made_data(40, 91), engine=engine, channel=channel, **settings)


@pytest.mark.parametrize("name", CHANNELS)
def test_engines_agree(name):
    alone, together = (federation(CHANNELS[name], engine) for engine in ("serial", "batched"))
    agree(alone.run(3).rows(), together.run(3).rows(), 1e-9)
    weights_agree(alone.participants.values(), together.participants.values(), 1e-9)


def test_bytes_are_those_after_coding():
    plain, coded = federation(None), federation(Channel(up=[Cast("float16")]))
    before, after = (each.run(2).rows()[-1] for each in (plain, coded))
    weights = plain.participants["p0"].weights()
    layout = {n: [str(e.dtype).removeprefix("torch."), *e.shape] for n, e in weights.items() if e.numel() >= 64}
    short = {n: e.half() if n in layout else e for n, e in weights.items()}
    assert before["bytes_up"] == Payload(weights).size
    assert after["bytes_up"] == Payload(short, {"coded 0": layout}).size
    assert after["bytes_down"] == before["bytes_down"]


def test_participants_see_what_travelled():
    """A cast on the way down leaves nothing but values that a half has."""
    coded = federation(Channel(down=[Cast("float16", min_size=0)]))
    coded.run(1)
    for person in coded.participants.values():
        for entry in person.weights().values():
            assert torch.equal(entry, entry.half().to(entry.dtype))


def test_a_run_that_was_cut_off_goes_on_with_what_codecs_remember(tmp_path):
    unbroken = resumable(FedAvg(), channel=SPARSE).run(4).rows()
    resumable(FedAvg(), channel=SPARSE).run(2, run_dir=tmp_path)
    resumed = resumable(FedAvg(), channel=SPARSE)
    agree(unbroken, resumed.run(4, run_dir=tmp_path, resume=True).rows(), 0)
    memory = resumed.participants["p0"].codec_memory
    assert set(memory) == {"up"}
    assert set(memory["up"]["weights"]) == {"1"}, "what the second codec left out"
    assert set(resumed.server.codec_memory["p0"]) == {"received"}


def test_another_channel_does_not_take_up_the_run(tmp_path):
    resumable(FedAvg(), channel=SPARSE).run(1, run_dir=tmp_path)
    with pytest.raises(potluck.PotluckError, match="channel"):
        resumable(FedAvg()).run(2, run_dir=tmp_path, resume=True)
    with pytest.raises(potluck.PotluckError, match="channel"):
        resumable(FedAvg(), channel=Channel(up=[TopK(0.2)])).run(2, run_dir=tmp_path, resume=True)


def test_on_disk_they_remember_too():
    on_disk = federation(SPARSE, storage="disk", max_concurrent=2)
    agree(federation(SPARSE, max_concurrent=2).run(3).rows(), on_disk.run(3).rows(), 0)
    assert "codecs" not in on_disk.participants["p0"].held


def test_what_the_servers_codecs_remember_is_in_the_checkpoint(tmp_path):
    channel = Channel(down=[TopK(0.5)], exchanges={"start": {"down": []}})
    unbroken = resumable(FedAvg(), channel=channel).run(3).rows()
    resumable(FedAvg(), channel=channel).run(2, run_dir=tmp_path)
    resumed = resumable(FedAvg(), channel=channel)
    agree(unbroken, resumed.run(3, run_dir=tmp_path, resume=True).rows(), 0)
    assert set(resumed.server.codec_memory) == {"p0", "p1", "p2"}


def test_a_new_federation_remembers_nothing():
    people = participants([cnn(i) for i in range(2)])
    first = potluck.Federation(people, FedAvg(), engine="serial", channel=SPARSE)
    first.run(2)
    assert people[0].codec_memory
    potluck.Federation(people, FedAvg(), engine="serial", channel=SPARSE)
    assert not people[0].codec_memory


class Telling(potluck.Method):
    """Everybody sends a list of numbers twice."""

    def round(self, me):
        for _ in range(2):
            yield potluck.Exchange("tell", Payload({"x": torch.linspace(0, 1, 100)}))

    @potluck.exchange(lambda self, server, sender: potluck.Schema({"x": potluck.TensorSpec((100,))}), repeats=True)
    def tell(self, server, answers):
        server.state.setdefault("heard", {}).update({name: payload["x"] for name, payload in answers})
        return Payload()


@pytest.mark.parametrize("codec", [Quantize(4), TopK(0.1), Noise(0.1)], ids=repr)
def test_an_honest_answer_stays_one_whatever_its_bounds(codec):
    """Probabilities are from 0 to 1 and sum to 1, which codecs know nothing of."""
    channel = Channel(up=[codec], down=[codec])
    rows = resumable(FD(), channel=channel).run(2).rows()
    assert not any(row["refused"] for row in rows)


def test_a_payload_that_is_sent_twice_is_coded_anew():
    read = []
    people = participants([cnn(0)], plan=PLAN)
    channel = Channel(up=[Quantize(4)], audit=lambda sent: read.append(sent.sha256))
    potluck.Federation(people, Telling(), engine="serial", channel=channel).run(1)
    assert len(set(read)) == 3, "two different payloads up, two equal ones down"


class Growing(Codec):
    """Breaks the schema, as a codec of one's own may."""

    def encode_tensor(self, tensor, coding):
        return {"": tensor * float("inf")}

    def decode_tensor(self, parts, like, coding):
        return parts[""]


def test_what_a_codec_spoils_costs_the_sender_its_round():
    people = participants([cnn(0), cnn(1)])
    rows = potluck.Federation(people, Telling(), engine="serial", channel=Channel(up=[Growing()])).run(1).rows()
    assert [row["refused"] for row in rows] == ["tell: tensor 'x' holds NaN or infinity"] * 2
    assert rows[0]["bytes_up"] > 0


def test_what_would_pass_for_a_codecs_fact_costs_the_sender_its_round():
    class Marked(Telling):
        def round(self, me):
            yield potluck.Exchange("tell", Payload({"x": torch.zeros(100)}, {"coded 0": 3}))

    people = participants([cnn(0)])
    rows = potluck.Federation(people, Marked(), engine="serial", channel=Channel(up=[Clip(1.0)])).run(1).rows()
    assert rows[0]["refused"].startswith("tell: a fact is named 'coded'")


def test_an_exchange_that_there_is_not_is_an_error():
    with pytest.raises(SettingsError, match="The channel has codecs for 'weigths', no exchange of FedAvg"):
        federation(Channel(exchanges={"weigths": {"up": [Compress("zlib")]}}))
    with pytest.raises(SettingsError, match=r"channel is \[TopK\(share=0.1, .*\)\]; expected a Channel"):
        federation([TopK(0.1)])


def test_what_was_received_is_held_once_and_for_two_rounds():
    channel = Channel(up=[Difference(), TopK(0.1)])
    played = federation(channel, participation=2)
    for number in range(1, 7):
        played.run(1)
        received = [memory["received"] for memory in played.server.codec_memory.values() if memory.get("received")]
        assert all(kept["round"] >= number - 1 for entries in received for kept in entries.values())
        assert len({entries["4.weight"]["tensor"].data_ptr() for entries in received}) <= 3, "one for each reply to all"


def test_coding_is_a_phase_of_a_profile():
    played = federation(SPARSE)
    profile = played.profile()
    played.run(1)
    assert profile.seconds["channel"] > 0
    assert "channel" in profile.table()


def test_partial_participation_meets_again():
    """Whoever sat out fetches the weights whole, and both sides know again what it has."""
    alone, together = (federation(SPARSE, engine, participation=0.5) for engine in ("serial", "batched"))
    rows = alone.run(6).rows()
    assert not any(row["refused"] for row in rows)
    agree(rows, together.run(6).rows(), 1e-9)


def test_newcomers_leave_nothing_behind():
    unseen = participants([cnn(9)])
    unseen[0].name = "newcomer"
    history = federation(SPARSE, unseen=unseen)
    history.run(1)
    assert "newcomer" not in history.server.codec_memory


class Mapped(Codec):
    """Applies a function to values on their way, which the receiver gets as they are."""

    function: Callable[[torch.Tensor], torch.Tensor]

    def encode_tensor(self, tensor, coding):
        return {"": self.function(tensor)}

    def decode_tensor(self, parts, like, coding):
        return parts[""]


def test_a_codec_with_a_function_that_has_no_name_cannot_be_resumed(tmp_path):
    def channel():
        return Channel(up=[Mapped(function=lambda tensor: tensor / 2)])

    resumable(FedAvg(), channel=channel()).run(1, run_dir=tmp_path)
    with pytest.raises(potluck.PotluckError, match=r"Mapped is set with .*, which has no name"):
        resumable(FedAvg(), channel=channel()).run(2, run_dir=tmp_path, resume=True)
    named = Channel(up=[Mapped(function=torch.neg)])
    assert (
        named.settings()["up"][0]["function"]
        == Channel(up=[Mapped(function=torch.neg)]).settings()["up"][0]["function"]
    )
