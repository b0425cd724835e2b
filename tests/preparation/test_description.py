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
        "sex": {"kind": "category", "held_by": 1, "categories": {"f": 5, "m": 4}},
        "secret": {"kind": "category", "held_by": 0, "categories": {}},
    },
    {"0": 4, "1": 5},
)  # fmt: skip


def test_a_row_for_each_column():
    assert FOUND.table().rows == [
        ["age", "numbers", "2 of 2", "9", "40", "5", "20 to 60", "36, 40, –"],
        ["sex", "categories", "1 of 2", "f 5, m 4", "", "", "", ""],
        ["secret", "categories", "0 of 2", "–", "", "", "", ""],
    ]


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
