"""All 53 tables and figures are listed, by names that commands take."""

from __future__ import annotations

import pytest

from potluck.core.errors import SettingsError
from potluck.reproduction.items import find_item, item_files, read_items
from potluck.reproduction.rows import name_of, read_rows


def test_all_are_listed_and_each_recipe_is_one_of_them():
    assert len(read_rows()) == 53
    assert set(item_files()) <= set(read_rows())
    for name, item in read_items().items():
        assert read_rows()[name].title == f"{item.paper}, {item.item}"


def test_what_cannot_be_played_says_why():
    """Every row is played by a recipe, or says what is missing; not both."""
    assert {name for name, row in read_rows().items() if row.missing} == set(read_rows()) - set(item_files())


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("DraftFed, Table IV", "draftfed-table-4"),
        ("FedIN Table 2b", "fedin-table-2b"),
        ("mhat_figure 3", "mhat-figure-3"),
        ("fedin-figure-10", "fedin-figure-10"),
    ],
)
def test_a_name_in_any_spelling(title, name):
    assert name_of(title) == name
    assert name in read_rows()


def test_what_has_no_recipe_says_why_when_it_is_asked_for():
    with pytest.raises(SettingsError, match=r"PerHeFed, Table 3 has no recipe: .*Table 2"):
        find_item("PerHeFed Table 3")
