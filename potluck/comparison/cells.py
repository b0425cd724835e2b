"""The cells of a comparison: one run for each method, setting and seed, and where each is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from potluck.core.errors import SettingsError, nearest
from potluck.federation.method import Method
from potluck.methods import METHODS
from potluck.recipes import Recipe, read
from potluck.recipes.run_file import values_of
from potluck.report.standings import CEILING, FLOOR
from potluck.report.trials import Entry


@dataclass(frozen=True)
class Cell:
    """One run of a comparison.

    Args:
        entry: the method, with what is swept of its settings.
        seed: what every random draw derives from.
        file: the run file.
        changes: what is changed about it, as ``--set`` says.
        folder: where the run is kept.
        options: settings that stand above the file; by default none.
        cross: whether every model is measured on everybody's test data; by default False.
    """

    entry: Entry
    seed: int
    file: Path
    changes: tuple[str, ...]
    folder: Path
    options: tuple[tuple[str, Any], ...] = ()
    cross: bool = False

    @property
    def title(self) -> str:
        """What it is called."""
        return f"{self.entry.label}, seed {self.seed}"

    @property
    def pooled(self) -> bool:
        """Whether everybody trains on everybody's data."""
        return self.entry.method == CEILING

    def to_json(self) -> dict[str, Any]:
        """The cell in plain values."""
        return {**asdict(self), "file": str(self.file), "folder": str(self.folder)}

    @staticmethod
    def from_json(plain: dict[str, Any]) -> Cell:
        """The cell that ``to_json`` gave."""
        entry = Entry(plain["entry"]["method"], tuple((key, value) for key, value in plain["entry"]["settings"]))
        files = {name: Path(plain[name]) for name in ("file", "folder")}
        options = tuple((key, value) for key, value in plain["options"])
        return Cell(**{**plain, **files, "entry": entry, "changes": tuple(plain["changes"]), "options": options})

    def recipe(self) -> Recipe:
        """What is played."""
        return read(self.file, self.changes, {"seed": self.seed, **dict(self.options)})


@dataclass(frozen=True)
class Sweep:
    """Values to try for one setting: of one method, where ``method`` names one, else of all that have it.

    Args:
        key: the setting.
        values: what is tried, as a file would say it.
        method: the method that it is a setting of; by default all that have it.
    """

    key: str
    values: tuple[str, ...]
    method: str | None = None

    def applies(self, method: str) -> bool:
        """Whether a method has the setting."""
        if method == CEILING:
            method = FLOOR
        if self.method is not None:
            return _same(self.method, method)
        table, _, name = self.key.partition(".")
        return table != "method" or name.partition(".")[0] in kind_of(method).model_fields


def parse_sweep(text: str, methods: Sequence[str]) -> Sweep:
    """What ``KEY=a,b,c`` says; ``CoFED.alpha=0.1,0.3`` is for that method alone."""
    key, equals, listed = text.partition("=")
    values = tuple(values_of(listed))
    if not key.strip() or not equals or not values:
        raise SettingsError(f"{text!r} sweeps nothing; expected KEY=a,b,c, such as plan.lr=0.01,0.1.")
    key = key.strip()
    table, _, name = key.partition(".")
    owner = next((method for method in methods if _same(method, table)), None)
    sweep = Sweep(f"method.{name}", values, owner) if owner and name else Sweep(key, values)
    if not any(sweep.applies(method) for method in methods):
        known = {field for method in methods for field in kind_of(method).model_fields}
        raise SettingsError(f"{text!r}: none of {', '.join(methods)} has {sweep.key!r}.{nearest(name, known)}")
    return sweep


def plan_cells(
    file: Path,
    methods: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    *,
    sweeps: Sequence[str] = (),
    changes: Sequence[str] = (),
    options: Sequence[tuple[str, Any]] = (),
    pooled: bool = False,
    cross: bool = False,
) -> list[Cell]:
    """All cells, seed by seed, so that a comparison that is cut off has whole seeds. Local is always among them.

    A change such as ``"CoFED.alpha=0.3"`` is for that method alone.
    """
    chosen = named(methods)
    common, private = changes_by_owner(changes, chosen)
    own = read(file, common, dict(options)).method.name
    found = [parse_sweep(text, chosen) for text in sweeps]
    if doubled := [
        sweep.key
        for index, sweep in enumerate(found)
        if (sweep.key, sweep.method) in {(other.key, other.method) for other in found[:index]}
    ]:
        raise SettingsError(f"{doubled[0]} is swept twice; expected all its values in one --sweep.")
    cells = []
    for method in [*chosen, *([CEILING] if pooled else [])]:
        setting = [] if _same(method, own) else [f"method={json.dumps(FLOOR if method == CEILING else method)}"]
        mine = [sweep for sweep in found if sweep.applies(method)]
        for values in product(*(sweep.values for sweep in mine)):
            swept = tuple((sweep.key, value) for sweep, value in zip(mine, values, strict=True))
            entry = Entry(_short(method), swept)
            told = (*common, *setting, *private.get(method, ()), *(f"{key}={value}" for key, value in swept))
            for seed in seeds:
                folder = out / slug(entry) / f"seed-{seed}"
                cells.append(Cell(entry, seed, file, told, folder, tuple(options), cross))
    if len({cell.folder for cell in cells}) < len(cells):
        raise SettingsError("Two cells would have the same folder; expected other values to sweep.")
    for cell in cells[:: len(seeds)]:
        cell.recipe()  # every mistake is reported before anything is trained
    return sorted(cells, key=lambda cell: cell.seed)


def changes_by_owner(
    changes: Sequence[str], methods: Sequence[str]
) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Changes of the file that are for all methods, and those for one alone, by its name, as of the file's method."""
    common, private = list[str](), dict[str, tuple[str, ...]]()
    for text in changes:
        head, _, rest = text.partition(".")
        owner = next((method for method in methods if _same(method, head.strip())), None)
        if owner is None:
            common.append(text)
        else:
            private[owner] = (*private.get(owner, ()), f"method.{rest}")
    return tuple(common), private


def named(methods: Sequence[str]) -> list[str]:
    """The methods as they are called, each once, and Local."""
    found: list[str] = []
    for name in [*methods, FLOOR]:
        known = name if ":" in name else next((known for known in METHODS if _same(known, name)), name)
        kind_of(known)
        if known not in found:
            found.append(known)
        elif name != FLOOR:
            raise SettingsError(f"{known} is named twice; expected each method once.")
    return found


def kind_of(method: str) -> type[Method]:
    """The class of a method."""
    kind = METHODS[method]
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise SettingsError(f"{method!r} is no method; expected a subclass of potluck.Method.")
    return kind


def slug(entry: Entry) -> str:
    """A folder's name for an entry."""
    return re.sub(r"[^\w.=,+-]+", "_", ",".join([entry.method, *(f"{key}={value}" for key, value in entry.settings)]))


def _short(method: str) -> str:
    return method.rpartition(":")[2]


def _same(one: str, other: str) -> bool:
    return one.lower().replace("-", "").replace("_", "") == other.lower().replace("-", "").replace("_", "")
