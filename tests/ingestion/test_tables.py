from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy.sparse import coo_matrix, csr_matrix

from potluck import DataError, Samples
from potluck.ingestion.user_data import read_inputs

TEXTS = ["no pain", "some pain", "much pain"]
ROWS = torch.tensor([2, 0])


def frame(**changed):
    return pd.DataFrame({"age": [30.0, np.nan, 52.0], "stage": pd.Categorical(["I", "II", "I"])} | changed)


def numbers(make=pd.DataFrame, **changed):
    return make({"age": [30, 41, 52], "bmi": [20.5, 31.0, 24.0], "smokes": [True, False, True]} | changed)


def read(x):
    return read_inputs(x, "clinic")


def test_a_frame_stays_a_frame():
    taken = read(frame()).take(ROWS)
    pd.testing.assert_frame_equal(taken.x, frame().iloc[[2, 0]])
    pd.testing.assert_frame_equal(taken.at(slice(1)), frame().iloc[[2]])
    assert str(taken.kinds["x"]) == "shape (2,) in mixed columns"
    assert str(read(numbers()).kinds["x"]) == "shape (3,)"


def test_a_polars_frame_stays_one():
    table = numbers(pl.DataFrame, town=["a", "b", "a"])
    taken = read(table).take(ROWS)
    assert taken.x.equals(table[[2, 0]])
    assert len(taken) == 2
    assert taken.kinds["x"].numbers == "mixed columns"
    joined = Samples.concat([taken, read(table)])
    assert joined.x["age"].to_list() == [52, 30, 30, 41, 52]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_a_network_reads_a_frame_of_numbers_as_floats(make):
    samples = read(numbers(make)).with_targets(y=torch.tensor([0, 1, 0])).for_network("clinic")
    assert samples.source is None
    assert samples.x.tolist() == [[30.0, 20.5, 1.0], [41.0, 31.0, 0.0], [52.0, 24.0, 1.0]]
    assert samples.x.dtype == torch.float64
    assert samples.y.tolist() == [0, 1, 0]


def test_single_precision_is_kept():
    assert read(pd.DataFrame({"a": np.ones(2, dtype="float32")})).for_network("p").x.dtype == torch.float32


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_columns_that_are_no_numbers_are_named_to_a_network_with_the_way_out(make):
    table = read(numbers(make, town=["a", "b", "a"], visit=pd.to_datetime(["2020-01-01"] * 3).to_numpy()))
    with pytest.raises(DataError, match=r"clinic: a torch module .* none: 'town' \(.*\), 'visit' \(.*preprocess="):
        table.for_network("clinic")


def test_categories_of_numbers_are_categories():
    with pytest.raises(DataError, match=r"'stage' \(category\)"):
        read(frame(stage=pd.Categorical([1, 2, 1]))).for_network("clinic")


@pytest.mark.parametrize("gap", [np.nan, np.inf])
def test_gaps_are_named_to_a_network_with_the_way_out(gap):
    with pytest.raises(DataError, match=r"clinic: .* no gaps, .* infinity: 'bmi' \(1 of 3\)\. .*SimpleImputer"):
        read(numbers(bmi=[1.0, gap, 2.0])).for_network("clinic")


def test_gaps_in_pandas_own_types_are_gaps():
    with pytest.raises(DataError, match=r"'age' \(1 of 3\)"):
        read(numbers(age=pd.array([1, None, 3], dtype="Int64"))).for_network("clinic")


def test_frames_are_put_together_with_all_their_categories():
    other = frame(stage=pd.Categorical(["III", "I", "I"]))
    both = Samples.concat([read(frame()), read(other)]).x
    assert list(both["stage"].cat.categories) == ["I", "II", "III"]
    assert both["stage"].tolist() == ["I", "II", "I", "III", "I", "I"]


def test_an_array_of_as_many_columns_can_follow_a_frame():
    both = Samples.concat([read(numbers()), Samples({"x": torch.ones(1, 3)})])
    assert list(both.x.columns) == ["age", "bmi", "smokes"]
    assert both.x.iloc[3].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("other", [pd.DataFrame({"age": [1.0], "city": ["x"]}), np.ones((1, 4)), TEXTS])
def test_other_columns_cannot_follow_a_frame(other):
    with pytest.raises(DataError, match="columns 'age', 'stage' cannot be put together with"):
        Samples.concat([read(frame()), read(other)])


def test_columns_of_one_name_are_an_error():
    with pytest.raises(DataError, match="same name"):
        read(pd.DataFrame([[1, 2]], columns=["a", "a"]))


@pytest.mark.parametrize("empty", [frame().iloc[:0], csr_matrix((0, 3)), pl.DataFrame({"a": []})])
def test_tables_without_rows_are_an_error(empty):
    with pytest.raises(DataError, match="clinic: no samples"):
        read(empty)


def test_a_sparse_matrix_stays_sparse_and_a_network_reads_all_of_it():
    matrix = coo_matrix(np.diag([1.0, 2.0, 3.0]))
    samples = read(matrix)
    assert samples.take(ROWS).x.toarray().tolist() == [[0.0, 0.0, 3.0], [1.0, 0.0, 0.0]]
    assert samples.for_network("p").x.tolist() == matrix.toarray().tolist()
    assert len(Samples.concat([samples, samples, Samples({"x": torch.ones(1, 3)})])) == 7
    with pytest.raises(DataError, match="cannot be joined"):
        Samples.concat([samples, Samples({"x": torch.ones(1, 2)})])


@pytest.mark.parametrize("texts", [TEXTS, np.array(TEXTS), np.array(TEXTS, dtype=object)])
def test_texts_stay_texts(texts):
    samples = read(texts)
    assert samples.take(ROWS).x.tolist() == ["much pain", "no pain"]
    assert Samples.concat([samples, samples]).x.tolist() == TEXTS * 2
    with pytest.raises(DataError, match=r"preprocess=TfidfVectorizer\(\)"):
        samples.for_network("clinic")
    with pytest.raises(DataError, match="Texts cannot be put together with an array"):
        Samples.concat([samples, Samples({"x": torch.ones(1, 2)})])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (frame(), frame(stage=pd.Categorical(["I", "I", "I"]))),
        (frame(), frame(age=[31.0, np.nan, 52.0])),
        (numbers(), numbers().rename(columns={"age": "years"})),
        (numbers(pl.DataFrame), numbers(pl.DataFrame, age=[1, 2, 3])),
        (csr_matrix(np.eye(3)), csr_matrix(2 * np.eye(3))),
        (TEXTS, TEXTS[::-1]),
    ],
)
def test_the_checksum_is_that_of_the_rows(one, other):
    digests = [read(x).source.digest() for x in (one, one, other)]
    assert digests[0] == digests[1] != digests[2]
    assert read(one).take(ROWS).source.digest() != digests[0]
