"""Mistakes deep inside a recipe keep their place."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

import potluck
from potluck.core.errors import SettingsError
from potluck.methods import CoFED
from potluck.recipes.validation import Origin, Section, refuse, wrong_in


def test_all_that_a_validator_refuses_is_told_each_at_its_place():
    with pytest.raises(ValidationError) as caught:
        refuse([(("name",), "no such thing."), (("plan", 0, "lr"), "too large.")])
    assert [(error["loc"], error["msg"]) for error in caught.value.errors()] == [
        (("name",), "no such thing."),
        (("plan", 0, "lr"), "too large."),
    ]


def test_what_is_wrong_with_settings_is_found_setting_by_setting():
    assert wrong_in(CoFED, {"alpha": 0.4}) == []
    places = [place for place, _ in wrong_in(CoFED, {"alpha": "x", "update_epochs": -1})]
    assert places == [("alpha",), ("update_epochs",)]


def test_what_is_wrong_with_settings_together_has_no_place_of_its_own():
    [(place, text)] = wrong_in(potluck.Plan, {"optimizer": "adam", "momentum": 0.9})
    assert place == ()
    assert "momentum" in text


def test_a_callable_that_refuses_its_settings_is_heard():
    def build(width):
        raise SettingsError(f"width = {width}; expected less.")

    assert wrong_in(build, {"width": 9}) == [((), "width = 9; expected less.")]


def test_a_recipe_from_python_names_settings_by_their_path():
    assert Origin().tell(("participants", 0, "model")) == "participants.0.model"
    assert Origin().tell(()) == "the recipe"


def test_a_section_has_no_other_keys_and_no_numbers_without_end():
    class Width(Section):
        width: float = 1.0

    assert Width(width=2).width == 2
    for wrong in ({"widht": 2}, {"width": float("inf")}, {"width": float("nan")}):
        with pytest.raises(ValidationError):
            Width(**wrong)
