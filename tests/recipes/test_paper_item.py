"""The table ``[paper]`` of a run file: it changes nothing about the run, and its mistakes are told with their line."""

from __future__ import annotations

import pytest

from potluck.core.errors import SettingsError
from potluck.recipes import read
from potluck.recipes.run_file import read_paper
from tests.reproduction.items import ITEM, write_item


def test_a_run_file_with_it_runs_as_without_it(tmp_path):
    whole = read(write_item(tmp_path))
    plain = tmp_path / "plain.toml"
    plain.write_text(ITEM.partition("[paper]")[0])
    assert whole.model_dump() == read(plain).model_dump()
    assert whole.paper is not None
    assert read(plain).paper is None


def test_it_can_be_read_where_the_data_are_not_there(tmp_path):
    path = write_item(tmp_path, ITEM.replace('name = "generated"', 'name = "no-such-source"'))
    assert read_paper(path).rows[0].published == {"accuracy": 60.0, "share of FedAvg": 1.0}
    with pytest.raises(SettingsError, match="no-such-source"):
        read(path)


def test_an_unknown_scale_or_key_is_told_with_its_line(tmp_path):
    with pytest.raises(SettingsError, match=r"line \d+, paper.scales.huge"):
        read_paper(write_item(tmp_path, ITEM.replace("scales.small", "scales.huge")))
    with pytest.raises(SettingsError, match=r"line \d+, paper.claims"):
        read_paper(write_item(tmp_path, ITEM.replace("claim =", "claims =")))
