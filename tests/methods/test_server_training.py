"""The server's plan as a setting."""

from __future__ import annotations

import pytest

import potluck
from potluck.methods import FedTGP


def test_a_few_settings_of_the_plan_leave_the_others_as_they_are():
    assert FedTGP(server_plan={"epochs": 2}).server_plan == FedTGP().server_plan.replace(epochs=2)
    with pytest.raises(potluck.SettingsError, match="epocs"):
        FedTGP(server_plan={"epocs": 2})
