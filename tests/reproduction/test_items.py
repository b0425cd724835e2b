"""The tables and figures that ship can be read, are named as one would guess, and are played at some scale."""

from __future__ import annotations

import time

import pytest

from potluck.core.errors import SettingsError
from potluck.recipes import read
from potluck.reproduction.items import base_of, find_item, item_files, read_items
from potluck.reproduction.measures import measure_named
from potluck.reproduction.reproduce import reproduce
from potluck.reproduction.rows import name_of
from tests.reproduction.items import ITEM, write_item


def test_each_paper_has_one():
    assert {item.paper for item in read_items().values()} == {"CoFED", "DraftFed", "FedIN", "MHAT", "PerHeFed"}


@pytest.mark.parametrize("name", item_files())
def test_each_can_be_read_whole_at_every_scale(name):
    path, item = find_item(name)
    assert name == name_of(f"{item.paper}, {item.item}")
    assert {"smoke", "small", "paper"} == set(item.scales)
    assert all(measure_named(measure, bool(item.inspect)) for measure in item.measures)
    assert item.claim
    file = base_of(item) if item.base else path
    for row in item.rows:
        recipe = read(file, [*row.set, *item.scales["smoke"].set])
        assert recipe.paper is not None
        assert "paper" not in recipe.model_dump()
    for scale in item.scales.values():
        assert read(file, [*item.rows[-1].set, *scale.set]).rounds >= 1


def test_most_items_have_numbers_to_stand_beside():
    """The others are figures, or tables whose body is missing."""
    assert sum(any(row.published for row in item.rows) for item in read_items().values()) >= 25


@pytest.mark.slow
@pytest.mark.parametrize("name", item_files())
def test_each_smoke_run_measures_every_row_in_half_a_minute_of_two_cores(name, tmp_path):
    """By the processor's clock, since other tests run beside it."""
    before = time.process_time()
    found = reproduce(name, out=tmp_path)
    assert time.process_time() - before < 2 * 30
    assert not found.failed
    for row in found.item.rows:
        assert any(found.values(row, measure) for measure in found.item.measures), row.name


def test_an_item_may_play_anothers_federation(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(DERIVED)
    file, item = find_item(str(path))
    assert file == path
    assert base_of(item) == item_files()["mhat-table-1"]
    base = read_items()["mhat-table-1"]
    assert item.scales["small"] == base.scales["small"]
    assert item.scales["smoke"].set == [
        "rounds=1",
        "data.source={name='generated-images', samples=300, size=8}",
        "data.public.take=60",
    ]
    assert (item.data, item.open) == (base.data, base.open)
    found = reproduce(str(path), out=tmp_path / "out")
    assert found.values("One", "accuracy") == found.values("Another", "accuracy")
    for wrong in ("mhat-table-2", ""):
        path.write_text(DERIVED.replace("mhat-table-1", wrong).partition("[paper.scales")[0])
        with pytest.raises(SettingsError, match=r"Did you mean 'mhat-table-1'|scales: there is none"):
            find_item(str(path))


DERIVED = """
[paper]
base = "mhat-table-1"
paper = "Mine"
item = "Table 1"
title = "twice the same"
measures = ["accuracy"]

[[paper.rows]]
title = "One"
set = ["method=Local"]

[[paper.rows]]
title = "Another"
set = ["method=Local"]

[paper.scales.smoke]
set = ["rounds=1", "data.source={name='generated-images', samples=300, size=8}", "data.public.take=60"]
"""


def test_a_name_is_found_in_any_spelling_and_a_mistake_is_told():
    assert find_item("MHAT Table 1")[1].item == "Table 1"
    with pytest.raises(SettingsError, match=r"no recipe 'mhat-table-9'.*Did you mean 'mhat-table-1'"):
        find_item("mhat-table-9")


def test_what_is_wrong_in_an_item_is_told_with_its_place(tmp_path):
    twice = ITEM.replace('title = "Local"', 'title = "FedAvg"')
    with pytest.raises(SettingsError, match=r"paper.rows.0.title: two rows are called 'FedAvg'"):
        find_item(write_item(tmp_path, twice))
    with pytest.raises(SettingsError, match=r"paper.rows.1.published.loss: it is not measured; expected one of accur"):
        find_item(write_item(tmp_path, ITEM.replace('{ "accuracy" = 50.0 }', "{ loss = 1 }")))
    with pytest.raises(SettingsError, match=r"paper: missing.*what was published|\[paper\]"):
        find_item(write_item(tmp_path, ITEM.partition("[paper]")[0]))
