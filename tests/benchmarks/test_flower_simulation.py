"""Flower's simulation beside the engines."""

from __future__ import annotations

from benchmarks import flower_simulation


def test_flowers_simulation_is_what_the_engines_are_compared_with():
    found = flower_simulation.figures(5, {"serial": 2.0, "batched": 0.5, "Flower's simulation": 10.0})
    assert [figure.value for figure in found] == [2.0, 0.5, 10.0, 5.0, 20.0]
