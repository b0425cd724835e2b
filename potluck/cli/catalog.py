"""``potluck methods``, ``models``, ``data`` and ``codecs``: what there is to choose from."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from potluck.cli.console import messages, waiting

if TYPE_CHECKING:
    from pydantic import BaseModel

    from potluck.federation.method import Method

Json = Annotated[bool, typer.Option("--json", help="Print a JSON list of objects instead of a table.")]
CatalogEntry = dict[str, Any]


def methods(
    as_json: Json = False,
    fits: Annotated[
        Path | None, typer.Option("--fits", metavar="FILE", help="Only those that fit the federation in a run file.")
    ] = None,
) -> None:
    """List the methods: what each one is, what it needs, what it sends, its settings."""
    from potluck.cli.check import dry_runs
    from potluck.methods import METHODS
    from potluck.recipes import read

    names = list(METHODS) if fits is None else sorted(dry_runs(read(fits)).fits, key=str.lower)
    show_entries([_method(METHODS[name]) for name in names], "needs", as_json)


def models(as_json: Json = False) -> None:
    """List the models to bring when one has none of one's own.

    Parameters are counted for images of 3×32×32 and 10 classes.
    """
    from potluck.models import MODELS, describe
    from potluck.recipes.references import SUPPLIED

    with waiting("counting parameters", messages()):
        known = {entry["name"]: entry for entry in describe()}
    entries = [
        known.get(name, {"name": name, "about": _about(MODELS[name])}) | _settings(MODELS[name], SUPPLIED["model"])
        for name in MODELS
    ]
    show_entries(entries, "parameters", as_json)


def data(as_json: Json = False) -> None:
    """List the data sources, the partitions that split them, and the shifts by which participants see them."""
    from potluck.data import PARTITIONS, SHIFTS, SOURCES
    from potluck.recipes.references import SUPPLIED

    kinds = (
        ("source", SOURCES, ()),
        ("partition", PARTITIONS, SUPPLIED["partition"]),
        ("shift", SHIFTS, SUPPLIED["shift"]),
    )
    entries = [
        {"name": name, "kind": kind, "about": _about(registry[name])} | _settings(registry[name], supplied)
        for kind, registry, supplied in kinds
        for name in registry
    ]
    show_entries(entries, "kind", as_json)


def codecs(as_json: Json = False) -> None:
    """List the codecs of what travels: what each one does, and where it must stand among others."""
    from potluck.channel.codecs import CODECS

    entries = [
        {"name": name, "about": _about(kind), "place": kind.place} | _fields(kind) for name, kind in CODECS.items()
    ]
    show_entries(entries, "place", as_json)


def show_entries(entries: list[CatalogEntry], column: str, as_json: bool) -> None:
    """Prints entries as JSON for programs; for people as a table, with one column more between name and the rest.

    A column that an entry also has in words is shown so.
    """
    if as_json:
        typer.echo(json.dumps(entries, indent=1))
        return
    table = Table(box=SIMPLE_HEAD)
    numbers = column == "parameters"
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column(column, no_wrap=numbers, max_width=24, justify="right" if numbers else "left")
    table.add_column("what it is, and its settings")
    for entry in entries:
        about = Text(entry["about"].replace("``", "`"))
        settings = [f"{name} = {_toml(default)}" for name, default in entry["settings"].items()]
        settings = [*(f"{name} (required)" for name in entry["required"]), *settings]
        about.append(f"\n{', '.join(settings)}" if settings else "", style="cyan")
        for exchange, sent in entry.get("sends", {}).items():
            about.append(f"\n{exchange}: {sent}", style="dim")
        if "choose" in entry:
            about.append(f"\nChoose it {entry['choose']}.\nThe server learns {entry['server learns']}.")
            about.append(f"\nIt costs {entry['cost in words']}.")
        table.add_row(entry["name"], _words(entry.get(f"{column} in words", entry.get(column))), about)
    Console(highlight=False).print(table)


def _method(method: type[Method]) -> CatalogEntry:
    from potluck.federation.method_facts import facts_of, in_words

    facts = facts_of(method)
    return {
        "name": facts.name,
        "about": facts.sentence,
        "needs": facts.needs_table,
        "needs in words": list(in_words(facts.needs)),
        "sends": facts.sends,
        "leaves": list(facts.leaves),
        **_fields(method),
        **_guide(method),
    }


def _guide(method: type[Method]) -> CatalogEntry:
    """What helps to choose one of Potluck's methods; nothing of a study, and of methods of other packages."""
    from potluck.methods import METHODS
    from potluck.methods.guide import ADVICE, costs

    name = method.__name__
    if name not in ADVICE or METHODS[name] is not method:
        return {}
    advice, cost = ADVICE[name], costs()[name]
    return {
        "choose": advice.choose,
        "server learns": advice.learns,
        "cost": asdict(cost),
        "cost in words": str(cost),
    }


def _fields(kind: type[BaseModel]) -> CatalogEntry:
    """The settings of a class of settings, with defaults, and what must be set."""
    from potluck.federation.method_facts import plain, settings_of

    settings = settings_of(kind)
    return {
        "settings": {name: plain(one.default) for name, one in settings.items() if not one.required},
        "required": [name for name, one in settings.items() if one.required],
    }


def _settings(function: Callable[..., Any], supplied: tuple[str, ...]) -> CatalogEntry:
    """What can be set, with defaults, and what must be given."""
    from potluck.federation.method_facts import plain

    free = [p for p in inspect.signature(function).parameters.values() if p.name not in supplied]
    return {
        "settings": {p.name: plain(p.default) for p in free if p.default is not p.empty},
        "required": [p.name for p in free if p.default is p.empty],
    }


def _about(thing: Any) -> str:
    function = getattr(thing, "func", thing)  # a builder with some settings filled in
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())


def _toml(value: Any) -> str:
    """A default as it would stand in a run file; – where the default is to have none."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    return "–" if value is None else json.dumps(value)


def _words(value: Any) -> str:
    """A column for people: a number with its thousands, or one need under the other."""
    if isinstance(value, list):
        return "\n".join(value)
    return f"{value:,}" if isinstance(value, int) else value or ""
