"""Histories with numbers that can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from potluck.core.history import History
from potluck.report.metric import metric_named
from potluck.report.standings import Standings
from potluck.report.trials import Entry, Holder, Trial


def history(rounds: Sequence[Mapping[str, float]], metric: str = "accuracy", up: int = 10, down: int = 20) -> History:
    """Round by round everybody's value; each sends and receives the same each round, and works a second."""
    return History(
        {
            "round": number,
            "participant": name,
            metric: value,
            "bytes_up": up,
            "bytes_down": down,
            "seconds": 1.0,
            "took_part": True,
            "refused": None,
        }
        for number, values in enumerate(rounds, start=1)
        for name, value in values.items()
    )


def trial(method: str, seed: int, *rounds: Mapping[str, float], settings=(), validation=None, **more) -> Trial:
    """A run of a method."""
    people = tuple(Holder(name, "MLP", 10, {"0": 4, "1": 6}) for name in rounds[-1])
    valid = {name: {"accuracy": value} for name, value in (validation or {}).items()}
    return Trial(Entry(method, tuple(settings)), seed, history(rounds, **more), people, valid)


def standings(*trials: Trial, metric: str = "accuracy", target: float | None = None, **more) -> Standings:
    """A comparison of these runs."""
    return Standings(trials, metric_named(metric), target, **more)


def four_methods(seeds: int = 6) -> Standings:
    """Three methods and Local, two participants, the methods always in one order; 0.01 × seed makes seeds differ."""
    above = {"CoFED": 0.30, "FedAvg": 0.20, "FD": 0.10, "Local": 0.0}
    return standings(
        *(
            trial(
                method,
                seed,
                {"a": 0.3, "b": 0.4},
                {"a": 0.5 + gain * (1 + 0.1 * seed), "b": 0.6 + 0.01 * seed - gain / 4},
                up=0 if method == "Local" else 100,
                down=0 if method == "Local" else 50,
            )
            for seed in range(seeds)
            for method, gain in above.items()
        ),
        target=0.55,
    )
