"""One preprocessor for tables that differ: what becomes of columns, codes and gaps."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from sklearn.base import clone

from potluck import CommonPreprocessor, DataError, SettingsError

AGE = {"kind": "number", "mean": 40.0, "variance": 25.0, "low": 20.0, "high": 60.0, "count": 9}
SEX = {"kind": "category", "categories": {"f": 5, "m": 4}}
COLUMNS = {"age": AGE, "sex": SEX}


def test_by_hand():
    frame = pandas.DataFrame({"sex": ["m", None, "x"], "age": [45.0, None, 30.0], "other": [1, 2, 3]})
    made = CommonPreprocessor(COLUMNS).fit(frame).transform(frame)
    assert made.tolist() == [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [-2.0, 0.0, 0.0]]


def test_scales_and_signs_of_what_is_missing():
    frame = pandas.DataFrame({"age": [45.0, None]})
    assert CommonPreprocessor(COLUMNS, "range").transform(frame)[:, 0].tolist() == [0.625, 0.5]
    assert CommonPreprocessor(COLUMNS, "none").transform(frame)[:, 0].tolist() == [45.0, 40.0]
    signed = CommonPreprocessor(COLUMNS, indicate_missing=True)
    assert signed.transform(frame)[:, :2].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert signed.get_feature_names_out().tolist() == ["age", "age is missing", "sex=f", "sex=m"]


def test_a_missing_column_is_missing_in_all_rows():
    assert CommonPreprocessor(COLUMNS).transform(pandas.DataFrame({"sex": ["f"]})).tolist() == [[0.0, 1.0, 0.0]]


def test_a_column_that_never_varies_is_not_divided_by_nothing():
    flat = {"age": {**AGE, "variance": 0.0, "low": 40.0, "high": 40.0}}
    for scale in ("standard", "range"):
        assert CommonPreprocessor(flat, scale).transform(pandas.DataFrame({"age": [40.0]})).tolist() == [[0.0]]


def test_arrays_have_numbered_columns():
    assert CommonPreprocessor({"1": AGE}).transform(np.array([[7.0, 45.0]])).tolist() == [[1.0]]


def test_it_is_saved_and_cloned(tmp_path):
    made = CommonPreprocessor(COLUMNS, "range", indicate_missing=True)
    made.save(tmp_path / "common.json")
    frame = pandas.DataFrame({"age": [33.0, None], "sex": ["f", "m"]})
    for other in (CommonPreprocessor.load(tmp_path / "common.json"), clone(made)):
        assert other.transform(frame).tolist() == made.transform(frame).tolist()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "colums": {}}'])
def test_what_is_no_preprocessor_is_told(text, tmp_path):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(DataError, match=r"x\.json holds no common preprocessor"):
        CommonPreprocessor.load(tmp_path / "x.json")


def test_mistakes():
    with pytest.raises(SettingsError, match="no columns"):
        CommonPreprocessor().fit(None)
    with pytest.raises(SettingsError, match="scale is 'minmax'"):
        CommonPreprocessor(COLUMNS, "minmax").fit(None)
    for scale, part, what in (("standard", "variance", "variance"), ("range", "low", "range")):
        with pytest.raises(SettingsError, match=f"scale is '{scale}', and nobody told the {what} of 'age'"):
            CommonPreprocessor({"age": {**AGE, part: None}}, scale).fit(None)
        CommonPreprocessor({"age": {**AGE, part: None}}, "none").fit(None)
    with pytest.raises(DataError, match="'age' holds something that is no number"):
        CommonPreprocessor(COLUMNS).transform(pandas.DataFrame({"age": ["old"]}))


def test_a_table_without_any_of_the_columns_is_told():
    with pytest.raises(DataError, match=r"none of the common columns.*It has shoe size; they are age, sex"):
        CommonPreprocessor(COLUMNS).fit(None).transform(pandas.DataFrame({"shoe size": [40.0]}))
