"""How a comparison stands, read from its folder alone: each method over its seeds, and what is being played."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from potluck.core.history import History
from potluck.core.metrics import SHARES, less_is_better, title
from potluck.report.folders import COMPARISON, MEASURED, TRIED
from potluck.report.trials import Entry
from potluck.runs.folder import SUMMARY
from potluck.runs.live import LIVE
from potluck.watch.run_view import OVER, RunView, RunWatcher, gone, read_object


@dataclass
class Candidate:
    """One method, with one setting, over all seeds.

    Args:
        name: the method with its setting.
        runs: how many runs it has.
        done: how many of them are over.
        playing: those that are played at present: the seed, the round, how many there are.
        failed: those that failed: the seed, and why.
        mean: the mean of the metric over the runs that are over; None where none is.
        deviation: how far they deviate; 0 for one.
        tried: while its settings are searched, how many have been tried, and how many will be.
    """

    name: str
    runs: int = 0
    done: int = 0
    playing: list[tuple[int, int, int]] = field(default_factory=list)
    failed: list[tuple[int, str]] = field(default_factory=list)
    mean: float | None = None
    deviation: float = 0.0
    tried: tuple[int, int] | None = None


@dataclass
class ComparisonView:
    """How a comparison stands.

    Args:
        folder: its folder.
        title: the methods.
        state: "waiting", "playing", "ended", "interrupted", "failed", or "lost" where its process is gone.
        why: why it ended so, if there is more to say.
        metric: what is compared, for people.
        share: whether it is shown in percent.
        less: whether less of it is better.
        candidates: the methods.
        played: rounds of all runs that have been played.
        rounds: rounds of all runs.
        left: seconds until the end, by how fast those go that are played; None where nothing can be said.
        running: the runs that are played at present.
        now: when this was read, in seconds since 1970.
    """

    folder: str
    title: str = ""
    state: str = "waiting"
    why: str = ""
    metric: str = ""
    share: bool = False
    less: bool = False
    candidates: list[Candidate] = field(default_factory=list)
    played: int = 0
    rounds: int = 0
    left: float | None = None
    running: list[RunView] = field(default_factory=list)
    now: float = 0.0

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in OVER

    def to_json(self) -> dict[str, Any]:
        """The same in plain values."""
        values = {**asdict(self), "running": [run.to_json() for run in self.running]}
        return {"kind": "comparison", "over": self.over, **values}


class ComparisonWatcher:
    """Reads a comparison's folder again and again; nothing is ever written to it.

    Args:
        folder: the comparison's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runs: dict[Path, RunWatcher] = {}
        self._scores: dict[Path, float | None] = {}

    def look(self) -> ComparisonView:
        """How the comparison stands now."""
        about = read_object(self.folder / COMPARISON)
        view = ComparisonView(str(self.folder), now=time.time())
        cells, failed = about.get("cells", []), dict(about.get("failed", {}))
        rounds = int(about.get("rounds", 0))
        view.rounds = rounds * len(cells)
        metric, scores = about.get("metric") or "", dict[str, list[float]]()
        found: dict[str, Candidate] = {}
        speed = 0.0
        for cell in cells:
            entry = Entry(cell["method"], tuple((key, value) for key, value in cell["settings"]))
            candidate = found.setdefault(entry.label, Candidate(entry.label))
            candidate.runs += 1
            folder, seed = self.folder / cell["folder"], int(cell["seed"])
            why = failed.get(f"{entry.label}, seed {seed}")
            run = None if self._is_over(folder) else self._runs.setdefault(folder, RunWatcher(folder)).look()
            if run is None:
                candidate.done += 1
                view.played += rounds
                metric = metric or self._headline(folder)
                if (value := self._score(folder, metric)) is not None:
                    scores.setdefault(entry.label, []).append(value)
                continue
            view.played += run.round
            if why is None and run.state == "failed":
                why = run.why
            if why is not None:
                candidate.failed.append((seed, why))
            elif run.state == "playing":
                candidate.playing.append((seed, run.round, run.rounds or rounds))
                run.title = f"{entry.label}, seed {seed}"
                view.running.append(run)
                speed += (run.rounds - run.round) / run.left if run.left else 0.0
        view.metric, view.share = title(metric), metric in SHARES
        view.less = bool(metric) and less_is_better(metric)
        if not cells:
            self._search(view, about, found)
        for label, values in scores.items():
            found[label].mean = fmean(values)
            found[label].deviation = stdev(values) if len(values) > 1 else 0.0
        view.candidates = list(found.values())
        entries = cells or about.get("tuning", ())
        view.title = ", ".join(dict.fromkeys(str(each["method"]) for each in entries))
        settled = sum(candidate.done + len(candidate.failed) for candidate in view.candidates)
        view.state, view.why = self._state(bool(cells) and settled == len(cells))
        lost = sum(len(candidate.failed) for candidate in view.candidates) * rounds
        view.left = max(0, view.rounds - view.played - lost) / speed if speed else None
        return view

    def _search(self, view: ComparisonView, about: dict[str, Any], found: dict[str, Candidate]) -> None:
        """How far the search for each method's settings is, before any of its runs is planned."""
        for search in about.get("tuning", ()):
            folder, trials = self.folder / search["folder"], int(search["trials"])
            tried = len(read_object(folder / TRIED).get("trials", ()))
            candidate = found[search["method"]] = Candidate(str(search["method"]), tried=(tried, trials))
            view.rounds += trials * int(about.get("rounds", 0))
            view.played += tried * int(about.get("rounds", 0))
            path = folder / f"trial-{tried:03}"
            run = self._runs.setdefault(path, RunWatcher(path)).look() if path.is_dir() else None
            if run is not None and run.state == "playing" and tried < trials:
                view.played += run.round
                run.title = f"{candidate.name}, trial {tried + 1}"
                view.running.append(run)

    def _state(self, all_over: bool) -> tuple[str, str]:
        live = read_object(self.folder / LIVE)
        state, why = str(live.get("state", "")), str(live.get("why", ""))
        if state == "playing" and gone(live):
            return "lost", "its process has ended without a word; the same command goes on"
        if state in ("interrupted", "failed"):
            return state, why
        return ("playing" if state == "playing" else "ended" if all_over else "waiting"), ""

    def _is_over(self, folder: Path) -> bool:
        """Whether a run was played to its end and measured, and is not being played further."""
        return (folder / MEASURED).is_file() and read_object(folder / LIVE).get("state") != "playing"

    def _headline(self, folder: Path) -> str:
        return str(read_object(folder / SUMMARY).get("headline", ""))

    def _score(self, folder: Path, metric: str) -> float | None:
        """What a run that is over reached; of a metric that is not its headline by its whole history, read once."""
        if folder not in self._scores:
            summary = read_object(folder / SUMMARY)
            value = summary.get(metric) if metric == summary.get("headline") else _final(folder, metric)
            self._scores[folder] = value
        return self._scores[folder]


def _final(folder: Path, metric: str) -> float | None:
    values = [value for row in History.load(folder).final.rows if isinstance(value := row.get(metric), int | float)]
    return fmean(values) if values else None
