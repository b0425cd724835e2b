"""Sources of what is at hand: digits, files, arrays."""

import numpy as np
import pandas as pd
import pytest

from potluck.core.errors import DataError, SettingsError
from potluck.data import arrays, by_group, digits, load, npz

IMAGES = np.random.default_rng(0).integers(0, 256, (12, 5, 6), dtype=np.uint8)
LABELS = np.arange(12, dtype=np.uint8) % 3


def save(folder, **columns):
    given = {"x_train": IMAGES, "y_train": LABELS, "x_test": IMAGES[:3], "y_test": LABELS[:3]} | columns
    path = folder / "mine.npz"
    np.savez(path, **{name: column for name, column in given.items() if column is not None})
    return path


def test_digits_are_1797_small_images_split_by_class():
    found = digits()
    assert found.x.shape == (1348, 1, 8, 8)
    assert found.x_test.shape == (449, 1, 8, 8)
    assert found.x.dtype == np.float32
    assert (found.x.min(), found.x.max()) == (0, 1)
    shares = np.bincount(found.y_test) / (np.bincount(found.y) + np.bincount(found.y_test))
    assert np.abs(shares - 0.25).max() < 0.01


def test_the_split_of_digits_depends_on_the_seed():
    assert np.array_equal(digits(seed=1).y_test, digits(seed=1).y_test)
    assert not np.array_equal(digits(seed=1).x_test, digits(seed=2).x_test)


def test_arrays_are_split_when_no_test_rows_are_given():
    x = np.arange(40.0).reshape(20, 2)
    made = arrays(x, ["a", "b"] * 10, test_share=0.2)
    assert len(made.x) == 16
    assert len(made.x_test) == 4
    assert np.array_equal(np.sort(np.concatenate([made.x, made.x_test]), axis=0), x)
    assert made.labels == ("a", "b")


def test_arrays_with_test_rows_are_left_as_they_are():
    made = arrays([[1.0], [2.0]], [0, 1], [[3.0]], [1])
    assert made.x.tolist() == [[1.0], [2.0]]
    assert made.x_test.tolist() == [[3.0]]


def test_arrays_need_both_test_columns_or_none():
    with pytest.raises(DataError, match="x_test is given but y_test is not"):
        arrays([[1.0]], [0], x_test=[[1.0]])
    with pytest.raises(DataError, match="y_test is given but x_test is not"):
        arrays([[1.0]], [0], y_test=[0])


def test_arrays_of_different_lengths_are_refused_before_the_split():
    with pytest.raises(DataError, match="'x': 3, 'y': 2"):
        arrays(np.zeros((3, 1)), [0, 1])


def test_grey_images_in_a_file_get_a_channel(tmp_path):
    found = npz(save(tmp_path))
    assert found.name == "mine"
    assert found.x.dtype == np.uint8
    assert np.array_equal(found.x, IMAGES[:, None])
    assert found.y.tolist() == LABELS.tolist()
    assert found.fine is None
    assert found.groups is None


def test_colour_images_in_a_file_get_their_channels_first(tmp_path):
    colour = np.random.default_rng(1).integers(0, 256, (12, 5, 6, 3), dtype=np.uint8)
    found = npz(save(tmp_path, x_train=colour, x_test=colour[:3]))
    assert found.x.shape == (12, 3, 5, 6)
    assert np.array_equal(found.x[:, 2], colour[..., 2])


@pytest.mark.parametrize("shape", [(12, 4), (12, 3, 8, 8)])
def test_tables_and_images_with_channels_first_stay_as_they_are(tmp_path, shape):
    x = np.random.default_rng(2).integers(0, 256, shape, dtype=np.uint8)
    assert np.array_equal(npz(save(tmp_path, x_train=x, x_test=x[:3])).x, x)


def test_coarse_labels_and_writers_are_found(tmp_path):
    fine = np.arange(12)
    path = save(
        tmp_path,
        y_train=fine,
        y_test=fine[:3],
        y_coarse_train=fine // 6,
        y_coarse_test=fine[:3] // 6,
        w_train=fine % 2,
        w_test=fine[:3],
    )
    found = npz(path)
    assert found.fine is not None
    assert found.fine_test is not None
    assert found.groups is not None
    assert found.y.tolist() == [0] * 6 + [1] * 6
    assert found.fine.tolist() == fine.tolist()
    assert found.fine_test.tolist() == [0, 1, 2]
    assert found.groups.tolist() == [0, 1] * 6
    assert found.groups_test is not None
    assert found.groups_test.tolist() == [0, 1, 2]


def test_targets_may_be_values(tmp_path):
    ages = np.linspace(20, 80, 12)
    assert npz(save(tmp_path, y_train=ages, y_test=ages[:3] + 1), values=True).labels == ()
    assert arrays(IMAGES, ages, values=True).values
    path = tmp_path / "people.csv"
    pd.DataFrame({"height": np.arange(12), "age": ages}).to_csv(path, index=False)
    found = load(str(path), target="age", values=True)
    assert sorted([*found.y, *found.y_test]) == pytest.approx(ages.tolist())
    with pytest.raises(DataError, match="expected whole numbers or text"):
        load(str(path), target="age")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"There is no file .*nowhere\.npz"):
        npz(tmp_path / "nowhere.npz")


@pytest.mark.parametrize(
    ("columns", "lacking"),
    [
        ({"y_test": None}, "lacks y_test; it holds x_test, x_train, y_train"),
        ({"y_coarse_test": LABELS[:3]}, "lacks y_coarse_train; it holds x_test"),
    ],
)
def test_missing_arrays_are_named_with_those_found(tmp_path, columns, lacking):
    with pytest.raises(DataError, match=lacking):
        npz(save(tmp_path, **columns))


def test_files_that_are_no_archive_of_plain_arrays_are_refused(tmp_path):
    whole = save(tmp_path).read_bytes()
    text, cut, single, empty = (tmp_path / f"{name}.npz" for name in ("text", "cut", "single", "empty"))
    text.write_text("x_train,y_train")
    cut.write_bytes(whole[: len(whole) // 2])
    empty.write_bytes(b"")
    with single.open("wb") as file:
        np.save(file, IMAGES)
    for path in (text, cut, single, empty):
        with pytest.raises(DataError, match=r"cannot be read as an \.npz file"):
            npz(path)


def test_a_damaged_byte_inside_the_data_is_noticed(tmp_path):
    path = save(tmp_path)
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(IMAGES.tobytes()) + 5] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(DataError, match="CRC"):
        npz(path)


def test_pickled_objects_are_never_read(tmp_path):
    path = save(tmp_path, y_train=np.array(["a", None] * 6, dtype=object))
    with pytest.raises(DataError, match="allow_pickle=False"):
        npz(path)


def test_a_column_of_a_table_may_say_whose_a_row_is(tmp_path):
    frame = pd.DataFrame({"age": range(40), "site": ["a", "b", "b", "c"] * 10, "ill": ["no", "yes"] * 20})
    frame.to_csv(tmp_path / "clinic.csv", index=False)
    source = load(str(tmp_path / "clinic.csv"), target="ill", group="site")
    assert list(source.x.columns) == ["age"]
    partition = by_group(source.groups, source.y)
    assert [len(set(source.groups[rows])) for rows in partition.indices] == [1, 1, 1]
    assert (source.groups == frame["site"].to_numpy()[source.x["age"].to_numpy()]).all()
    with pytest.raises(DataError, match=r"clinic\.csv has no column 'sit'\. Did you mean 'site'"):
        load(str(tmp_path / "clinic.csv"), target="ill", group="sit")


def test_a_table_is_a_source(tmp_path):
    frame = pd.DataFrame(
        {"id": range(8), "age": np.arange(8.0), "town": ["a", "b"] * 4, "ill": ["no", "no", "yes", "yes"] * 2}
    )
    frame.to_csv(tmp_path / "clinic.csv", index=False)
    source = load(str(tmp_path / "clinic.csv"), target="ill", drop=["id"], categories=["town"], test_share=0.5)
    assert source.labels == ("no", "yes")
    assert list(source.x.columns) == ["age", "town"]
    assert (len(source.x), len(source.x_test)) == (4, 4)
    with pytest.raises(SettingsError, match="target"):
        load(str(tmp_path / "clinic.csv"))
