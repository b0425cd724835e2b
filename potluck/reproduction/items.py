"""The papers' tables and figures that ship as recipes, by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from potluck.core.errors import SettingsError, nearest
from potluck.recipes.paper_item import PaperItem
from potluck.recipes.run_file import read_paper
from potluck.reproduction.rows import name_of, read_rows

FOLDER = Path(__file__).parent.parent / "recipes" / "papers"


def item_files(folder: Path = FOLDER) -> dict[str, Path]:
    """Name → run file, in order of names."""
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


@cache
def read_items(folder: Path = FOLDER) -> Mapping[str, PaperItem]:
    """Name → table or figure."""
    return {name: read_item(path) for name, path in item_files(folder).items()}


def read_item(path: str | Path) -> PaperItem:
    """What a file says of a table or figure, with what it takes over from its base."""
    item = read_paper(path)
    return item.on(read_paper(base_of(item))) if item.base else item


def base_of(item: PaperItem) -> Path:
    """The file whose federation is played: that of the item's base."""
    files = item_files()
    if item.base not in files:
        raise SettingsError(f"paper.base is {item.base!r}, which is no item.{nearest(item.base, files)}")
    return files[item.base]


def find_item(name: str) -> tuple[Path, PaperItem]:
    """The run file of an item, by its name such as "mhat-table-1", or by a path of one's own."""
    if name.endswith(".toml"):
        return Path(name), read_item(name)
    files, asked = item_files(), name_of(name)
    if asked in files:
        return files[asked], read_items()[asked]
    if row := read_rows().get(asked):
        raise SettingsError(f"{row.title} has no recipe: {row.missing or row.scale}.")
    hint = nearest(asked, files)
    raise SettingsError(f"There is no recipe {name!r}.{hint} `potluck reproduce --list` shows all.")
