"""`potluck demo`: it passes on what it was asked for. What the demo shows is tested where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import potluck


@pytest.mark.parametrize(("options", "expected"), [((), ("demo", 5)), (("--out", "there", "--seeds", 2), ("there", 2))])
def test_the_demo_goes_where_it_should(options, expected, monkeypatch):
    asked = []
    monkeypatch.setattr("potluck.demo.play.run_demo", lambda out, seeds, console: asked.append((out, seeds)))
    potluck("demo", *options)
    assert asked == [(Path(expected[0]), expected[1])]


def test_there_is_no_demo_without_a_seed():
    assert "--seeds" in potluck("demo", "--seeds", 0, fails=2).output
