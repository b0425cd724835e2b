from __future__ import annotations

import pytest
from pydantic import Field, ValidationError

from potluck import SettingsError
from potluck.core.settings import Settings


class Oven(Settings):
    """Something to set."""

    heat: int = Field(180, ge=0)
    rack: str = "middle"


def test_settings_are_kept_under_their_names():
    oven = Oven(heat=200)
    assert (oven.heat, oven.rack) == (200, "middle")


def test_a_wrong_value_is_told_with_what_was_expected():
    with pytest.raises(SettingsError, match=r"^Oven: heat = -1\. Input should be greater than or equal to 0\.$"):
        Oven(heat=-1)


def test_every_mistake_is_told_at_once():
    with pytest.raises(SettingsError) as caught:
        Oven(heat="hot", rack=3)
    heat, rack = str(caught.value).split("\n")
    assert heat.startswith("Oven: heat = 'hot'.")
    assert rack.startswith("Oven: rack = 3.")


def test_an_unknown_setting_suggests_the_nearest():
    with pytest.raises(SettingsError, match=r"^Oven has no setting 'haet'\. Did you mean 'heat'\? Known: heat"):
        Oven(haet=3)


def test_an_unknown_setting_like_no_other_lists_what_there_is():
    with pytest.raises(SettingsError, match=r"^Oven has no setting 'zzz'\. Known: heat, rack\.$"):
        Oven(zzz=3)


def test_settings_do_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        Oven().heat = 3


def test_equal_settings_are_equal():
    assert Oven(heat=200) == Oven(heat=200) != Oven()
