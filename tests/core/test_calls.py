"""Functions named in a run file: wrong settings are told by name."""

import pytest

from potluck.core.calls import call
from potluck.core.errors import SettingsError


def recipe(flour, water=2, salt=1):
    return flour, water, salt


def test_settings_and_what_is_given_go_in_together():
    assert call("bread", recipe, {"salt": 3}, flour=5) == (5, 2, 3)


def test_an_unknown_setting_is_answered_with_the_known_ones():
    with pytest.raises(
        SettingsError, match=r"'bread' has no setting 'watr'. Did you mean 'water'\? Known: salt, water."
    ):
        call("bread", recipe, {"watr": 3}, flour=5)


def test_what_is_given_already_is_no_setting():
    with pytest.raises(SettingsError, match="'bread' has no setting 'flour'"):
        call("bread", recipe, {"flour": 3}, flour=5)


def test_a_missing_setting_is_named():
    with pytest.raises(
        SettingsError, match=r"'bread': missing a required argument: 'flour'\. Settings: flour, water, salt"
    ):
        call("bread", recipe, {})


def test_a_function_open_to_anything_gets_anything():
    assert call("any", lambda **settings: settings, {"a": 1}, b=2) == {"a": 1, "b": 2}


def test_an_error_inside_the_function_is_its_own():
    def burn(heat):
        raise TypeError("too hot")

    with pytest.raises(TypeError, match="too hot"):
        call("bread", burn, {"heat": 9})
