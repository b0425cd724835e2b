from __future__ import annotations

import pytest
import torch

from potluck.channel.codecs_precision import Cast, Quantize
from potluck.core.errors import PayloadError, SettingsError
from potluck.core.payload import Payload
from tests.channel.payloads import coding


def there_and_back(codec, values):
    sent = codec.encode(Payload({"v": values}), coding())
    return sent, codec.decode(sent, coding())["v"]


def test_a_cast_halves_the_bytes_and_keeps_the_type():
    values = torch.tensor([1.0, 1 / 3, -2.5, 1e-9])
    sent, read = there_and_back(Cast("float16", min_size=0), values)
    assert sent["v"].dtype == torch.float16
    assert read.dtype == torch.float32
    assert torch.equal(read, values.half().float())
    _, rough = there_and_back(Cast("bfloat16", min_size=0), values)
    assert rough.tolist() == [1.0, 0.333984375, -2.5, 9.968061931431293e-10]


def test_what_is_too_large_for_a_half_becomes_the_largest_half():
    _, read = there_and_back(Cast("float16", min_size=0), torch.tensor([1e6, -1e6, float("nan")]))
    assert read.tolist()[:2] == [65504.0, -65504.0]
    assert read[2].isnan()


def test_what_is_short_already_passes():
    short = Payload({"v": torch.ones(100, dtype=torch.bfloat16)})
    assert Cast("float16").encode(short, coding()) is short


def test_levels_are_evenly_spaced():
    sent, read = there_and_back(Quantize(8, stochastic=False, min_size=0), torch.tensor([0.0, 1.004, 2.55, 0.006]))
    assert sent["v|codes"].tolist() == [0, 100, 255, 1]
    torch.testing.assert_close(sent["v|range"], torch.tensor([0.0, 2.55]))
    torch.testing.assert_close(read, torch.tensor([0.0, 1.0, 2.55, 0.01]))


def test_four_bits_go_two_to_a_byte():
    values = torch.tensor([0.0, 15.0, 3.0, 1.0, 2.0])
    sent, read = there_and_back(Quantize(4, stochastic=False, min_size=0), values)
    assert sent["v|codes"].tolist() == [15 * 16 + 0, 1 * 16 + 3, 2]
    assert torch.equal(read, values)


@pytest.mark.parametrize("bits", [4, 8])
def test_rounding_by_chance_is_right_in_the_mean(bits):
    values = torch.cat([torch.tensor([0.0, 1.0]), torch.full((20_000,), 0.31)]).double()
    _, read = there_and_back(Quantize(bits), values)
    top = 2**bits - 1
    found = (read[2:] * top).round()
    assert set(found.tolist()) == {int(0.31 * top), int(0.31 * top) + 1}
    assert float(read[2:].mean()) == pytest.approx(0.31, abs=4 / top / 2 / 20_000**0.5)


def test_rounding_by_chance_can_be_repeated():
    values = torch.randn(500)
    first, again = (there_and_back(Quantize(8), values)[1] for _ in range(2))
    assert torch.equal(first, again)


def test_nothing_leaves_the_range_it_had():
    for dtype in (torch.float32, torch.float64, torch.float16):
        values = torch.rand(1000).to(dtype)
        _, read = there_and_back(Quantize(4), values)
        assert read.dtype == dtype
        assert values.min() <= read.min() <= read.max() <= values.max()


def test_ranges_travel_in_double_precision_where_values_have_it_and_never_in_half():
    for dtype, expected in (
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.float16, torch.float32),
    ):
        sent, _ = there_and_back(Quantize(8), torch.rand(70).to(dtype))
        assert sent["v|range"].dtype == expected


def test_values_that_are_all_the_same_stay_so():
    _, read = there_and_back(Quantize(8), torch.full((70,), -0.3))
    assert torch.equal(read, torch.full((70,), -0.3))


def test_what_is_not_finite_does_not_become_finite():
    for spoilt in (float("nan"), float("inf")):
        _, read = there_and_back(Quantize(8), torch.cat([torch.ones(80), torch.tensor([spoilt])]))
        assert not bool(read.isfinite().all())


@pytest.mark.parametrize("codec", [Quantize(8), Quantize(4)])
def test_codes_that_do_not_fit_are_refused(codec):
    whole = {"v|codes": torch.zeros(70, dtype=torch.uint8), "v|range": torch.tensor([0.0, 1.0])}
    for changed in ({"v|codes": torch.zeros(3, dtype=torch.uint8)}, {"v|range": torch.zeros(3)}):
        with pytest.raises(PayloadError, match="cannot be decoded by Quantize"):
            codec.decode(Payload({**whole, **changed}, {"coded 0": {"v": ["float32", 71]}}), coding())


def test_settings_are_checked():
    with pytest.raises(SettingsError, match="dtype = 'float15'"):
        Cast("float15")
    with pytest.raises(SettingsError, match="bits = 3"):
        Quantize(3)
