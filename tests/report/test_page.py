"""The page of a comparison says what its table says, whole and in one file."""

from __future__ import annotations

import dataclasses
import html
import re

import pytest

from potluck.report import charts, page, rendering
from potluck.report.page import write_report
from potluck.report.summary_table import answer, summary_table
from tests.browser import check_in_browser, needs_browser
from tests.report.histories import four_methods, standings, trial


def text_of(path):
    return html.unescape(path.read_text(encoding="utf-8"))


def test_the_answer_stands_first_and_the_table_holds_every_number(tmp_path):
    found = four_methods()
    (path,) = write_report(found, tmp_path / "new" / "report.html")
    text = text_of(path)
    told = answer(found, found.significance())
    assert text.index(told) < text.index("<table>")
    for row in summary_table(found).rows:
        assert all(cell in text for cell in row)
    assert found.significance().sentence in text
    assert "Which methods differ" in text


def test_what_failed_what_was_tried_and_how_it_was_made_is_told(tmp_path):
    about = {"command": "potluck compare X", "commit": "abc+", "versions": {"torch": "2.0"}, "text": "rounds = 1\n"}
    runs = [
        trial("FD", 0, {"a": value}, settings=[("method.epochs", epochs)], validation={"a": value})
        for epochs, value in ((1, 0.5), (2, 0.6))
    ]
    (path,) = write_report(standings(*runs, failed={"MHAT, seed 0": "it broke"}, about=about), tmp_path / "r.html")
    text = text_of(path)
    told = ("MHAT, seed 0: it broke", "What was tried", "chosen", "potluck compare X", "abc+", "torch", "rounds = 1")
    assert [words for words in told if words not in text] == []


def test_runs_without_a_comparison_say_what_plays_each_of_them_again_and_all_settings(tmp_path):
    about = {"engine": "serial", "method": {"name": "FD", "alpha": 0.25}, "recipe": {"command": "potluck run a.toml"}}
    runs = [dataclasses.replace(trial("FD", seed, {"a": 0.5}), about=about) for seed in range(2)]
    crowd = {**about, "participants": [{"name": f"nobody{number}"} for number in range(charts.FEW + 1)]}
    local = dataclasses.replace(trial("Local", 0, {"a": 0.5}), about=crowd)
    text = text_of(write_report(standings(*runs, local), tmp_path / "report.html")[0])
    assert "potluck run a.toml\npotluck run a.toml\npotluck run a.toml" in text
    assert '"alpha": 0.25' in text
    assert "nobody" not in text


def test_figures_and_tables_are_files_too(tmp_path):
    found = four_methods()
    _, *files = write_report(found, tmp_path / "report.html", tmp_path / "figures")
    names = {path.name for path in files}
    assert {"cost.svg", "cost.png", "cost.pdf", "cost.csv", "ranks.pdf", "summary.tex", "differences.md"} <= names
    assert all(path.stat().st_size for path in files)
    tex = (tmp_path / "figures" / "summary.tex").read_text()
    assert tex.startswith("\\begin{tabular}{lrr")
    assert "\\toprule" in tex
    assert "accuracy \\%" in tex


def test_without_altair_the_tables_are_told_and_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(rendering, "find_spec", lambda name: None)
    (path,) = write_report(four_methods(), tmp_path / "report.html")
    text = text_of(path)
    assert page.NO_CHARTS in text
    assert "<svg" not in text
    with pytest.raises(Exception, match="altair"):
        write_report(four_methods(), tmp_path / "other.html", tmp_path / "figures")
    assert not (tmp_path / "other.html").exists()


def test_the_page_needs_nothing_from_outside_and_names_nothing_twice(tmp_path):
    (path,) = write_report(four_methods(), tmp_path / "report.html")
    text = path.read_text()
    assert not re.findall(r'(?:src|href)="(?!#|data:)', text)
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))


@pytest.mark.slow
@needs_browser
def test_in_a_browser_it_is_quiet_fits_and_can_be_used_by_everybody(tmp_path):
    (path,) = write_report(four_methods(), tmp_path / "report.html")
    check_in_browser(path.as_uri())
