"""Pictures are drawn, and say what they need."""

from __future__ import annotations

import importlib
import sys

import pytest

from potluck.core.errors import PotluckError
from potluck.report import figures
from potluck.report.comparison import Compared

ROWS = [
    Compared("ann", "tree", "01", alone=(0.5, 0.6), together=(0.7, 0.9)),
    Compared("bob", "net", "12", alone=(0.9, 1.0), together=(0.8, 0.9)),
]


@pytest.mark.parametrize("rows", [ROWS, ROWS[:1]], ids=["two", "one"])
def test_the_picture_is_1800_pixels_wide(tmp_path, rows):
    path = tmp_path / "picture.png"
    figures.alone_and_together(rows, path, "title", "subtitle")
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    assert int.from_bytes(head[16:20], "big") == 1800


def test_the_same_numbers_give_the_same_picture(tmp_path):
    for name in ("one.png", "two.png"):
        figures.alone_and_together(ROWS, tmp_path / name, "title")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_without_matplotlib_it_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "find_spec", lambda name: None)
    with pytest.raises(PotluckError, match=r"pip install '\.\[plots\]'"):
        figures.alone_and_together(ROWS, tmp_path / "picture.png", "title")


def test_matplotlib_is_not_imported_before_it_is_used(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # importing it is an error now
    importlib.reload(figures)
