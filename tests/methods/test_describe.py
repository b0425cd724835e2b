"""A study of tables: what is told, what is not, and that it is that of all rows together."""

from __future__ import annotations

import math

import numpy as np
import pandas
import pytest
import torch

import potluck
from potluck.core.payload import Payload
from potluck.federation.server import Server
from potluck.methods import Describe


def table(rows, seed, **more):
    random = np.random.default_rng(seed)
    frame = {"age": random.normal(50 + seed, 9, rows), "sex": random.choice(["f", "m"], rows), **more}
    return pandas.DataFrame(frame), random.integers(2, size=rows)


def net(input_shape, classes):
    """A model that could not read the tables, and is not asked to."""
    raise AssertionError("a study builds no model")


def people(*tables, **settings):
    return [potluck.Participant(f"p{i}", net, own, labels=range(2), **settings) for i, own in enumerate(tables)]


def test_numbers_are_those_of_all_rows():
    tables = [table(30, 0), table(20, 1), table(25, 2)]
    found = potluck.describe(people(*tables), bins=4).columns["age"]
    ages = np.concatenate([frame["age"] for frame, _ in tables])
    assert found["count"] == 75
    assert found["held_by"] == 3
    assert found["mean"] == pytest.approx(ages.mean(), rel=1e-12)
    assert found["variance"] == pytest.approx(ages.var(), rel=1e-12)
    assert (found["low"], found["high"]) == (ages.min(), ages.max())
    assert (
        sum(potluck.describe(people(*tables, disclosure=potluck.Disclosure(min_count=1))).columns["age"]["histogram"])
        == 75
    )
    assert found["quartiles"][1] == pytest.approx(np.median(ages), abs=3)


def test_columns_and_codes_are_a_union():
    one, other = table(20, 0, code=["one", "2"] * 10), table(20, 1, code=[2.0, 3.0] * 10, height=np.arange(20.0))
    found = potluck.describe(people(one, other))
    assert list(found.columns) == ["age", "height", "code", "sex"]
    assert found.columns["code"]["categories"] == {"2": 20, "3": 10, "one": 10}, "a category at one, so at both"
    assert found.columns["height"]["held_by"] == 1
    assert sum(found.classes.values()) == 40


def test_codes_may_be_named():
    found = potluck.describe(people(table(20, 0, code=[1, 2] * 10)), categories=("code",))
    assert found.columns["code"]["categories"] == {"1": 10, "2": 10}


def test_a_column_of_many_values_is_left_out():
    named = table(120, 0, name=[f"name {i}" for i in range(120)])
    assert "name" not in potluck.describe(people(named)).columns


def test_what_stands_for_few_is_not_told():
    rare = table(20, 0, code=["a"] * 17 + ["b"] * 3, seldom=[1.0] * 4 + [None] * 16)
    found = potluck.describe(people(rare)).columns
    assert found["code"]["categories"] == {"a": 17}
    assert found["seldom"]["count"] == 0
    bins = found["age"]["histogram"]
    assert sum(bins) == 20, "bins of fewer than five are put together"
    assert all(count == 0 or count >= 5 for count in bins)
    assert sum(count > 0 for count in bins) > 1
    all_of_it = potluck.describe(people(rare, disclosure=potluck.Disclosure(min_count=1))).columns
    assert all_of_it["code"]["categories"] == {"a": 17, "b": 3}
    assert all_of_it["seldom"]["count"] == 4


@pytest.mark.parametrize(
    ("without", "gone"),
    [
        ("count", lambda found: found.columns["age"]["count"] == 0),
        ("mean", lambda found: found.columns["age"]["count"] == 0),
        ("variance", lambda found: found.columns["age"]["variance"] is None),
        ("range", lambda found: found.columns["age"]["low"] is None),
        ("histogram", lambda found: sum(found.columns["age"]["histogram"]) == 0),
        ("categories", lambda found: found.columns["sex"]["categories"] == {}),
        ("classes", lambda found: found.classes == {}),
    ],
)
def test_what_may_not_leave_does_not(without, gone):
    tell = tuple(name for name in potluck.Disclosure().tell if name != without)
    assert gone(potluck.describe(people(table(30, 0), disclosure=potluck.Disclosure(tell=tell)), bins=4))
    assert not gone(potluck.describe(people(table(30, 0)), bins=4))


def test_a_variance_and_a_range_are_those_of_the_ones_who_tell_them():
    open_, closed = table(30, 0), table(20, 7)
    ages = open_[0]["age"].to_numpy()
    keeping = potluck.Disclosure(tell=("count", "mean", "histogram", "categories", "classes"))
    found = potluck.describe([*people(open_), potluck.Participant("q", net, closed, disclosure=keeping)], bins=4)
    assert found.columns["age"]["count"] == 50
    assert found.columns["age"]["variance"] == pytest.approx(ages.var(), rel=1e-12)
    assert (found.columns["age"]["low"], found.columns["age"]["high"]) == (ages.min(), ages.max())
    assert sum(found.columns["age"]["histogram"]) > 30, "what lies outside counts in the first and the last bin"


def test_without_a_range_no_histogram_leaves():
    keeping = potluck.Disclosure(tell=("count", "mean", "histogram"), min_count=1)
    found = potluck.describe(people(table(30, 0), disclosure=keeping), bins=4).columns["age"]
    assert found["histogram"] == [0] * 4
    assert found["quartiles"] == [None] * 3


def test_a_column_that_is_text_somewhere_is_told_to_be_numbers_elsewhere():
    found = potluck.describe(people(table(20, 0, chol=["?", "200"] * 10), table(20, 1, chol=np.arange(20.0))))
    assert found.columns["chol"]["numbers_at"] == 1
    assert found.columns["sex"]["numbers_at"] == 0
    assert "categories, numbers at 1" in found.text()


def test_the_summary_of_a_run_holds_it(tmp_path):
    own = people(table(20, 0), table(20, 1))
    potluck.Federation(own, Describe()).run(1, run_dir=tmp_path)
    found = potluck.Description.load(tmp_path)
    assert found == potluck.describe(people(table(20, 0), table(20, 1)))


def test_bytes_are_counted():
    history = potluck.Federation(people(table(20, 0), table(20, 1)), Describe(bins=4)).run(1)
    assert all(row["bytes_up"] > 4 * 8 for row in history.rows())


def test_lies_as_large_as_the_schema_allows_are_merged_to_finite_numbers():
    method, server = Describe(), Server(0, {})
    server.state |= {"told": {name: {"values": {}} for name in "ab"}, "numbers": ["age"]}
    spec = (method.moments_schema(server, "a").tensors or {})["moments"]
    most, least = spec.high, spec.low
    assert most is not None
    assert least is not None
    rows = {"a": [most, most, most, most, most], "b": [most, least, most, least, most]}
    facts = {"values": {}, "tells": ["variance", "range"]}
    answers = (
        (name, Payload({"moments": torch.tensor([row], dtype=torch.float64)}, facts)) for name, row in rows.items()
    )
    assert method.moments(server, answers)["ranges"].isfinite().all()
    assert math.isfinite(server.state["moments"][0]["variance"])
