from __future__ import annotations

import pytest
import torch

from potluck.channel.codecs_privacy import Clip, Noise
from potluck.core.errors import SettingsError
from potluck.core.payload import Payload
from tests.channel.payloads import coding, route

THIRTEEN = Payload({"a": torch.tensor([3.0, 4.0]), "b": torch.tensor(12.0), "n": torch.tensor(7)}, {"samples": 3})
"""Its floats have the norm 13."""


def test_a_long_payload_is_scaled_to_the_norm_and_a_short_one_passes():
    sent = Clip(6.5).encode(THIRTEEN, coding())
    assert sent["a"].tolist() == [1.5, 2.0]
    assert sent["b"].item() == 6.0
    assert sent["n"].item() == 7
    assert sent.facts == THIRTEEN.facts
    assert Clip(13.0).encode(THIRTEEN, coding()) is THIRTEEN
    assert Clip(6.5).decode(sent, coding()) is sent


def test_noise_has_its_deviation_and_is_the_same_each_time():
    zeros = Payload({"v": torch.zeros(40_000), "n": torch.arange(3)})
    sent = Noise(0.5).encode(zeros, coding())["v"]
    assert float(sent.std()) == pytest.approx(0.5, rel=0.02)
    assert float(sent.mean()) == pytest.approx(0.0, abs=0.01)
    assert torch.equal(sent, Noise(0.5).encode(zeros, coding())["v"])
    assert not torch.equal(sent, Noise(0.5).encode(zeros, coding(route=route(round=2)))["v"])


def test_noise_does_not_depend_on_the_order_of_tensors():
    forward, back = ({name: torch.zeros(3) for name in names} for names in ("ab", "ba"))
    one, other = (Noise(1.0).encode(Payload(tensors), coding()) for tensors in (forward, back))
    for name in "ab":
        assert torch.equal(one[name], other[name])


def test_counts_and_facts_are_never_changed():
    plain = Payload({"n": torch.arange(3)}, {"samples": 3})
    assert Noise(1.0).encode(plain, coding()) is plain
    assert Clip(0.1).encode(plain, coding()) is plain


def test_settings_are_checked():
    for kind in (Clip, Noise):
        with pytest.raises(SettingsError, match="= 0"):
            kind(0)
