"""How cost grows: figures, a picture, a process for each number of participants."""

from __future__ import annotations

import pytest

from benchmarks import growth, growth_rounds
from potluck.core.errors import PotluckError


def test_growth_is_measured_and_drawn(tmp_path):
    measured = {count: growth_rounds.measure(count, 4, 2, "serial", "cpu", None) for count in (2, 4)}
    found = {figure.name: figure for figure in growth.figures(measured)}
    assert len(measured[4]["seconds"]) == len(measured[4]["memory"]) == 2
    assert found["4 over 2: most memory"].goal == 1.3
    assert found["4: most memory"].value > 50
    growth.draw(measured, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")


def test_growth_in_a_process_of_its_own():
    options = ["--samples", "4", "--rounds", "2", "--engine", "serial", "--device", "cpu", "--max-concurrent", "1"]
    assert len(growth.run(2, options)["seconds"]) == 2
    with pytest.raises(PotluckError, match="2 participants ended with"):
        growth.run(2, ["--samples", "many"])
