"""All that is to be shown on a GPU, in one go: the tests that need one, steps, first rounds, whole rounds, transforms.

make bench-gpu
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated
from xml.etree import ElementTree

import torch
import typer

from benchmarks import gpu_round, transforms
from benchmarks.script import finish, run_script, say
from potluck.bench.measure import Timing
from potluck.bench.results import Figure, Results
from potluck.bench.scenarios import COFED, FEDIN, SMALL_MLP, Scenario, federation
from potluck.bench.suite import transforms as written_in_ten_ways
from potluck.core.errors import PotluckError
from potluck.methods import FedAvg

HERE = Path(__file__).parent
TESTS = (
    "tests/engines/batched/test_cuda_graphs.py",
    "tests/engines/batched/kernels",
    "tests/bench/test_steps.py",
    "tests/integration/test_engines_agree.py",
    "tests/integration/test_real_networks.py",
)
"""The tests that need a GPU, or check more where there is one."""

ROUNDS = {"fedin": FEDIN, "cofed": COFED, "small MLP": SMALL_MLP}
MOST_FIT, MOST_FIRST = 1.15, 4.0
"""How many times as long as its steps a training may take, and a first round as a later one."""


def run_tests(paths: Sequence[str] = TESTS) -> list[Figure]:
    """How many tests passed, failed and were skipped. What failed is printed."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "tests.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider", f"--junitxml={report}"]
        ended = subprocess.run([*command, *paths], cwd=HERE.parent, check=False)
        if not report.exists():
            raise PotluckError(f"pytest ended with {ended.returncode} and wrote no report; are its packages installed?")
        suites = ElementTree.parse(report).getroot().iter("testsuite")
        counts = [
            {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")} for suite in suites
        ]
    failed = sum(one["failures"] + one["errors"] for one in counts)
    skipped = sum(one["skipped"] for one in counts)
    passed = sum(one["tests"] for one in counts) - failed - skipped
    return [
        Figure.of("tests passed", [passed], "", better="higher", goal=1),
        Figure.of("tests failed", [failed], "", goal=0),
        Figure.of("tests skipped", [skipped], ""),
    ]


def steps(scenario: Scenario, name: str, device: str, repeats: int) -> list[Figure]:
    """Training steps beside an eager loop, and how many times as long as its steps a whole training takes."""
    found = gpu_round.measure(name, scenario, device, repeats, None)
    by_name = {figure.name.removeprefix(f"{scenario.name} {scenario.count}: "): figure for figure in found}
    ratio = by_name["Fit"].value / by_name["steps"].value
    return [*found, Figure.of(f"{scenario.name} {scenario.count}: Fit over steps", [ratio], "×", goal=MOST_FIT)]


def rounds(scenario: Scenario, device: str, repeats: int) -> list[Figure]:
    """Seconds of whole rounds of FedAvg within each architecture, and the first one over a later one."""
    played = federation(scenario, "auto", device, FedAvg(aggregation="same-architecture"))
    seconds, began = [], time.perf_counter()
    for _ in range(repeats + 1):
        played.run(1)
        if device != "cpu":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
        began = time.perf_counter()
    first, *later = seconds
    name = f"{scenario.name} {scenario.count}"
    timed = Figure.timed(f"{name}: round", Timing(first, tuple(later)), "s")
    return [timed, Figure.of(f"{name}: first round over a later one", [first / timed.value], "×", goal=MOST_FIRST)]


def checks(device: str, repeats: int, fewer: dict[str, int]) -> Iterator[tuple[str, Callable[[], list[Figure]]]]:
    """What is measured, one after the other."""
    for name, scenario in gpu_round.FEDERATIONS.items():
        own = scenario.replace(**fewer)
        yield f"steps of {scenario.name} …", lambda name=name, own=own: steps(own, name, device, repeats)  # type: ignore[misc]
    for scenario in ROUNDS.values():
        own = scenario.replace(**fewer)
        yield f"rounds of {scenario.name} …", lambda own=own: rounds(own, device, repeats)  # type: ignore[misc]
    small = SMALL_MLP.replace(**fewer)
    yield "one transform, written in ten ways …", lambda: written_in_ten_ways(repeats, small, device)
    pictures = transforms.PICTURES.replace(**fewer)
    yield "transforms by where they run …", lambda: transforms.kinds(repeats, pictures, device)


def main(
    repeats: Annotated[int, typer.Option(min=1, help="How often each is timed.")] = 5,
    participants: Annotated[int | None, typer.Option(min=2, help="Fewer than are usual.")] = None,
    samples: Annotated[int | None, typer.Option(min=2, help="Fewer samples of each than are usual.")] = None,
    device: Annotated[str, typer.Option(help="A torch device.")] = "cuda",
    out: Annotated[Path, typer.Option("--json", help="Where the results go.")] = HERE / "results" / "gpu_checks.json",
) -> None:
    """Run all checks that need a GPU, and print and write what they found."""
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise PotluckError("These checks need a GPU, and PyTorch finds none here.")
    given = {"count": participants, "samples": samples}
    fewer = {name: value for name, value in given.items() if value is not None}
    results = Results("gpu_checks", [], {"repeats": repeats, "device": device, **fewer})
    if device != "cpu":
        say("tests …")
        results.figures.extend(run_tests())
    for told, measure in checks(device, repeats, fewer):
        say(told)
        results.figures.extend(measure())
        results.write(out)  # so that what was measured stays, whatever comes next
    finish(results, out)


if __name__ == "__main__":
    run_script(main)
