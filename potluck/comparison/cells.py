"""The cells of a comparison: one run for each method, setting and seed, and where each is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from potluck.comparison.sweeps import Sweep, kind_of, parse_sweeps, same_name
from potluck.core.errors import SettingsError
from potluck.methods import METHODS
from potluck.recipes import Recipe, read
from potluck.report.standings import CEILING, FLOOR
from potluck.report.trials import Entry

Setting = tuple[tuple[str, str], ...]
"""What is set of a method: keys, with values as a file would say them."""


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
class Rival:
    """A method of a comparison.

    Args:
        method: its name.
        changes: what is changed about the run file for it, as ``--set`` says.
        sweeps: what is tried of its settings.
    """

    method: str
    changes: tuple[str, ...]
    sweeps: tuple[Sweep, ...]

    def cell(
        self, setting: Setting, seed: int, file: Path, folder: Path, options: Sequence[tuple[str, Any]], cross: bool
    ) -> Cell:
        """A run of it with this setting."""
        changes = (*self.changes, *(f"{key}={value}" for key, value in setting))
        return Cell(Entry(_short(self.method), setting), seed, file, changes, folder, tuple(options), cross)


def rivals(
    file: Path,
    methods: Sequence[str],
    *,
    sweeps: Sequence[str] = (),
    changes: Sequence[str] = (),
    options: Sequence[tuple[str, Any]] = (),
    pooled: bool = False,
) -> list[Rival]:
    """The methods of a comparison, Local always among them, each with what is changed and tried of it.

    A change such as ``"CoFED.alpha=0.3"`` is for that method alone.
    """
    chosen = named(methods)
    common, private = changes_by_owner(changes, chosen)
    own = read(file, common, dict(options)).method.name
    found = parse_sweeps(sweeps, chosen)
    made = []
    for method in [*chosen, *([CEILING] if pooled else [])]:
        setting = [] if same_name(method, own) else [f"method={json.dumps(FLOOR if method == CEILING else method)}"]
        mine = tuple(sweep for sweep in found if sweep.applies(method))
        if len({sweep.key for sweep in mine}) < len(mine):
            raise SettingsError(f"A setting of {method} is swept for it alone and for all; expected one --sweep of it.")
        made.append(Rival(method, (*common, *setting, *private.get(method, ())), mine))
    return made


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
    chosen: Mapping[str, Setting] | None = None,
) -> list[Cell]:
    """All cells, seed by seed, so that a comparison that is cut off has whole seeds. Local is always among them.

    Where a setting was ``chosen`` for each method, by its name, only that one is played, and no method without one.
    """
    cells = []
    for rival in rivals(file, methods, sweeps=sweeps, changes=changes, options=options, pooled=pooled):
        if chosen is not None:
            settings = [chosen[rival.method]] if rival.method in chosen else []
        else:
            settings = _grid(rival.sweeps)
        for setting in settings:
            for seed in seeds:
                folder = out / slug(Entry(_short(rival.method), setting)) / f"seed-{seed}"
                cells.append(rival.cell(setting, seed, file, folder, options, cross))
    if len({cell.folder for cell in cells}) < len(cells):
        raise SettingsError("Two cells would have the same folder; expected other values to sweep.")
    for cell in cells[:: len(seeds)]:
        cell.recipe()  # every mistake is reported before anything is trained
    return sorted(cells, key=lambda cell: cell.seed)


def _grid(sweeps: Sequence[Sweep]) -> list[Setting]:
    """All settings that can be put together of the values of each sweep."""
    if ranges := [sweep.key for sweep in sweeps if sweep.span is not None]:
        raise SettingsError(f"{ranges[0]} has a range to search, and no --tune says how often; expected values.")
    keys = [sweep.key for sweep in sweeps]
    return [tuple(zip(keys, values, strict=True)) for values in product(*(sweep.values for sweep in sweeps))]


def changes_by_owner(
    changes: Sequence[str], methods: Sequence[str]
) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Changes of the file that are for all methods, and those for one alone, by its name, as of the file's method."""
    common, private = list[str](), dict[str, tuple[str, ...]]()
    for text in changes:
        head, _, rest = text.partition(".")
        owner = next((method for method in methods if same_name(method, head.strip())), None)
        if owner is None:
            common.append(text)
        else:
            private[owner] = (*private.get(owner, ()), f"method.{rest}")
    return tuple(common), private


def named(methods: Sequence[str]) -> list[str]:
    """The methods as they are called, each once, and Local."""
    found: list[str] = []
    for name in [*methods, FLOOR]:
        known = name if ":" in name else next((known for known in METHODS if same_name(known, name)), name)
        kind_of(known)
        if known not in found:
            found.append(known)
        elif name != FLOOR:
            raise SettingsError(f"{known} is named twice; expected each method once.")
    return found


def slug(entry: Entry) -> str:
    """A folder's name for an entry."""
    return re.sub(r"[^\w.=,+-]+", "_", ",".join([entry.method, *(f"{key}={value}" for key, value in entry.settings)]))


def _short(method: str) -> str:
    return method.rpartition(":")[2]
