from __future__ import annotations

import pytest

import potluck
from potluck.channel import codecs
from potluck.channel.codec import PayloadCodec
from potluck.channel.codecs import CODECS
from potluck.core.errors import SettingsError


def test_codecs_are_found_by_name():
    assert set(CODECS) == {"Cast", "Clip", "Compress", "Difference", "LowRank", "Noise", "Quantize", "TopK"}
    for name in CODECS:
        assert issubclass(CODECS[name.lower()], PayloadCodec)
        assert getattr(codecs, name) is CODECS[name]
        assert getattr(potluck.channel.codecs, name) is CODECS[name]


def test_an_unknown_name_says_which_there_are():
    with pytest.raises(SettingsError, match=r"There is no codec 'topc'\. Did you mean 'TopK'\?"):
        CODECS["topc"]
