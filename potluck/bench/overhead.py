"""The engine's own cost: rounds in which the models do nothing."""

from __future__ import annotations

from functools import partial

from potluck.bench.measure import in_turns
from potluck.bench.results import Figure
from potluck.bench.rounds import federation
from potluck.bench.scenarios import NOTHING, Scenario

GOAL = 1.0
"""Milliseconds for each participant and round."""

STEPS = {"no step": 0, "one step": 1}


def overhead(repeats: int, scenario: Scenario = NOTHING, device: str = "cpu") -> list[Figure]:
    """Milliseconds for each participant and round of FedAvg: without any step, and with one.

    One step of a model that does nothing adds what PyTorch itself takes to go backward and to step.
    """
    seated = {
        f"{engine}, {words}": federation(scenario.replace(plan=scenario.plan.replace(epochs=steps)), engine, device)
        for engine in ("serial", "auto")
        for words, steps in STEPS.items()
    }
    timings = in_turns({name: partial(f.run, 1) for name, f in seated.items()}, repeats, warm_up=2)
    return [
        Figure.timed(f"nothing, {name}", timing, "ms", 1000 / scenario.count, GOAL) for name, timing in timings.items()
    ]
