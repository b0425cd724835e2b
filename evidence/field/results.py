"""What came of a comparison, as a file that is kept: numbers seed by seed, the settings, the versions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from evidence.field.line_up import LineUp
from potluck.core.errors import PotluckError
from potluck.report.standings import FLOOR, Standings
from potluck.runs.folder import SETTINGS, replace_file

RESULTS = Path(__file__).parent / "results"


def path_of(line_up: LineUp, folder: Path = RESULTS) -> Path:
    """Where the results of a comparison are kept."""
    return folder / f"{line_up.name}.json"


def summarised(line_up: LineUp, standings: Standings, runs: Path, commit: str | None = None) -> dict[str, Any]:
    """The results in plain values: a row for each method and each setting that was tried of it.

    Args:
        line_up: who competed.
        standings: what came of it.
        runs: where the runs are kept, each of which says what it was played with.
        commit: of the source; by default what the comparison found.
    """
    chosen, about = standings.choice[0], standings.about
    rows = []
    for entry in standings.entries:
        row = standings.summary(entry)
        rows.append(
            {
                "method": entry.method,
                "settings": dict(line_up.methods.get(entry.method, {})),
                "tried": dict(entry.settings),
                "chosen": entry in chosen,
                "seeds": row.seeds,
                "accuracy": _short(row.scores),
                "validation": _short(row.validated),
                "gain": _short(row.gains),
                "lost": row.lost,
                "bytes": row.total,
                "seconds": _short(row.seconds, 1),
            }
        )
    return {
        "federation": line_up.name,
        "rounds": standings.rounds,
        "seeds": standings.seeds,
        "participants": max(len(trial.holders) for trial in standings.trials),
        "commit": commit or about["commit"],
        "played with": played_with(runs, standings.seeds),
        "failed": dict(standings.failed),
        "rows": rows,
    }


def joined(kept: Mapping[str, Any], played: dict[str, Any]) -> dict[str, Any]:
    """What was played now beside the seeds that were kept before; a seed that was played again counts as played now.

    Settings are chosen once more, by the mean over all seeds. Gains and losses are against Local with the setting that
    is chosen; where that would be another one than before, all seeds have to be played together.
    """
    seeds = [seed for seed in kept["seeds"] if seed not in played["seeds"]]
    if not seeds:
        return played
    if (kept["rounds"], kept["participants"]) != (played["rounds"], played["participants"]):
        raise PotluckError(f"The results of seeds {seeds} are of another federation: give --results another folder.")
    before, now = ({_key(row): row for row in source["rows"]} for source in (kept, played))
    rows = [_of_all_seeds(before.get(key), now.get(key), seeds) for key in dict.fromkeys([*before, *now])]
    for row in rows:
        values = [fmean(other["validation"]) for other in rows if other["method"] == row["method"] and other["seeds"]]
        row["chosen"] = fmean(row["validation"]) == max(values)
    floor = next(_key(row) for row in rows if row["method"] == FLOOR and row["chosen"])
    for source, found in ((kept, before), (played, now)):
        if not found[floor]["chosen"]:
            raise PotluckError(
                f"With all seeds together another setting of {FLOOR} is chosen than with {source['seeds']} alone, "
                f"against which gains were measured: play all seeds together."
            )
    commits = dict.fromkeys([*kept["commit"].split(", "), played["commit"]])
    return {
        **played,
        "seeds": sorted({*seeds, *played["seeds"]}),
        "commit": ", ".join(commits),
        "played with": sorted({*kept["played with"], *played["played with"]}),
        "failed": {**kept["failed"], **played["failed"]},
        "rows": rows,
    }


def _key(row: Mapping[str, Any]) -> str:
    return json.dumps([row["method"], row["settings"], row["tried"]], sort_keys=True)


def _of_all_seeds(
    before: Mapping[str, Any] | None, now: Mapping[str, Any] | None, kept: Sequence[int]
) -> dict[str, Any]:
    """A row with its values of the seeds that are kept and of those played now, in the order of the seeds."""
    row = {**(before or {}), **(now or {})}
    sources = [(before, kept)] if before else []
    sources += [(now, now["seeds"])] if now else []
    for name in ("accuracy", "validation", "gain", "lost", "bytes", "seconds", "seeds"):
        found = {
            seed: value
            for source, wanted in sources
            if source[name]
            for seed, value in zip(source["seeds"], source[name], strict=True)
            if seed in wanted
        }
        row[name] = [found[seed] for seed in sorted(found)]
    return row


def played_with(runs: Path, seeds: Sequence[int]) -> list[str]:
    """The versions and the system that the runs of these seeds were played with, each once."""
    found = set()
    for seed in seeds:
        for path in runs.glob(f"*/seed-{seed}/{SETTINGS}"):
            told = json.loads(path.read_text(encoding="utf-8"))
            found.add(
                f"torch {told['versions']['torch']}, Python {told['python']}, {told['platform'].partition('-')[0]}"
            )
    return sorted(found)


def keep(content: dict[str, Any], path: Path) -> None:
    """Writes the results, a line for each row."""
    rows = ",\n".join(json.dumps(row) for row in content["rows"])
    head = json.dumps({key: value for key, value in content.items() if key != "rows"}, indent=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, f'{head[:-2]},\n "rows": [\n{rows}\n]}}\n')


def _short(values: tuple[float, ...], digits: int = 5) -> list[float]:
    return [round(value, digits) for value in values]
