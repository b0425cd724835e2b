"""A description as a table and a file."""

from __future__ import annotations

import pytest

from potluck import DataError, Description

FOUND = Description(
    2,
    {
        "age": {
            "kind": "number", "held_by": 2, "count": 9, "mean": 40.0, "variance": 25.0, "low": 20.0, "high": 60.0,
            "quartiles": [36.0, 40.0, None], "histogram": [4, 5],
        },
        "sex": {"kind": "category", "held_by": 1, "numbers_at": 1, "categories": {"f": 5, "m": 4}},
        "secret": {"kind": "category", "held_by": 0, "numbers_at": 0, "categories": {}},
    },
    {"0": 4, "1": 5},
)  # fmt: skip


def test_a_row_for_each_column():
    assert FOUND.table().rows == [
        ["age", "numbers", "2 of 2", "9", "40", "5", "20 to 60", "36, 40, –"],
        ["sex", "categories, numbers at 1", "1 of 2", "9", "", "", "", ""],
        ["secret", "categories", "0 of 2", "–", "", "", "", ""],
    ]
    held_back = {**FOUND.columns["age"], "variance": None, "low": None, "high": None, "quartiles": [None] * 3}
    row = ["age", "numbers", "2 of 2", "9", "40", "–", "–", "–, –, –"]
    assert Description(2, {"age": held_back}, {}).table().rows == [row]


def test_below_it_stands_how_often_each_category_occurs_and_of_many_the_most_frequent():
    assert FOUND.text().splitlines()[-2:] == ["sex: f 5, m 4", "labels: 0 4, 1 5"]
    many = {f"c{i:02}": i for i in range(1, 21)}
    column = {"kind": "category", "held_by": 1, "numbers_at": 0, "categories": many}
    assert Description(1, {"code": column}, {}).text().splitlines()[-1] == (
        "code: c20 20, c19 19, c18 18, c17 17, c16 16, c15 15, c14 14, c13 13, c12 12, c11 11, c10 10, c09 9 and 8 more"
    )


def test_it_comes_back_from_a_file(tmp_path):
    FOUND.save(tmp_path / "d.json")
    assert Description.load(tmp_path / "d.json") == FOUND
    (tmp_path / "summary.json").write_text("{}")
    with pytest.raises(DataError, match="holds no description"):
        Description.load(tmp_path)


def test_a_preprocessor_has_what_was_told():
    assert FOUND.preprocessor().get_feature_names_out().tolist() == ["age", "sex=f", "sex=m"]
    with pytest.raises(DataError, match="No participant told anything"):
        Description(1, {"secret": FOUND.columns["secret"]}, {}).preprocessor()
