"""What came of a comparison, as a file that is kept: numbers seed by seed, the settings, the versions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evidence.field.line_up import LineUp
from potluck.report.standings import Standings
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
