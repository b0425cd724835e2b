"""A metric, round by round, as a picture."""

from __future__ import annotations

import pytest

from potluck import DataError, History, SettingsError
from tests.tables import row


@pytest.fixture
def sparse():
    """Three participants; after the first round one takes part in each round, and one of these was not measured."""
    made = History(row(1, name, score) for name, score in {"bank": 0.5, "clinic": 0.25, "shop": 0.75}.items())
    made.add([row(2, "shop", 1.0, took_part=True, refused=None)])
    made.add([row(3, "bank", None, took_part=True, refused="it sent NaN")])
    return made


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_a_metric_is_drawn(kind, sparse, tmp_path):
    figure = sparse.plot(tmp_path / "new" / f"picture.{kind}", metric="loss")
    assert (tmp_path / "new" / f"picture.{kind}").stat().st_size > 1000
    (axes,) = figure.axes
    (line,) = axes.lines
    assert line.get_xdata().tolist() == [1, 2, 3]
    assert line.get_ydata().tolist() == [0.5, (0.5 + 0.75) / 3, 0.375]
    (band,) = axes.collections
    assert sorted({y for _, y in band.get_paths()[0].vertices.tolist()}) == [0.0, 0.25, 0.75]
    assert axes.get_ylabel() == "loss"


def test_a_picture_of_nothing_is_refused(sparse, tmp_path):
    with pytest.raises(DataError, match=r"no 'acuracy' to draw\. Did you mean 'accuracy'"):
        sparse.plot(metric="acuracy")
    with pytest.raises(DataError, match="no 'accuracy' to draw"):
        History().plot()
    with pytest.raises(SettingsError, match=r"'x\.doc'; expected a name that ends in \.pdf, \.png, \.svg"):
        sparse.plot(tmp_path / "x.doc")


def test_by_bytes_and_by_simulated_time():
    made = History([row(1, "a", 0.5, 10, 20, simulated_seconds=2.0), row(1, "b", 0.7, 10, 20, simulated_seconds=3.0)])
    made.add([row(2, "a", 0.9, 5, 5, simulated_seconds=0.5), row(2, "b", 0.9, 0, 0, simulated_seconds=0.25)])
    for by, expected in (("round", [1, 2]), ("bytes", [60, 70]), ("simulated", [3.0, 3.5])):
        ((line,), *_) = [axes.lines for axes in made.plot(by=by).axes]
        assert line.get_xdata().tolist() == expected
    with pytest.raises(SettingsError, match=r"by is 'byte'\. Did you mean 'bytes'"):
        made.plot(by="byte")


def test_without_a_clock_there_is_no_simulated_time(sparse):
    with pytest.raises(DataError, match="No time was simulated; give the federation a `clock`"):
        sparse.plot(by="simulated")
