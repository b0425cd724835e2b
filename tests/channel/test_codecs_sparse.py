from __future__ import annotations

import pytest
import torch

from potluck.channel.channel import Channel
from potluck.channel.codecs_precision import Quantize
from potluck.channel.codecs_sparse import LowRank, TopK
from potluck.core.errors import PayloadError, SettingsError
from potluck.core.payload import Payload
from tests.channel.payloads import coding, route


def payload(*values):
    return Payload({"v": torch.tensor(values)})


def read(channel, values, memory, number=1):
    return channel.encode(payload(*values), route(round=number), memory).received["v"].tolist()


def test_the_largest_values_arrive_where_they_were():
    codec = TopK(0.5, min_size=0)
    sent = codec.encode(payload(3.0, -5.0, 1.0, 0.5), coding())
    assert sent["v|values"].tolist() == [3.0, -5.0]
    assert sent["v|mask"].tolist() == [0b0011]
    assert codec.decode(sent, coding())["v"].tolist() == [3.0, -5.0, 0.0, 0.0]


def test_few_places_travel_as_numbers_and_many_as_bits():
    values = torch.zeros(300)
    values[[7, 299]] = 1.0
    sent = TopK(2 / 300).encode(Payload({"v": values}), coding())
    assert sent["v|places"].tolist() == [7, 299]
    assert sent["v|places"].dtype == torch.int16
    many = TopK(0.2).encode(Payload({"v": torch.randn(300)}), coding())
    assert many["v|mask"].numel() == 38
    assert many["v|values"].numel() == 60


def test_at_least_one_value_is_sent():
    assert TopK(1e-6).encode(Payload({"v": torch.randn(100)}), coding())["v|values"].numel() == 1


def test_what_is_left_out_is_added_the_next_time():
    """[3, −5, 2, ½] three times, two values each: what arrives and what is owed add up to three times all of it."""
    channel, memory, given = Channel(up=[TopK(0.5, min_size=0)]), {}, [3.0, -5.0, 2.0, 0.5]
    assert read(channel, given, memory, 1) == [3.0, -5.0, 0.0, 0.0]
    assert memory["up"]["weights"]["0"]["v"].tolist() == [0.0, 0.0, 2.0, 0.5]
    assert read(channel, given, memory, 2) == [0.0, -5.0, 4.0, 0.0]
    assert read(channel, given, memory, 3) == [6.0, -5.0, 0.0, 0.0]
    assert memory["up"]["weights"]["0"]["v"].tolist() == [0.0, 0.0, 2.0, 1.5]


def test_without_error_feedback_it_is_lost():
    channel, memory = Channel(up=[TopK(0.5, error_feedback=False, min_size=0)]), {}
    for number in (1, 2):
        assert read(channel, [3.0, -5.0, 2.0, 0.5], memory, number) == [3.0, -5.0, 0.0, 0.0]
    assert memory == {}


def test_what_later_codecs_lose_is_owed_too():
    values = torch.linspace(-1, 1, 100).double()
    channel, memory = Channel(up=[TopK(1.0), Quantize(4, stochastic=False)]), {}
    first = channel.encode(Payload({"v": values}), route(), memory).received["v"]
    assert not torch.equal(first, values)
    torch.testing.assert_close(memory["up"]["weights"]["0"]["v"], values - first)


def test_exchanges_directions_and_shapes_owe_nothing_to_each_other():
    channel, memory = Channel(up=[TopK(0.5, min_size=0)], down=[TopK(0.5, min_size=0)]), {}
    channel.encode(payload(3.0, 1.0), route(), memory)
    fresh = channel.encode(payload(3.0, 2.5), route(exchange="other"), memory)
    assert fresh.received["v"].tolist() == [3.0, 0.0]
    assert channel.encode(payload(3.0, 2.5), route("down"), memory).received["v"].tolist() == [3.0, 0.0]
    assert channel.encode(payload(3.0, 1.0, 0.0, 2.0), route(), memory).received["v"].tolist() == [3.0, 0.0, 0.0, 2.0]


@pytest.mark.parametrize(
    "parts",
    [
        {"v|values": torch.ones(1)},
        {"v|values": torch.ones(1), "v|places": torch.tensor([80])},
        {"v|values": torch.ones(1), "v|places": torch.tensor([-1])},
        {"v|values": torch.ones(2), "v|places": torch.tensor([1])},
        {"v|values": torch.ones(1), "v|places": torch.tensor([1.0])},
        {"v|values": torch.ones(1), "v|mask": torch.ones(3, dtype=torch.uint8)},
        {"v|values": torch.ones(8), "v|mask": torch.full((10,), 128, dtype=torch.uint8)},
        {"v|values": torch.ones(1, dtype=torch.float64), "v|places": torch.tensor([1])},
    ],
)
def test_values_without_a_proper_place_are_refused(parts):
    with pytest.raises(PayloadError, match="tensor 'v' cannot be decoded by TopK"):
        TopK(0.1).decode(Payload(parts, {"coded 0": {"v": ["float32", 79]}}), coding())


def test_the_strongest_directions_are_kept():
    """Squared singular values 16 and 9 of 25: one direction holds 64%."""
    matrix = torch.zeros(8, 10)
    matrix[0, 0], matrix[3, 4] = 4.0, 3.0
    for energy, expected in ((0.63, [4.0, 0.0]), (0.65, [4.0, 3.0])):
        codec = LowRank(energy)
        found = codec.decode(codec.encode(Payload({"v": matrix}), coding()), coding())["v"]
        torch.testing.assert_close(torch.stack([found[0, 0], found[3, 4]]), torch.tensor(expected))


def test_a_product_travels_as_its_factors_whatever_the_shape():
    tensor = (torch.randn(12, 1) @ torch.randn(1, 27)).reshape(12, 3, 3, 3).half()
    codec = LowRank(0.99)
    sent = codec.encode(Payload({"v": tensor}), coding())
    assert {name: tuple(t.shape) for name, t in sent.tensors.items()} == {"v|left": (12, 1), "v|right": (1, 27)}
    torch.testing.assert_close(codec.decode(sent, coding())["v"], tensor, atol=0.02, rtol=0.01)


def test_factors_are_multiplied_in_the_precision_of_their_values():
    exact = torch.randn(20, 1, dtype=torch.float64) @ torch.randn(1, 30, dtype=torch.float64)
    codec = LowRank(0.99)
    found = codec.decode(codec.encode(Payload({"v": exact}), coding()), coding())["v"]
    torch.testing.assert_close(found, exact, atol=1e-14, rtol=1e-12)


def test_what_would_not_get_smaller_or_has_no_factors_passes():
    noise = Payload({"v": torch.randn(10, 10), "row": torch.randn(100), "nan": torch.full((9, 9), float("nan"))})
    assert LowRank(1.0).encode(noise, coding()) is noise


@pytest.mark.parametrize("shape", [[80], [0, 5], [8, 10], [2, 40]])
def test_factors_that_do_not_fit_are_refused(shape):
    parts = {"v|left": torch.ones(9, 1), "v|right": torch.ones(1, 10)}
    with pytest.raises(PayloadError, match="tensor 'v' cannot be decoded by LowRank"):
        LowRank(0.5).decode(Payload(parts, {"coded 0": {"v": ["float32", *shape]}}), coding())


def test_settings_are_checked():
    for wrong in (0, 1.5):
        with pytest.raises(SettingsError, match="share"):
            TopK(wrong)
        with pytest.raises(SettingsError, match="energy"):
            LowRank(wrong)
