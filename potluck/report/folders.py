"""Reads run folders, and folders of comparisons, for a report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from potluck.core.errors import DataError
from potluck.core.history import FILE, History
from potluck.report.metric import metric_named
from potluck.report.standings import Standings
from potluck.report.trials import Entry, Holder, Trial

COMPARISON, SETTINGS, SUMMARY, MEASURED = "comparison.json", "settings.json", "summary.json", "measured.json"
"""The files of a comparison, of a run, and what was measured when a run of a comparison was over."""
TRIED = "tried.json"
"""What was tried of a method whose settings were searched, in the folder of the search."""


def read_standings(paths: Sequence[Path], metric: str | None = None, target: float | None = None) -> Standings:
    """What stands in folders: in one of a comparison, or in some of single runs.

    Args:
        paths: the folders.
        metric: what to compare by; by default what the comparison says, or the headline of the runs.
        target: a value of the metric to reach; by default what the comparison says.
    """
    if not paths:
        raise DataError("There is no folder to report on; expected at least one.")
    about: dict[str, Any] = {}
    if len(paths) == 1 and (paths[0] / COMPARISON).is_file():
        about = read_json(paths[0] / COMPARISON)
        cells = [
            (Entry(cell["method"], tuple((key, value) for key, value in cell["settings"])), paths[0] / cell["folder"])
            for cell in about["cells"]
        ]
        trials = [read_trial(folder, entry) for entry, folder in cells if (folder / MEASURED).is_file()]
    else:
        trials = list(_single(list(_runs(paths))))
    chosen = metric or about.get("metric") or (trials[0].history.headline if trials else "accuracy")
    goal = about.get("target") if target is None else target
    return Standings(trials, metric_named(chosen), goal, about.get("failed", {}), about)


def read_trial(folder: Path, entry: Entry) -> Trial:
    """The run in a folder."""
    settings = read_json(folder / SETTINGS)
    measured, summary = (read_json(path) if (path := folder / name).is_file() else {} for name in (MEASURED, SUMMARY))
    history = History.load(folder)
    if not history.rounds:
        raise DataError(f"{folder} holds a run of which no round was played; there is nothing to report.")
    counts = {party["name"]: party["counts"] for party in measured.get("participants", ())}
    models = _models(settings.get("recipe") or {})
    holders = tuple(
        Holder(
            party["name"],
            models.get(party["name"]) or str(party.get("model", "")).rpartition(".")[2],
            party.get("samples"),
            counts.get(party["name"], {}),
        )
        for party in settings["participants"]
    )
    return Trial(
        entry,
        settings["seed"],
        history,
        holders,
        measured.get("validation", {}),
        measured.get("cross", {}),
        settings,
        summary.get("exchanges", {}),
        {name: models.get("own", {}) for name, models in summary.get("unseen", {}).items()},
        measured.get("inspected", {}),
    )


def _models(recipe: Mapping[str, Any]) -> dict[str, str]:
    """What the run file calls everybody's model: a zoo's networks are of one class whatever they are.

    A server's file says nothing of models: those are the sites' own.
    """
    found = {}
    for party in recipe.get("participants", ()):
        if "model" not in party:
            continue
        count, model = party["count"], party["model"]["name"].rpartition(":")[2].rpartition(".")[2]
        names = [party["name"]] if count == 1 else [f"{party['name']}{number}" for number in range(1, count + 1)]
        found.update(dict.fromkeys(names, model))
    return found


def read_json(path: Path) -> dict[str, Any]:
    """A file that holds an object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} holds no object; expected what Potluck wrote.")
    return content


def _runs(paths: Sequence[Path]) -> Iterator[Path]:
    """The run folders among these and below them."""
    for path in paths:
        if (path / COMPARISON).is_file():
            raise DataError(f"{path} holds a comparison; report on it alone, or name run folders only.")
        found = [path] if (path / SETTINGS).is_file() else sorted(_outermost(path))
        if not [run for run in found if (run / FILE).is_file()]:
            raise DataError(f"There is no run in {path}; expected a folder that `potluck run` or `compare` wrote.")
        yield from found


def _outermost(path: Path) -> Iterator[Path]:
    """The run folders below; a run that another one keeps in its folder, as its best round, is a part of that one."""
    for run in (settings.parent for settings in path.rglob(SETTINGS)):
        if not any((above / SETTINGS).is_file() for above in run.parents):
            yield run


def _single(folders: Sequence[Path]) -> Iterator[Trial]:
    """Runs that were not played for a comparison: told apart by method, and by those settings that differ."""
    found = [(folder, read_json(folder / SETTINGS)) for folder in folders]
    flat = {folder: dict(_flat(_telling(settings))) for folder, settings in found}
    taken: dict[tuple[Entry, int], Path] = {}
    for folder, settings in found:
        name = settings["method"]["name"]
        rivals = [other for other, theirs in found if theirs["method"]["name"] == name]
        keys = sorted({key for rival in rivals for key in flat[rival]})
        different = [key for key in keys if len({str(flat[rival].get(key)) for rival in rivals}) > 1]
        entry = Entry(name, tuple((key, flat[folder].get(key)) for key in different))
        if before := taken.get((entry, settings["seed"])):
            raise DataError(f"{before} and {folder} are the same run, of {entry.label} with seed {settings['seed']}.")
        taken[entry, settings["seed"]] = folder
        yield read_trial(folder, entry)


def _telling(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that may tell one run of a method from another: not the seed, nor what engines decide."""
    recipe = settings.get("recipe") or {}
    plain = ("participation", "keep_optimizer", "precision")
    return {
        "method": settings["method"],
        **{key: settings[key] for key in plain if key in settings},
        **{key: recipe[key] for key in ("plan", "data", "participants") if key in recipe},
    }


def _flat(content: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(content, Mapping):
        for name, value in content.items():
            yield from _flat(value, f"{key}.{name}" if key else str(name))
    elif isinstance(content, list) and any(isinstance(item, dict) for item in content):
        for index, item in enumerate(content):
            yield from _flat(item, f"{key}.{index}")
    else:
        yield key, content
