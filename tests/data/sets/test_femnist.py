"""FEMNIST's writers come out of LEAF's files with their own images."""

from __future__ import annotations

import json

import pytest

from potluck.core.errors import DataError
from potluck.data import femnist, split
from tests.data.sets.published_files import WRITERS, leaf_files, put, tarred


@pytest.mark.parametrize("packed", [False, True])
def test_every_image_is_its_writers(sets, packed):
    put(sets / "femnist", {"data.tar.gz": tarred(leaf_files(), "femnist")} if packed else leaf_files())
    found = femnist()
    assert found.shape == (1, 28, 28)
    assert found.groups is not None
    counts = {name: int((found.groups == name).sum()) for name in WRITERS}
    assert counts == WRITERS
    for name in WRITERS:
        assert set(found.x[found.groups == name].ravel().tolist()) == {round(255 * int(name[4]) / 10)}
    assert found.groups_test is not None
    assert sorted(found.groups_test.tolist()) == sorted(WRITERS)
    assert found.y[:4].tolist() == [0, 1, 0, 1]


def test_a_participant_is_a_writer(sets):
    put(sets / "femnist", leaf_files())
    partition = split("by-group", femnist(), 3, names=list(WRITERS))
    assert [len(rows) for rows in partition.indices] == list(WRITERS.values())


def test_some_writers(sets):
    put(sets / "femnist", leaf_files())
    assert len(set(femnist(writers=2).groups)) == 2
    assert set(femnist(min_samples=4).groups) == {"f0001_41", "f0002_10"}


@pytest.mark.parametrize(
    ("files", "wrong"),
    [
        ({"train/all_data_0.json": b"{}"}, "train/all_data_0.json is no file of LEAF's: KeyError"),
        ({"train/all_data_0.json": b"not json"}, "is no file of LEAF's: JSONDecodeError"),
        ({"all_data.json": b"{}"}, r"femnist has no train files among all_data.json; expected train/all_data"),
    ],
)
def test_other_files_are_told(sets, files, wrong):
    put(sets / "femnist", files)
    with pytest.raises(DataError, match=wrong):
        femnist()


def test_pixels_out_of_range_are_told(sets):
    files = leaf_files()
    (path,) = (path for path in files if path.startswith("test"))
    data = json.loads(files[path])
    data["user_data"]["f0001_41"]["x"][0][0] = 200
    put(sets / "femnist", {**files, path: json.dumps(data).encode()})
    with pytest.raises(DataError, match=r"holds 3 images from 0\.1 to 200 and 3 labels"):
        femnist()
