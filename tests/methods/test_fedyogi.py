from __future__ import annotations

import pytest

from potluck.methods import FedYogi
from tests.methods.server_steps import after, is_played_in_plain_pytorch


def test_two_rounds_by_hand():
    found, v = after(FedYogi(), 1.0, 0.05)
    assert found == pytest.approx([0.099005, 0.193176], abs=1e-6)
    assert v == pytest.approx(0.009976, abs=1e-6)


def test_v_falls_by_a_part_of_the_squared_change():
    _, first = after(FedYogi(), 1.0)
    _, second = after(FedYogi(), 1.0, 0.05)
    assert first - second == pytest.approx(0.01 * 0.05**2, abs=1e-12)


def test_two_rounds_in_plain_pytorch():
    is_played_in_plain_pytorch(FedYogi(server_lr=0.02), lambda v, delta: v - 0.01 * delta**2 * (v - delta**2).sign())
