from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from potluck import DataError
from potluck.ingestion.files import npz_arrays, read_arrays, read_images, read_table, reader_of
from potluck.ingestion.user_data import read_labelled

FRAME = pd.DataFrame({"id": ["p1", "p2"], "age": [30.0, np.nan], "town": ["east", "west"], "ill": ["no", "yes"]})


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_is_a_frame_with_its_target(tmp_path, suffix):
    path = tmp_path / f"clinic.{suffix}"
    FRAME.to_csv(path, index=False) if suffix == "csv" else FRAME.to_parquet(path)
    given = read_labelled(read_table(path, target="ill", drop=["id"], categories=["town"]), "clinic")
    assert list(given.inputs.x.columns) == ["age", "town"]
    assert str(given.inputs.x["town"].dtype) == "category"
    assert given.y.tolist() == ["no", "yes"]
    assert np.isnan(given.inputs.x["age"].iloc[1])
    assert read_labelled(read_table(path), "clinic").y is None, "targets are not needed everywhere"


def test_a_column_may_be_the_weights(tmp_path):
    FRAME.assign(counts=[2.0, 3.0]).to_csv(tmp_path / "clinic.csv", index=False)
    given = read_labelled(read_table(tmp_path / "clinic.csv", target="ill", weight="counts"), "clinic")
    assert given.inputs.columns["weight"].tolist() == [2.0, 3.0]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_texts_may_stand_for_what_is_missing(tmp_path, suffix):
    path = tmp_path / f"clinic.{suffix}"
    frame = pd.DataFrame({"chol": ["200", "?"], "town": ["-", "west"], "ill": ["no", "yes"]})
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    found, _ = read_table(path, target="ill", missing=["?", "-"])
    assert found.isna().to_numpy().tolist() == [[False, True, False], [True, False, False]]
    assert suffix == "parquet" or found["chol"].dtype == float, "a column of a .csv file is numbers without them"


def test_arrays_are_inputs_and_targets(tmp_path):
    x, y = np.ones((2, 3)), np.array([0, 1])
    np.savez(tmp_path / "one.npz", x=x, y=y)
    np.savez(tmp_path / "two.npz", ids=x, mask=x > 0, label=y, w=y + 1)
    assert read_labelled(read_arrays(tmp_path / "one.npz"), "p").inputs.x.shape == (2, 3)
    given = read_labelled(read_arrays(tmp_path / "two.npz", target="label", weight="w"), "p")
    assert set(given.inputs.x) == {"ids", "mask"}
    assert given.inputs.columns["weight"].tolist() == [1.0, 2.0]
    np.savez(tmp_path / "tokens.npz", ids=np.ones((2, 3), dtype=int), mask=x > 0)
    alone = read_labelled(read_arrays(tmp_path / "tokens.npz"), "p")
    assert set(alone.inputs.x) == {"ids", "mask"}
    assert alone.y is None


def test_which_function_reads_a_file(tmp_path):
    names = {"a.csv": "read_table", "a.PARQUET": "read_table", "a.npz": "read_arrays", "a.txt": None}
    assert {name: reader_of(tmp_path / name) for name in names} == names
    assert reader_of(tmp_path) == "read_images"
    with pytest.raises(DataError, match="holds no images"):
        read_images(tmp_path)


def test_what_cannot_be_read_is_told(tmp_path):
    FRAME.to_csv(tmp_path / "clinic.csv", index=False)
    (tmp_path / "broken.parquet").write_text("no table")
    (tmp_path / "broken.npz").write_text("no arrays")
    np.savez(tmp_path / "y.npz", y=[1])
    np.savez(tmp_path / "objects.npz", x=np.array([{}], dtype=object), y=[1])
    for read, name, settings, message in (
        (read_table, "clinic.csv", {"target": "il"}, r"clinic\.csv has no column 'il'\. Did you mean 'ill'"),
        (read_table, "nowhere.csv", {}, "There is no file"),
        (read_table, "broken.parquet", {}, "cannot be read as a table"),
        (read_arrays, "nowhere.npz", {}, "There is no file"),
        (read_arrays, "broken.npz", {}, r"cannot be read as an \.npz"),
        (read_arrays, "objects.npz", {}, r"cannot be read as an \.npz"),
        (read_arrays, "y.npz", {}, "holds nothing but 'y'"),
        (read_arrays, "y.npz", {"target": "label"}, "holds no array 'label'"),
    ):
        with pytest.raises(DataError, match=message):
            read(tmp_path / name, **settings)


def test_a_damaged_byte_anywhere_in_a_file_of_arrays_is_told(tmp_path):
    """What decompressing raises is no OSError."""
    np.savez_compressed(tmp_path / "whole.npz", x=np.arange(600.0).reshape(100, 6), y=np.arange(100) % 3)
    whole = (tmp_path / "whole.npz").read_bytes()
    told = 0
    for place in range(0, len(whole), 7):
        (tmp_path / "damaged.npz").write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        try:
            read_arrays(tmp_path / "damaged.npz")
        except DataError:
            told += 1
    assert told > 100


def test_arrays_that_are_not_wanted_are_not_read(tmp_path):
    np.savez(tmp_path / "much.npz", x=[1.0, 2.0], other=[3.0])
    found = npz_arrays(tmp_path / "much.npz", {"x", "y"})
    assert found["other"] is None
    assert found["x"].tolist() == [1.0, 2.0]
    assert set(found) == {"x", "other"}
