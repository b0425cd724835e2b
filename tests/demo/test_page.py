"""What the demo says of its numbers, worked out by hand for two participants and two seeds."""

from __future__ import annotations

import json

import pytest

from potluck.demo.page import DemoResults, Outcome, write_results
from potluck.report import rendering
from tests.browser import check_in_browser, needs_browser

ANN = Outcome(
    *("ann", "tree", "01"),
    alone=(0.5, 0.6),
    together=(0.7, 0.9),
    samples=20,
    labels_received=(10, 20),
    bytes_up=(1000, 3000),
    bytes_down=(200, 400),
)
BOB = Outcome(
    *("bob", "net", "12"),
    alone=(0.9, 1.0),
    together=(0.8, 0.9),
    samples=40,
    labels_received=(30, 40),
    bytes_up=(4000, 4000),
    bytes_down=(600, 800),
)
RESULTS = DemoResults([ANN, BOB], {"public images": 1500}, seeds=(0, 1), seconds=3.21)


def test_the_finding_in_a_line():
    """Ann gains 0.2 and 0.3, Bob loses 0.1 twice; the means are (0.7 + 0.8) / 2 and (0.75 + 0.9) / 2."""
    assert RESULTS.title == "1 of 2 models do better together: 75% → 82% on average"
    assert RESULTS.subtitle.endswith("Mean ± standard deviation over 2 seeds.")
    assert DemoResults([ANN], {}, (0,), 1.0).subtitle.endswith("over 1 seed.")


def test_the_sentences_count_seed_by_seed_and_name_the_bytes():
    first, second = RESULTS.sentences
    assert "Together, 1 of 2 read digits better than alone" in first
    assert first.endswith("Seed by seed, 2 of 4 results are better.")
    assert "Each one sent 3.0 kB of votes on the 1,500 public images, and received 500 B: labels for 25" in second


@pytest.mark.parametrize("wide", [False, True])
def test_a_row_for_each_and_one_for_the_mean(wide):
    table = RESULTS.table(wide=wide)
    assert [row[:4] for row in table.rows] == [["ann", "tree", "01", "20"], ["bob", "net", "12", "40"]]
    assert table.rows[0][4:6] == ["55.0 ± 7.1", "80.0 ± 14.1"]
    assert table.total[:4] == ["mean", "", "", "30"]
    assert table.rows[0][7:] == (["15", "2.0 kB", "300 B"] if wide else [])
    assert table.total[7:] == (["25", "3.0 kB", "500 B"] if wide else [])
    assert len(table.headings) == len(table.total)


def test_the_numbers_are_all_in_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(rendering, "find_spec", lambda name: None)
    assert [path.name for path in write_results(RESULTS, tmp_path)] == ["index.html", "results.json"]
    told = json.loads((tmp_path / "results.json").read_text())
    assert told["seeds"] == [0, 1]
    assert told["seconds"] == 3.2
    assert told["participants"][1]["bytes_up"] == [4000, 4000]
    assert told["mean"]["alone"] == pytest.approx([0.7, 0.8])
    assert told["participants"][0]["gain_mean"] == pytest.approx(0.25)


@pytest.mark.slow
@needs_browser
def test_in_a_browser_the_page_is_quiet_fits_and_can_be_used_by_everybody(tmp_path):
    page, *_ = write_results(RESULTS, tmp_path)
    assert "<svg" in page.read_text()
    check_in_browser(page.as_uri())
