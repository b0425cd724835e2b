from __future__ import annotations

import pytest

from potluck.methods import FedAdagrad
from tests.methods.server_steps import after


def test_two_rounds_by_hand():
    found, v = after(FedAdagrad(), 1.0, 0.05)
    assert found == pytest.approx([0.099900, 0.104889], abs=1e-6)
    assert v == pytest.approx(1.002501, abs=1e-6)
