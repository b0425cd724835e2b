"""``potluck reproduce``: the list, the table, and where data are looked for."""

from __future__ import annotations

import os

from potluck.cli.reproduce import _scale
from potluck.recipes.paper_item import PaperScale
from potluck.reproduction.rows import read_rows
from tests.cli.commands import potluck
from tests.reproduction.items import ITEM, write_item


def test_the_list_names_every_item():
    result = potluck("reproduce", "--list")
    assert "mhat-table-1" in result.stdout
    assert "smoke, small (≈" in result.stdout
    assert all(name in result.stdout for name in read_rows())
    assert result.stdout.count("came back") == sum(row.verdict == "came back" for row in read_rows().values())
    assert potluck("reproduce").stdout == result.stdout


def test_how_long_a_scale_takes_is_told_as_measured_or_about():
    told = [PaperScale(), PaperScale(minutes=3, estimated=9), PaperScale(estimated=9), PaperScale(estimated=150)]
    assert [_scale(("small", one)) for one in told] == ["small", "small (3 min)", "small (≈ 9 min)", "small (≈ 2 h)"]


def test_ours_beside_what_was_published(here):
    result = potluck("reproduce", write_item(here), "--scale", "small", "--seeds", 1)
    assert "Nobody, Table 9: what nobody measured" in result.stdout
    assert "difference" in result.stdout
    assert "By accuracy" in result.stdout
    assert (here / "runs/item-small/reproduction.json").is_file()


def test_a_row_that_fails_is_exit_code_1(here):
    broken = ITEM.replace('set = ["method=Local"]', "set = [\"method={name='FedMD'}\"]")
    assert "Not played: Local, seed 0" in potluck("reproduce", write_item(here, broken), fails=1).stdout


def test_data_are_looked_for_where_it_says(here, monkeypatch):
    monkeypatch.delenv("POTLUCK_DATA", raising=False)
    potluck("reproduce", write_item(here), "--data-dir", "sets")
    assert os.environ.pop("POTLUCK_DATA") == "sets"


def test_a_mistake_is_exit_code_2(here):
    assert "Did you mean 'mhat-table-1'" in potluck("reproduce", "mhat-tabel-1", fails=2).stderr
