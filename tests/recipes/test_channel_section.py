"""The channel in a file: found by name, checked with the file, built as in Python."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from potluck.channel.channel import Channel
from potluck.channel.codecs import Cast, Compress, TopK
from potluck.channel.limits import Limits
from potluck.core.errors import SettingsError
from potluck.core.settings import mistakes
from potluck.recipes.channel_section import ChannelSection
from tests.recipes.files import NETS, here, read_text

__all__ = ["here"]

CODED = """
[channel]
up = ["difference", { name = "topk", share = 0.1 }, { name = "compress", algorithm = "zlib" }]

[channel.exchanges.start]
up = []
down = [{ name = "cast", dtype = "float16" }]
"""


def wrong(told):
    with pytest.raises(ValidationError) as caught:
        ChannelSection.model_validate(told)
    return mistakes(ChannelSection, caught.value)


def test_a_file_says_what_python_says(here):
    recipe = read_text(here, NETS + CODED)
    channel = recipe.channel.build(Limits(bytes=1000), print)
    assert channel.limits.bytes == 1000
    assert channel.audit is print
    assert channel.up[1:] == [TopK(0.1), Compress("zlib")]
    assert channel.exchanges == {"start": {"up": [], "down": [Cast("float16")]}}
    federation = recipe.federation()
    assert federation.channel.settings() == channel.settings()
    rows = federation.run(1).rows()
    assert not any(row["refused"] for row in rows)


def test_by_default_nothing_is_coded(here):
    recipe = read_text(here, NETS)
    assert recipe.channel.is_empty
    assert recipe.channel.build() == Channel(up=[], down=[])
    assert recipe.federation().channel.is_plain


def test_what_it_holds_survives_the_way_over_json(here):
    section = read_text(here, NETS + CODED).channel
    assert (
        ChannelSection.model_validate(section.model_dump(mode="json")).build().settings() == section.build().settings()
    )


def test_settings_that_are_left_out_can_be_spelled_out(here):
    section = read_text(here, NETS + CODED).channel
    told = section.spelled_out()
    assert told.up[1].settings == {"share": 0.1, "error_feedback": True, "min_size": 64}
    assert told.exchanges["start"].up == []
    assert told.exchanges["start"].down[0].settings["dtype"] == "float16"
    assert told.build().settings() == section.build().settings()
    assert ChannelSection.model_validate({"exchanges": {"a": {"up": []}}}).spelled_out().exchanges["a"].down is None


def test_mistakes_have_a_place():
    assert wrong({"up": ["topc"]})[0][0] == ("up", 0, "name")
    assert "There is no codec 'topc'. Did you mean 'TopK'?" in wrong({"up": ["topc"]})[0][1]
    assert "TopK lacks 'share'" in wrong({"down": ["topk"]})[0][1]
    assert wrong({"exchanges": {"start": {"up": [{"name": "cast", "dtype": "float15"}]}}})[0][0][:4] == (
        "exchanges",
        "start",
        "up",
        0,
    )
    assert (
        "Compress must be the last codec"
        in wrong({"up": [{"name": "compress", "algorithm": "zlib"}, "quantize"]})[0][1]
    )
    assert "expected a subclass of" in wrong({"up": ["potluck.core.plan:Plan"]})[0][1]


def test_an_exchange_that_the_method_does_not_have_is_told(here):
    with pytest.raises(SettingsError, match=r"channel\.exchanges\.stat: FedAvg has no exchange 'stat'\. Did you mean"):
        read_text(here, NETS + CODED.replace("exchanges.start", "exchanges.stat"))


def test_a_codec_of_ones_own_is_named_by_its_module(here):
    (here / "mine_codec.py").write_text(
        "from potluck.channel.codecs import Codec\n"
        "class Signs(Codec):\n"
        "    def encode_tensor(self, tensor, coding):\n"
        "        return {'signs': tensor > 0, 'size': tensor.abs().mean().reshape(1)}\n"
        "    def decode_tensor(self, parts, like, coding):\n"
        "        return (parts['signs'].to(like.dtype) * 2 - 1).reshape(like.shape) * parts['size']\n"
    )
    recipe = read_text(here, NETS + '[channel]\nup = ["difference", { name = "mine_codec:Signs", min_size = 1 }]\n')
    assert not any(row["refused"] for row in recipe.federation().run(2).rows())
