"""Beijing's stations, their hours without a gap, and the last year for tests."""

from __future__ import annotations

import numpy as np
import pytest

from potluck.core.errors import DataError
from potluck.data import beijing_air, split
from tests.data.sets.published_files import beijing_files, put, zipped

UCI = {"beijing+multi+site+air+quality+data.zip": zipped({"data.csv": b"x", "PRSA.zip": zipped(beijing_files())})}


@pytest.mark.parametrize("files", [beijing_files(), UCI])
def test_stations_hours_and_targets(sets, files):
    put(sets / "beijing-air", files)
    found = beijing_air()
    assert found.values
    assert found.groups is not None
    assert found.y[found.groups == "Gucheng"].tolist() == [0.5, 2.5, 3.5], "without the hour that has a gap"
    assert found.y[found.groups == "Wanliu"].tolist() == [10.5, 12.5, 13.5]
    assert found.groups_test is not None
    assert found.y_test[found.groups_test == "Wanliu"].tolist() == [14.5, 15.5, 16.5]


def test_inputs_are_what_else_was_measured_and_when(sets):
    put(sets / "beijing-air", beijing_files())
    first = beijing_air().x[1]
    assert first[:10].tolist() == [20, 3, 4, 500, 60, -1, 1010, -9, 0, 2]
    wind, hour, month = 2 * np.pi * np.array([15 / 16, 2 / 24, 2 / 12])
    expected = [function(turn) for turn in (wind, hour, month) for function in (np.sin, np.cos)]
    assert first[10:] == pytest.approx(expected, abs=1e-6)
    other = beijing_air(target="CO")
    assert set(other.y.tolist()) == {500}
    assert other.x[1, 0] == np.float32(2.5)


def test_a_participant_is_a_station(sets):
    put(sets / "beijing-air", beijing_files())
    partition = split("by-group", beijing_air(), 2, names=["Wanliu", "Gucheng"])
    assert [len(rows) for rows in partition.indices] == [3, 3]
    assert partition.labels == [(), ()]
    assert len(beijing_air(train=4, test=2).y) == 4


@pytest.mark.parametrize(
    ("before", "after", "wrong"),
    [
        (b"TEMP", b"TMP", "has no column 'TEMP'; it has No, year"),
        (b"NNW", b"UP", "the wind 'UP'; expected one of N, NNE"),
        (b"3,1,", b"NA,1,", "has no row without a gap"),
    ],
)
def test_other_files_are_told(sets, before, after, wrong):
    files = {name: content.replace(before, after) for name, content in beijing_files().items()}
    put(sets / "beijing-air", files)
    with pytest.raises(DataError, match=wrong):
        beijing_air()
    with pytest.raises(DataError, match=r"target='TEMP'; expected one of PM2\.5"):
        beijing_air(target="TEMP")
