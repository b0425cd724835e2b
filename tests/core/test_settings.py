from __future__ import annotations

from typing import ClassVar, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from potluck import SettingsError
from potluck.core.settings import Settings, check_count, check_kind, mistakes


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


class Kitchen(Settings):
    """Settings in settings."""

    oven: Oven
    others: list[Oven] = []  # noqa: RUF012 - pydantic copies it
    wall: Literal["white", "green"] = "white"
    size: int = Field(description="in square metres")


def test_mistakes_in_inner_settings_are_told_of_their_owner():
    with pytest.raises(SettingsError) as caught:
        Kitchen(oven={"haet": 1}, others=[{"heat": -1, "racks": 2}], wall="whit", walls=3)
    assert str(caught.value).split("\n") == [
        "Oven has no setting 'haet'. Did you mean 'heat'? Known: heat, rack.",
        "Oven: heat = -1. Input should be greater than or equal to 0.",
        "Oven has no setting 'racks'. Did you mean 'rack'? Known: heat, rack.",
        "Kitchen: wall = 'whit'. Did you mean 'white'? Known: green, white.",
        "Kitchen lacks 'size' (in square metres).",
        "Kitchen has no setting 'walls'. Did you mean 'wall'? Known: others, oven, size, wall.",
    ]


class Room(BaseModel):
    """What is read from a file, at once and with all that is in it."""

    model_config = ConfigDict(title="a room", extra="forbid")
    height: float


class House(BaseModel):
    model_config = ConfigDict(extra="forbid")
    rooms: list[Room] = []
    cellar: Room | None = None


def test_mistakes_deep_inside_are_told_of_their_owner_and_where_they_stand():
    with pytest.raises(ValidationError) as caught:
        House.model_validate({"rooms": [{"height": 2}, {"height": "low", "hight": 1}], "cellar": {}, "roof": 1})
    assert mistakes(House, caught.value, "House: ") == [
        (
            ("rooms", 1, "height"),
            "House: height = 'low'. Input should be a valid number, unable to parse string as a number.",
        ),
        (("rooms", 1, "hight"), "a room has no setting 'hight'. Did you mean 'height'? Known: height."),
        (("cellar", "height"), "a room lacks 'height'."),
        (("roof",), "House has no setting 'roof'. Did you mean 'rooms'? Known: cellar, rooms."),
    ]


def test_an_item_of_a_list_is_named_with_its_list():
    with pytest.raises(SettingsError, match=r"^Kitchen: others\.1 = 3\. "):
        Kitchen(oven=Oven(), others=[Oven(), 3], size=1)


def test_a_setting_without_a_description_is_missing_all_the_same():
    with pytest.raises(SettingsError, match=r"^Kitchen lacks 'oven'\.$"):
        Kitchen(size=1)


class Moved(Settings):
    """A setting that had another name."""

    model_config = ConfigDict(title="a moved thing")
    RENAMED: ClassVar[dict[str, str]] = {"old": "new"}
    new: int = 0


def test_an_old_name_says_the_new_one():
    with pytest.raises(SettingsError, match=r"^a moved thing has no setting 'old' any more; it is called 'new' now\.$"):
        Moved(old=1)
    with pytest.raises(SettingsError, match=r"^a moved thing has no setting 'odd'\. "):
        Moved(odd=1)


def test_for_what_is_no_name_no_name_is_suggested():
    """A path names code of somebody's own: what there is here is not what was meant."""
    with pytest.raises(SettingsError, match=r"^Kitchen: wall = 'my\.walls:white'\. Input should be 'white' or 'green'"):
        Kitchen(oven=Oven(), size=1, wall="my.walls:white")


def test_an_argument_is_of_its_class():
    check_kind("oven", Oven(), Oven, "Oven(heat=200)")
    check_kind("oven", None, Oven, "Oven(heat=200)", optional=True)
    for value, optional in ((None, False), ("hot", True), ("hot", False)):
        with pytest.raises(SettingsError, match=rf"^oven is {value!r}; expected a Oven, e\.g\. Oven\(heat=200\)\.$"):
            check_kind("oven", value, Oven, "Oven(heat=200)", optional=optional)


def test_an_argument_that_is_a_number():
    check_count("cakes", 2, "cakes", least=2)
    check_count("cakes", None, "cakes", least=2, optional=True)
    for value in (1, True, 2.0, None):
        with pytest.raises(SettingsError, match=rf"^cakes is {value!r}; expected a number of cakes from 2 on\.$"):
            check_count("cakes", value, "cakes", least=2)
    with pytest.raises(SettingsError, match="expected a number of cakes from 2 on, or None"):
        check_count("cakes", 0, "cakes", least=2, optional=True)
