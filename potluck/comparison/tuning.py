"""Chooses a method's settings with Optuna: by validation data alone, as many trials for each, the hopeless cut off.

What was tried stands in ``tried.json``. Each trial's sampler is seeded by its number and knows the trials before it, so
that a search that was cut off, even by kill -9, goes on as an unbroken one would.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from potluck.comparison.cells import Cell, Rival, Setting, rivals, slug
from potluck.comparison.play import play
from potluck.comparison.sweeps import Sweep
from potluck.core.errors import PotluckError, SettingsError, how_to_install
from potluck.core.metrics import less_is_better
from potluck.core.randomness import derive
from potluck.report.folders import TRIED, read_json
from potluck.report.standings import CEILING, FLOOR
from potluck.report.trials import Entry
from potluck.runs.callbacks import RunningFederation
from potluck.runs.folder import replace_file
from potluck.runs.validation_log import ValidationLog

if TYPE_CHECKING:
    from optuna import Study, Trial

STARTUP = 4
"""So many trials are played to their end before any is cut off."""
WARM_UP = 0.2
"""The share of the rounds in which no trial is cut off."""

Tried = dict[str, Any]
"""One trial: number, settings, state ("complete", "pruned" or "failed"), value, the value of each round, and why."""


@dataclass(frozen=True)
class Tuning:
    """The search for the settings of one method.

    Args:
        rival: the method.
        trials: how many settings are tried.
        seed: what every random draw derives from.
        file: the run file.
        folder: where the search is kept.
        metric: what is looked at; None for the headline.
        options: settings that stand above the file.
    """

    rival: Rival
    trials: int
    seed: int
    file: Path
    folder: Path
    metric: str | None
    options: tuple[tuple[str, Any], ...]

    @property
    def method(self) -> str:
        """The method, as it is named."""
        return self.rival.method

    @property
    def title(self) -> str:
        """What it is called."""
        return f"{self.method}, tuning"

    def to_json(self) -> dict[str, Any]:
        """The search in plain values."""
        return {**asdict(self), "file": str(self.file), "folder": str(self.folder)}

    @staticmethod
    def from_json(plain: dict[str, Any]) -> Tuning:
        """The search that ``to_json`` gave."""
        named = plain["rival"]
        rival = Rival(named["method"], tuple(named["changes"]), tuple(map(Sweep.from_json, named["sweeps"])))
        files = {name: Path(plain[name]) for name in ("file", "folder")}
        return Tuning(**{**plain, **files, "rival": rival, "options": tuple(map(tuple, plain["options"]))})

    def cell(self, number: int, setting: Setting) -> Cell:
        """The run of a trial."""
        folder = self.folder / f"trial-{number:03}"
        return self.rival.cell(setting, self.seed, self.file, folder, self.options, cross=False)

    def tried(self) -> list[Tried]:
        """What was tried so far."""
        path = self.folder / TRIED
        content = read_json(path) if path.is_file() else {}
        return list(content["trials"]) if content.get("asked") == self._asked() else []

    def keep(self, tried: Sequence[Tried]) -> None:
        """Writes what was tried."""
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_file(self.folder / TRIED, json.dumps({"asked": self._asked(), "trials": list(tried)}, indent=1) + "\n")

    def listed(self, folder: Path) -> dict[str, Any]:
        """The search, as a comparison's file tells it: what was asked for, and what was tried so far."""
        trials = [{name: value for name, value in each.items() if name != "params"} for each in self.tried()]
        where = str(self.folder.relative_to(folder))
        return {"method": self.method.rpartition(":")[2], "trials": self.trials, "folder": where, "tried": trials}

    def chosen(self) -> Setting:
        """The best setting of all that were tried to the end."""
        whole = [each for each in self.tried() if each["state"] == "complete"]
        sign = -1 if any(less_is_better(each["metric"]) for each in whole) else 1
        best = max(whole, key=lambda each: sign * each["value"])  # of equal ones the first
        return tuple((key, value) for key, value in best["settings"])

    def _asked(self) -> dict[str, Any]:
        """What decides a trial; more trials of the same go on with those there are."""
        settings = {name: value for name, value in self.to_json().items() if name not in ("trials", "folder")}
        recipe = self.cell(0, ()).recipe().model_dump_json(fallback=str)
        asked: dict[str, Any] = json.loads(json.dumps({**settings, "recipe": json.loads(recipe)}))
        return asked


def plan_tunings(
    file: Path,
    methods: Sequence[str],
    trials: int,
    seed: int,
    out: Path,
    *,
    sweeps: Sequence[str],
    changes: Sequence[str],
    options: Sequence[tuple[str, Any]],
    metric: str | None,
    pooled: bool,
) -> list[Tuning]:
    """A search for each method, all of as many trials."""
    if find_spec("optuna") is None:
        raise PotluckError(f"--tune needs optuna, which is not installed: {how_to_install('tune')}")
    found = rivals(file, methods, sweeps=sweeps, changes=changes, options=options, pooled=pooled)
    if not sweeps:
        raise SettingsError("--tune needs something to search: expected --sweep plan.lr=1e-4..1e-1:log, or KEY=a,b,c.")
    if bare := [rival.method for rival in found if not rival.sweeps and rival.method not in (FLOOR, CEILING)]:
        raise SettingsError(
            f"{', '.join(bare)} has none of the settings to search, and every method must have as many trials; sweep "
            f"something that all of them have, such as plan.lr, or a setting of each."
        )
    tunings = []
    for rival in found:
        folder = out / "tuning" / slug(Entry(rival.method.rpartition(":")[2]))
        count = trials if rival.sweeps else 1
        tuning = Tuning(rival, count, seed, file, folder, metric, tuple(options))
        recipe = tuning.cell(0, tuple((sweep.key, _first(sweep)) for sweep in rival.sweeps)).recipe()
        if not any(party.validation for party in recipe.participants):
            raise SettingsError("--tune chooses by validation data; give participants `validation`, such as 0.2.")
        tunings.append(tuning)
    return tunings


def tune(tuning: Tuning, notify: Callable[[int], None]) -> None:
    """Tries settings until there are as many as were asked for.

    Args:
        tuning: what is searched.
        notify: is told of each round how many have been played, those that were cut off counted as played.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    tried, rounds = tuning.tried(), tuning.cell(0, ()).recipe().rounds
    while len(tried) < tuning.trials:
        number = len(tried)
        notify(number * rounds)
        study = _study(tuning, tried, rounds)
        trial = study.ask(_distributions(tuning.rival.sweeps))
        setting = tuple((sweep.key, _value(sweep, trial.params[sweep.key])) for sweep in tuning.rival.sweeps)
        listed = [list(pair) for pair in setting]
        known = next((each for each in tried if each["settings"] == listed), None)
        if known is not None:
            found = {**known, "why": f"as trial {known['number']}"}
        else:
            found = _play(tuning.cell(number, setting), trial, tuning.metric, partial(_tell, notify, number * rounds))
        tried.append({**found, "number": number, "settings": listed, "params": trial.params})
        tuning.keep(tried)
    notify(tuning.trials * rounds)
    if not any(each["state"] == "complete" for each in tried):
        raise PotluckError(tried[0]["why"] or "no trial came to its end")


def _tell(notify: Callable[[int], None], before: int, played: int) -> None:
    notify(before + played)


class Pruner(ValidationLog):
    """Cuts a trial off that is worse than the median of those before it, in the same round.

    Args:
        trial: Optuna's trial.
        metric: what is looked at; None for the headline.
    """

    FILE = "trial.jsonl"

    def __init__(self, trial: Trial, metric: str | None) -> None:
        super().__init__(metric)
        self.cut_off = False
        self._trial, self._reported = trial, 0

    def judge(self, federation: RunningFederation) -> None:
        for number, value in self.values.items():
            if number > self._reported:
                self._trial.report(value, number)
                self._reported = number
        if federation.history.rounds < federation.last_round and self.values and self._trial.should_prune():
            self.cut_off = True
            federation.stop(f"{self.looks_at} on validation data is worse than the median of the trials before")


def _play(cell: Cell, trial: Trial, metric: str | None, notify: Callable[[int], None]) -> Tried:
    """Plays a trial, and says what came of it. One that fails is a trial, too."""
    pruner = Pruner(trial, metric)
    failed: Tried = {"state": "failed", "value": None, "metric": metric or "", "values": {}}
    try:
        play(cell, notify, [pruner])
    except PotluckError as error:
        return {**failed, "why": str(error)}
    value = pruner.values.get(max(pruner.values, default=0))
    if value is None or not math.isfinite(value):
        return {**failed, "why": "it has no value on validation data"}
    state = "pruned" if pruner.cut_off else "complete"
    return {"state": state, "value": value, "metric": pruner.looks_at, "values": pruner.values, "why": ""}


def _study(tuning: Tuning, tried: Sequence[Tried], rounds: int) -> Study:
    """Optuna's study as it stands after these trials, with a sampler of the next one's own."""
    import optuna

    metric = next((each["metric"] for each in tried if each["metric"]), tuning.metric or "")
    study = optuna.create_study(
        direction="minimize" if less_is_better(metric) else "maximize",
        sampler=optuna.samplers.TPESampler(seed=derive(tuning.seed, "tuning", tuning.method, len(tried)) % 2**32),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=int(WARM_UP * rounds)),
    )
    states = {"complete": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}
    for each in tried:
        study.add_trial(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState[states[each["state"]]],
                params=each["params"],
                distributions=_distributions(tuning.rival.sweeps),
                value=each["value"],
                intermediate_values={int(number): value for number, value in each["values"].items()},
            )
        )
    return study


def _distributions(sweeps: Sequence[Sweep]) -> dict[str, Any]:
    """What Optuna draws from, by key."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    def of(sweep: Sweep) -> Any:
        if (span := sweep.span) is None:
            return CategoricalDistribution(sweep.values)
        if span.whole:
            return IntDistribution(int(span.low), int(span.high), log=span.log)
        return FloatDistribution(span.low, span.high, log=span.log)

    return {sweep.key: of(sweep) for sweep in sweeps}


def _value(sweep: Sweep, drawn: Any) -> str:
    """A value as a file would say it: of a range with three digits, so that it can be read and played again."""
    if sweep.span is None:
        return str(drawn)
    return str(drawn) if sweep.span.whole else f"{drawn:.3g}"


def _first(sweep: Sweep) -> str:
    """A value of a sweep, whichever."""
    return (
        sweep.values[0]
        if sweep.span is None
        else _value(sweep, int(sweep.span.low) if sweep.span.whole else sweep.span.low)
    )
