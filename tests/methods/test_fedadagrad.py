from __future__ import annotations

import pytest

from potluck.methods import FedAdagrad
from tests.methods.server_steps import after, is_played_in_plain_pytorch


def test_two_rounds_by_hand():
    found, v = after(FedAdagrad(), 1.0, 0.05)
    assert found == pytest.approx([0.099900, 0.104889], abs=1e-6)
    assert v == pytest.approx(1.002501, abs=1e-6)


def test_two_rounds_in_plain_pytorch():
    is_played_in_plain_pytorch(FedAdagrad(server_lr=0.02), lambda v, delta: v + delta**2, beta1=0.0)
