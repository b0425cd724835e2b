"""Who holds what, counted and drawn."""

import sys

import numpy as np
import pytest

from potluck.core.errors import DataError, PotluckError, SettingsError
from potluck.core.window import Window
from potluck.data import Partition, by_classes, dirichlet, holdings, plot_partition, plot_window

Y = np.array(["b", "a", "b", "c"])
HELD = Partition([np.array([0, 1, 2]), np.array([], dtype=int)], [("a", "b"), ("a", "b", "c")])


def test_holdings_count_rows_by_participant_and_class():
    table = holdings(HELD, Y, names=["clinic", "bank"])
    assert table.names == ("clinic", "bank")
    assert table.classes == ("a", "b", "c")
    assert table.counts.tolist() == [[1, 2, 0], [0, 0, 0]]


def test_participants_without_names_are_numbered():
    assert holdings(HELD, Y).names == ("0", "1")


def test_names_are_one_for_each():
    with pytest.raises(DataError, match="1 names for 2 participants"):
        holdings(HELD, Y, names=["clinic"])


def test_the_labels_must_be_those_the_partition_was_made_from():
    with pytest.raises(DataError, match=r"has row 2, .* 2 rows"):
        holdings(HELD, Y[:2])


@pytest.mark.parametrize("people", [1, 5, 100])
def test_a_png_is_drawn_for_few_and_many(tmp_path, people):
    y = np.arange(1000) % 10
    global_state = "matplotlib.pyplot" in sys.modules
    path = plot_partition(dirichlet(y, people, 0.5), y, tmp_path / "new" / "held.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert ("matplotlib.pyplot" in sys.modules) == global_state


def svg(partition, y, path, **options):
    """The texts of the picture: the SVG writer notes each one as a comment."""
    return plot_partition(partition, y, path, **options).read_text()


def test_the_picture_names_what_it_shows(tmp_path):
    y = np.arange(90) % 3
    text = svg(by_classes(y, 3, 2), y, tmp_path / "held.svg", names=["clinic", "bank", "phone"])
    for shown in ("Who holds what: 3 participants, 3 classes, 90 rows", "clinic", "bank", "phone", "<!-- 15 -->"):
        assert shown in text
    assert "participant (grey: not among its classes)" in text


def test_grey_is_explained_only_where_there_is_grey(tmp_path):
    y = np.arange(90) % 3
    assert "grey" not in svg(dirichlet(y, 3, 1.0), y, tmp_path / "held.svg")


def test_empty_shares_can_be_drawn(tmp_path):
    assert "2 participants, 3 classes, 3 rows" in svg(HELD, Y, tmp_path / "held.svg")


def test_other_kinds_of_file_are_refused(tmp_path):
    with pytest.raises(SettingsError, match=r"'held\.xls'; expected a name that ends in \.pdf, \.png or \.svg"):
        plot_partition(HELD, Y, tmp_path / "held.xls")


def test_a_pdf_for_a_paper(tmp_path):
    assert plot_partition(HELD, Y, tmp_path / "held.pdf").read_bytes().startswith(b"%PDF-")


def test_without_matplotlib_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(PotluckError, match=r"pip install '\.\[plots\]'"):
        plot_partition(HELD, Y, tmp_path / "held.png")


def test_a_window_is_plotted_round_by_round(tmp_path):
    path = plot_window(Window(size=30, step=10), np.repeat([0, 1, 2], 20), 4, tmp_path / "drift.png")
    assert path.stat().st_size > 1000
    with pytest.raises(SettingsError, match=r"ends in \.pdf, \.png or \.svg"):
        plot_window(Window(size=30, step=10), np.repeat([0, 1, 2], 20), 4, tmp_path / "drift.txt")
