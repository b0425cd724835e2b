"""Tables of a kind that several experiments share: settings at one round, seed by seed, over stretches of rounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from evidence.experiment import kind
from evidence.outcomes import Outcome, Results, best, count, final, gains, last_round, measured, spread


def markdown(heading: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def seeds(outcomes: list[Outcome]) -> str:
    """How many there are: in words where they are too few to conclude from."""
    return count(len(outcomes)) if outcomes else "–"


def compared(
    results: Results,
    experiment: str,
    settings: Mapping[str, str],
    last: int,
    published: Mapping[str, str] | None = None,
) -> str:
    """One row for each setting that was played, all at one round; what did not reach it is left out."""
    rows = []
    for name, title in settings.items():
        outcomes = results.until(experiment, name, last)
        if outcomes:
            scores = [final(outcomes), best(outcomes), _megabytes(outcomes)]
            rows.append([title, *scores, (published or {}).get(name, "–"), seeds(outcomes)])
    return markdown(["", f"round {last}", "best round*", "MB up a round", "published", "seeds"], rows)


def _megabytes(outcomes: list[Outcome]) -> str:
    """What a participant sends in a round, when joining is over."""
    return f"{np.mean([outcome['rounds'][-1]['bytes_up'] for outcome in outcomes]) / 1e6:.2f}"


def runs(results: Results, experiment: str, settings: Mapping[str, str]) -> Iterator[tuple[str, Outcome]]:
    """Every run by itself, with how many there are of its setting."""
    for name, title in settings.items():
        outcomes = results.of(experiment, name)
        for number, outcome in enumerate(outcomes, start=1):
            which = {1: "one run", 2: f"run {number} of two"}.get(len(outcomes), f"run {number}")
            yield f"{title}, {which}", outcome


def stretches(results: Results, experiment: str, settings: Mapping[str, str], bounds: Sequence[tuple[int, int]]) -> str:
    """Runs that go up and down: each one's mean over the measured rounds of a stretch, where it reached its end."""
    rows = [
        [title, str(outcome["seed"]), *(_mean_between(outcome, *bound) for bound in bounds)]
        for title, outcome in runs(results, experiment, settings)
        if last_round(outcome) >= bounds[0][1]
    ]
    return markdown(["", "seed", *(f"rounds {first} to {last}" for first, last in bounds)], rows)


def _mean_between(outcome: Outcome, first: int, last: int) -> str:
    scores = [score for number, score in measured(outcome).items() if first <= number <= last]
    return spread([float(np.mean(scores))]) if last_round(outcome) >= last else "–"


def by_seed(
    results: Results, experiment: str, settings: Mapping[str, str], last: int, published: Mapping[str, str]
) -> str:
    """What was not played under all seeds: a column for each, so that like is compared with like."""
    found = {name: {o["seed"]: o for o in results.until(experiment, name, last)} for name in settings}
    numbers = sorted({seed for outcomes in found.values() for seed in outcomes})
    rows = []
    for name, title in settings.items():
        if found[name]:
            scores = (final([found[name][n]] if n in found[name] else []) for n in numbers)
            rows.append([title, *scores, published.get(name, "–"), seeds(list(found[name].values()))])
    return markdown(["", *(f"seed {seed}, round {last}" for seed in numbers), "published", "seeds"], rows)


def relative(
    results: Results, experiment: str, alone: str, settings: Mapping[str, str], published: Mapping[str, str]
) -> str:
    """Each participant's accuracy over what it has alone: the mean gain, the least, the most, and who gains at all."""
    reference = {outcome["seed"]: outcome for outcome in results.of(experiment, alone)}
    local = final(reference.values())
    rows = [["Local", local, "–", "–", "–", "–", "–", seeds(list(reference.values()))]]
    for name, title in settings.items():
        outcomes = [outcome for outcome in results.of(experiment, name) if outcome["seed"] in reference]
        if outcomes:
            found = [np.array(list(gains(outcome, reference[outcome["seed"]]).values())) for outcome in outcomes]
            rows.append(
                [
                    title,
                    final(outcomes),
                    spread(float(gain.mean()) for gain in found),
                    spread(float(np.median(gain)) for gain in found),
                    f"{round(100 * min(gain.min() for gain in found))} … "  # not -0
                    f"{round(100 * max(gain.max() for gain in found))}",
                    spread((float((gain > 0).mean()) for gain in found), digits=0),
                    published.get(name, "–"),
                    seeds(outcomes),
                ]
            )
    heading = [
        "",
        "accuracy",
        "mean gain, %",
        "median, %",
        "least … most, %",
        "gain at all, %",
        "published gain, %",
        "seeds",
    ]
    return markdown(heading, rows)


def by_kind(results: Results, experiment: str, settings: Mapping[str, str]) -> str:
    """The mean accuracy of each kind of participant (the first part of their names)."""
    kinds: list[str] = []
    rows = []
    for name, title in settings.items():
        outcomes = results.of(experiment, name)
        if outcomes:
            kinds = sorted({kind(person) for person in outcomes[0]["participants"]})
            rows.append([title, *(spread(_mean_of(outcome, one) for outcome in outcomes) for one in kinds)])
    return markdown(["", *kinds], rows)


def _mean_of(outcome: Outcome, one: str) -> float:
    return float(np.mean([score for name, score in outcome["participants"].items() if kind(name) == one]))
