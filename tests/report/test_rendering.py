"""Figures as files and as parts of a page."""

from __future__ import annotations

import csv
import re
import subprocess
import sys

import pytest

from potluck.core.errors import PotluckError
from potluck.report import charts, rendering
from potluck.report.rendering import ReportFigure, csv_of

ROWS = [{"participant": "a", "label": "0", "samples": 1234}, {"participant": "b", "label": "0", "samples": 5}]
FIGURE = ReportFigure("data", "Who", "What.", ROWS, charts.heat(ROWS, "label", "participant", "samples", "samples"))


def test_every_kind_of_file_is_what_it_says(tmp_path):
    paths = FIGURE.write(tmp_path)
    assert [path.name for path in paths] == ["data.svg", "data.png", "data.pdf", "data.csv"]
    svg, png, pdf, table = (path.read_bytes() for path in paths)
    assert svg.startswith(b"<svg")
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") == rendering.SCALE * charts.WIDTH
    assert pdf.startswith(b"%PDF")
    first = next(csv.DictReader(table.decode().splitlines()))
    assert first == {"participant": "a", "label": "0", "samples": "1234"}


def test_the_same_rows_give_the_same_picture(tmp_path):
    (tmp_path / "again").mkdir()
    one, two = FIGURE.write(tmp_path, ["svg"])[0], FIGURE.write(tmp_path / "again", ["svg"])[0]
    assert one.read_bytes() == two.read_bytes()


def test_in_a_page_a_picture_says_nothing_itself_and_its_names_are_its_own():
    svg = FIGURE.svg()
    assert "aria-" not in svg
    assert "role=" not in svg
    assert "http" not in svg


def test_clips_of_two_pictures_do_not_meet():
    curve = [{"method": "FD", "round": n, "mean": 1.0, "low": 0.5, "high": 2.0} for n in (1, 2)]
    one, two = (
        ReportFigure(name, "", "", curve, charts.curves(curve, "round", "x", "y")).svg() for name in ("one", "two")
    )
    assert not set(re.findall(r'id="([^"]*)"', one)) & set(re.findall(r'id="([^"]*)"', two))
    assert set(re.findall(r"url\(#([^)]*)\)", one)) <= set(re.findall(r'id="([^"]*)"', one))


def test_numbers_are_a_table_unless_there_are_too_many():
    table = FIGURE.numbers()
    assert table.headings == ["participant", "label", "samples"]
    assert table.rows[0] == ["a", "0", "1,234"]
    assert table.texts == 2
    assert FIGURE.numbers(most=1) is None


def test_rows_with_different_columns_share_a_csv():
    assert csv_of([{"a": 1}, {"a": 2, "b": 3}]) == "a,b\n1,\n2,3\n"


def test_without_altair_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(rendering, "find_spec", lambda name: None)
    with pytest.raises(PotluckError, match=r"altair and vl-convert-python.*pip install '\.\[plots\]'"):
        rendering.need_charts()


def test_altair_is_not_imported_before_a_figure_is_drawn():
    code = "import sys, potluck.report.page; sys.exit(any(name in sys.modules for name in ('altair', 'vl_convert')))"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
