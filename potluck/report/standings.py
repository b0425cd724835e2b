"""A comparison: the trials of several entries over several seeds, and what to read off them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from potluck.core.errors import DataError, PotluckError, how_to_install, nearest
from potluck.report.metric import Metric
from potluck.report.significance import Significance, compare_scores
from potluck.report.trials import Entry, Trial

if TYPE_CHECKING:
    import pandas

FLOOR, CEILING = "Local", "Pooled"
"""What a participant reaches without the others, and with everybody's data."""
TENTH = 0.1


class Reached(NamedTuple):
    """When a target was reached: the round, the bytes of all up to there, and the simulated seconds, if any.

    Args:
        round: the round.
        bytes: what all had sent and received by then.
        simulated: the virtual clock's seconds by then; by default None.
    """

    round: int
    bytes: int
    simulated: float | None = None


@dataclass(frozen=True)
class EntrySummary:
    """What is reported of an entry, seed by seed; None and empty where there is nothing to tell.

    Args:
        entry: what was run.
        seeds: the seeds it was run with.
        scores: the mean over participants after the last round.
        gains: how much better that is than Local.
        lost: how many participants are worse off than with Local.
        participants: how many there are.
        worst: the mean over the worst tenth of them.
        up: bytes that one participant sent in one round, on average.
        down: bytes that it received.
        total: bytes of all participants in all rounds.
        to_target: the round in which the mean reached the target, the bytes up to there, and how late it was by the
            virtual clock, where there was one; None where it was not reached.
        seconds: what all have worked.
        validated: the mean over participants on their validation data; empty where there are none.
        newcomers: the mean over those who took no part, at the end; empty where there are none.
    """

    entry: Entry
    seeds: tuple[int, ...]
    scores: tuple[float, ...]
    gains: tuple[float, ...]
    lost: tuple[int, ...]
    participants: int
    worst: tuple[float, ...]
    up: tuple[float, ...]
    down: tuple[float, ...]
    total: tuple[int, ...]
    to_target: tuple[Reached | None, ...]
    seconds: tuple[float, ...]
    validated: tuple[float, ...]
    newcomers: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Standings:
    """The trials of a comparison.

    Args:
        trials: all that were played.
        metric: what they are compared by.
        target: a value of the metric to reach; by default none.
        failed: what of the comparison could not be played, with the reason; by default nothing.
        about: what the comparison was made with; by default nothing is known.
    """

    trials: Sequence[Trial]
    metric: Metric
    target: float | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.trials:
            raise DataError("There is nothing to compare: no run has been played.")
        if any(trial.score(self.metric.name) is not None for trial in self.trials):
            return
        row = next((row for trial in self.trials for row in trial.history.final.rows), {})
        known = {name for name, value in row.items() if isinstance(value, int | float) and not isinstance(value, bool)}
        raise DataError(f"No run has a metric {self.metric.name!r}.{nearest(self.metric.name, known - {'round'})}")

    @cached_property
    def entries(self) -> list[Entry]:
        """All that were tried, in the order of the trials."""
        return list(dict.fromkeys(trial.entry for trial in self.trials))

    def of(self, entry: Entry) -> dict[int, Trial]:
        """Seed → trial of an entry, of those that could be measured."""
        found = {trial.seed: trial for trial in self.trials if trial.entry == entry}
        return {seed: found[seed] for seed in sorted(found) if found[seed].score(self.metric.name) is not None}

    @cached_property
    def seeds(self) -> list[int]:
        """All seeds."""
        return sorted({trial.seed for trial in self.trials})

    @cached_property
    def clocked(self) -> bool:
        """Whether time was simulated."""
        return any(trial.course(self.metric.name).simulated is not None for trial in self.trials)

    @cached_property
    def rounds(self) -> int:
        """How many rounds were played at most."""
        return max(trial.history.rounds for trial in self.trials)

    @cached_property
    def choice(self) -> tuple[list[Entry], str]:
        """One entry for each method, the best by validation data, and how it was chosen.

        All of them, with the reason, where none can be chosen fairly.
        """
        tried = {method: [e for e in self.entries if e.method == method] for method in self.methods}
        counts = {method: len(entries) for method, entries in tried.items() if method not in (FLOOR, CEILING)}
        if len(tried) == len(self.entries):
            return self.entries, self._tuned()
        if len(set(counts.values())) > 1:
            numbers = ", ".join(f"{method} {count}" for method, count in counts.items())
            return self.entries, (
                f"No best setting is chosen, since methods were tried with different numbers of settings ({numbers}). "
                f"Sweep something that all of them have, or give each as many values."
            )
        best = []
        for method, entries in tried.items():
            values = {e: v for e in entries if (v := self.validated(e))}
            if len(values) < len(entries) and len(entries) > 1:
                return self.entries, (
                    f"No best setting is chosen: {method} was not measured on validation data with each of them. Give "
                    f"participants `validation`, such as 0.2; settings are never chosen on test data."
                )
            sign = 1 if self.metric.higher else -1
            best.append(entries[0] if len(entries) == 1 else max(entries, key=lambda e: sign * fmean(values[e])))
        return best, (
            f"Of each method the best of {max(map(len, tried.values()))} settings is shown, chosen by "
            f"{self.metric.title} on validation data alone."
        )

    def _tuned(self) -> str:
        """How Optuna chose the settings; empty where it did not."""
        searches = self.about.get("tuning") or ()
        trials = [trial for search in searches for trial in search["tried"]]
        if not trials:
            return ""
        most = max(search["trials"] for search in searches)
        cut = sum(trial["state"] == "pruned" for trial in trials)
        return (
            f"Of each method the best of {most} settings that Optuna tried is shown, chosen by {self.metric.title} on "
            f"validation data of seed {self.seeds[0]} alone; {cut} of {len(trials)} trials were cut off early."
        )

    @property
    def methods(self) -> list[str]:
        """The methods, in the order of the trials."""
        return list(dict.fromkeys(entry.method for entry in self.entries))

    @property
    def shown(self) -> list[Entry]:
        """What tables and figures show."""
        return [entry for entry in self.choice[0] if self.of(entry)]

    @cached_property
    def floor(self) -> Entry | None:
        """The entry of Local, if it was played."""
        return next((entry for entry in self.shown if entry.method == FLOOR), None)

    @cached_property
    def rivals(self) -> list[Entry]:
        """What is shown and competes: everything but the ceiling."""
        return [entry for entry in self.shown if entry.method != CEILING]

    @cached_property
    def ranked(self) -> list[Entry]:
        """What competes, the best one first."""
        sign = -1 if self.metric.higher else 1
        return sorted(self.rivals, key=lambda entry: sign * fmean(self.summary(entry).scores))

    def summary(self, entry: Entry) -> EntrySummary:
        """What is reported of an entry."""
        name, trials = self.metric.name, self.of(entry)
        finals = {seed: trial.course(name).final for seed, trial in trials.items()}
        gains = self.gains(entry)
        counts = [len(trial.history.final.rows) for trial in trials.values()]
        sums = [trial.history.bytes() for trial in trials.values()]
        each = [max(1, count * trial.history.rounds) for count, trial in zip(counts, trials.values(), strict=True)]
        return EntrySummary(
            entry,
            tuple(trials),
            tuple(fmean(final.values()) for final in finals.values()),
            tuple(fmean(found.values()) for found in gains.values()),
            tuple(sum(gain < 0 for gain in found.values()) for found in gains.values()),
            max(counts, default=0),
            tuple(self._worst(list(final.values())) for final in finals.values()),
            tuple(up / count for (up, _), count in zip(sums, each, strict=True)),
            tuple(down / count for (_, down), count in zip(sums, each, strict=True)),
            tuple(up + down for up, down in sums),
            tuple(self._to_target(trial) for trial in trials.values()) if self.target is not None else (),
            tuple(trial.history.seconds for trial in trials.values()),
            self.validated(entry),
            tuple(value for trial in trials.values() if (value := trial.newcomers(name)) is not None),
        )

    def validated(self, entry: Entry) -> tuple[float, ...]:
        """Seed by seed the mean over participants on their validation data; empty where there are none."""
        found = (trial.validated(self.metric.name) for trial in self.of(entry).values())
        return tuple(value for value in found if value is not None)

    def gains(self, entry: Entry) -> dict[int, dict[str, float]]:
        """Seed → participant → how much better it is than with Local."""
        floors = {} if self.floor is None or entry == self.floor else self.of(self.floor)
        found = {}
        for seed, trial in self.of(entry).items():
            if seed not in floors:
                continue
            final, floor = trial.course(self.metric.name).final, floors[seed].course(self.metric.name).final
            gained = {name: self.metric.gain(value, floor[name]) for name, value in final.items() if name in floor}
            if gained:
                found[seed] = gained
        return found

    def significance(self) -> Significance:
        """Which differences between what competes are real."""
        return compare_scores(
            {
                entry.label: {seed: trial.course(self.metric.name).final for seed, trial in self.of(entry).items()}
                for entry in self.rivals
            },
            self.metric.higher,
        )

    def frame(self) -> pandas.DataFrame:
        """A row for each entry, seed and participant, as after the last round."""
        try:
            import pandas
        except ImportError as error:
            raise PotluckError(f"A data frame needs pandas: {how_to_install('pandas')}") from error
        return pandas.DataFrame(list(self.rows()))

    def rows(self) -> Iterable[dict[str, Any]]:
        """The rows of ``frame``."""
        for entry in self.entries:
            gains = self.gains(entry)
            for seed, trial in self.of(entry).items():
                spent = trial.history.spent()
                for row in trial.history.final.rows:
                    name = row["participant"]
                    up, down, seconds = spent[name]
                    yield {
                        "method": entry.method,
                        **dict(entry.settings),
                        "seed": seed,
                        **row,
                        "gain": gains.get(seed, {}).get(name),
                        "bytes_up": up,
                        "bytes_down": down,
                        "seconds": seconds,
                    }

    def _worst(self, values: list[float]) -> float:
        """The mean over the worst tenth, at least one."""
        ordered = sorted(values, reverse=not self.metric.higher)
        return fmean(ordered[: max(1, math.ceil(TENTH * len(ordered)))])

    def _to_target(self, trial: Trial) -> Reached | None:
        course, target = trial.course(self.metric.name), self.target
        late = course.simulated or [None] * len(course.rounds)
        for number, mean, sent, simulated in zip(course.rounds, course.means, course.bytes, late, strict=True):
            if target is not None and mean is not None and not self.metric.better(target, mean):
                return Reached(number, sent, simulated)
        return None
