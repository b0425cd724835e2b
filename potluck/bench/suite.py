"""What ``potluck bench`` runs: short measurements for anyone's machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch

from potluck.bench.measure import interleaved, ratios
from potluck.bench.results import Figure
from potluck.bench.scenarios import (
    CNN,
    COFED,
    FEDIN,
    IDLE,
    MLP,
    RESNET34,
    RESNETS,
    SMALL_MLP,
    Scenario,
    federation,
    server_load,
)
from potluck.bench.steps import eager_against_engine
from potluck.bench.transforms import WAYS
from potluck.core.errors import SettingsError, nearest
from potluck.federation.federation import Federation
from potluck.methods import FedAvg, FedIN, PerHeFed

OVERHEAD_GOAL = 1.0
"""Milliseconds for each participant and round."""

TRANSFORM_GOAL = 1.1
"""Of a round without a transform."""

MERGING_GOAL = 1 / 3
"""Of the machine's copy bandwidth."""

COPIED_BYTES = 2**28
"""Bytes that are copied to learn how fast copying is: far more than caches hold."""


def rounds(scenario: Scenario, repeats: int, goal: float | None = None) -> list[Figure]:
    """Seconds for a round on the CPU, and how many times as fast the automatic engine is."""
    joined = {engine: federation(scenario, engine) for engine in ("serial", "auto")}
    timings = interleaved({engine: partial(f.run, 1) for engine, f in joined.items()}, repeats, warm_up=2)
    faster = ratios(timings["serial"].seconds, timings["auto"].seconds)
    name = f"{scenario.name} round"
    return [
        *(Figure.timed(f"{name}, {engine}", timing, "s") for engine, timing in timings.items()),
        Figure.of(f"{name}, auto over serial", faster, "×", "higher", goal),
    ]


def overhead(repeats: int, scenario: Scenario = IDLE, device: str = "cpu") -> list[Figure]:
    """Milliseconds for each participant and round of FedAvg: without any step, and with load.

    One step of a model that does nothing adds what PyTorch itself takes to go backward and to step.
    """
    joined = {
        f"{engine}, {words}": federation(scenario.replace(plan=scenario.plan.replace(epochs=steps)), engine, device)
        for engine in ("serial", "auto")
        for words, steps in (("no step", 0), ("one step", 1))
    }
    timings = interleaved({name: partial(f.run, 1) for name, f in joined.items()}, repeats, warm_up=2)
    return [
        Figure.timed(f"nothing, {name}", timing, "ms", 1000 / scenario.count, OVERHEAD_GOAL)
        for name, timing in timings.items()
    ]


def merging(repeats: int, senders: int = 100, *, checking: bool = False, copied: int = COPIED_BYTES) -> list[Figure]:
    """Bytes of answers merged in a second, and how that compares with the bytes copied in a second, turn by turn.

    A few real participants give real answers, and a hundred senders send them, so memory stays bounded. PerHeFed
    merges sub-models of ResNet34s, FedIN the states of five ResNets; ``checking``: also with every answer checked as
    it comes.
    """
    loads = {"PerHeFed": server_load(RESNET34, PerHeFed(), senders), "FedIN": server_load(RESNETS, FedIN(), senders)}
    source = torch.ones(copied, dtype=torch.uint8)
    target = torch.empty_like(source)
    sizes, actions = {"memory copied": copied}, {"memory copied": lambda: target.copy_(source)}
    for name, load in loads.items():
        actions[f"{name} merged"] = load.merge
        if checking:
            actions[f"{name} checked, merged"] = load.check_and_merge
        sizes |= dict.fromkeys((f"{name} merged", f"{name} checked, merged"), load.bytes)
    timings = interleaved(actions, repeats)
    rates = {name: [sizes[name] / seconds / 1e9 for seconds in timing.seconds] for name, timing in timings.items()}
    return [
        *(Figure.of(name, found, "GB/s", "higher") for name, found in rates.items()),
        *(
            Figure.of(f"{name} over copied", ratios(found, rates["memory copied"]), "×", "higher", MERGING_GOAL)
            for name, found in rates.items()
            if name != "memory copied"
        ),
    ]


def transforms(repeats: int, scenario: Scenario = SMALL_MLP, device: str = "cpu") -> list[Figure]:
    """How many times as long a round on the batched engine takes with a normalising transform, however it is written.

    Each participant has a transform of its own. Rounds are played three at a time; the first three, in which all data
    are transformed, do not count.
    """
    joined = {"plain": federation(scenario, "batched", device)}
    for name, make in WAYS.items():
        people = scenario.participants()
        for person in people:
            person.plan = person.plan.replace(transform=make())
        joined[name] = Federation(people, FedAvg(), engine="batched", device=device)
    clock = time.process_time if device == "cpu" else time.perf_counter
    timings = interleaved({name: partial(f.run, 3) for name, f in joined.items()}, repeats, clock=clock)
    plain = timings.pop("plain").seconds
    return [
        Figure.of(f"{scenario.name} round, {name} over plain", ratios(timing.seconds, plain), "×", goal=TRANSFORM_GOAL)
        for name, timing in timings.items()
    ]


Benchmark = Callable[[], list[Figure]]

BENCHMARKS: dict[str, Benchmark] = {
    "mlp": lambda: rounds(MLP, repeats=5, goal=1.5),
    "cnn": lambda: rounds(CNN, repeats=5, goal=1.2),
    "overhead": lambda: overhead(repeats=5),
    "merging": lambda: merging(repeats=2),
    "transforms": lambda: transforms(repeats=7),
}
"""What every machine can do, by name."""

GPU_BENCHMARKS: dict[str, Benchmark] = {
    "fedin": lambda: eager_against_engine(FEDIN.replace(count=25, samples=256), "cuda", repeats=3),
    "cofed": lambda: eager_against_engine(COFED, "cuda", repeats=3, goal=8.0),
}
"""What a machine with a GPU can do besides."""


def selected(only: list[str]) -> dict[str, Benchmark]:
    """The benchmarks asked for; all that this machine can do, if none is."""
    able = BENCHMARKS | GPU_BENCHMARKS if torch.cuda.is_available() else BENCHMARKS
    for name in only:
        if name not in BENCHMARKS | GPU_BENCHMARKS:
            raise SettingsError(f"There is no benchmark {name!r}.{nearest(name, BENCHMARKS | GPU_BENCHMARKS)}")
        if name not in able:
            raise SettingsError(f"The benchmark {name!r} needs a GPU, and torch finds none here.")
    return {name: benchmark for name, benchmark in able.items() if not only or name in only}
