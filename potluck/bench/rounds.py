"""Rounds of a scenario, engine against engine."""

from __future__ import annotations

from functools import partial
from typing import Any

from potluck.bench.measure import in_turns, ratios
from potluck.bench.results import Figure
from potluck.bench.scenarios import Scenario
from potluck.federation.federation import Federation
from potluck.federation.method import Method
from potluck.methods import FedAvg


def federation(
    scenario: Scenario, engine: str, device: str = "cpu", method: Method | None = None, **options: Any
) -> Federation:
    """Everyone at the table and joined, so that what is timed is rounds. FedAvg unless told otherwise."""
    seated = Federation(scenario.participants(), method or FedAvg(), engine=engine, device=device, **options)
    seated.run(0)
    return seated


def serial_and_auto(scenario: Scenario, repeats: int, goal: float | None = None) -> list[Figure]:
    """Seconds for a round on the CPU, and how many times as fast the automatic engine is."""
    seated = {engine: federation(scenario, engine) for engine in ("serial", "auto")}
    timings = in_turns({engine: partial(f.run, 1) for engine, f in seated.items()}, repeats, warm_up=2)
    faster = ratios(timings["serial"].seconds, timings["auto"].seconds)
    name = f"{scenario.name} round"
    return [
        *(Figure.timed(f"{name}, {engine}", timing, "s") for engine, timing in timings.items()),
        Figure.of(f"{name}, auto over serial", faster, "×", "higher", goal),
    ]
