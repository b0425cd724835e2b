"""``potluck methods``, ``models`` and ``data``: what there is to choose from."""

from __future__ import annotations

import dataclasses
import inspect
import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from potluck.data import PARTITIONS, SOURCES
from potluck.method import Method
from potluck.methods import METHODS
from potluck.models import MODELS, describe

Json = Annotated[bool, typer.Option("--json", help="Print a JSON list of objects instead of a table.")]
Entry = dict[str, Any]


def methods(as_json: Json = False) -> None:
    """The methods: what each one is, what it needs, its settings."""
    show([describe_method(name, METHODS[name]) for name in METHODS], ("name", "about", "needs", "settings"), as_json)


def models(as_json: Json = False) -> None:
    """The models to bring when one has none of one's own."""
    own = describe()
    known = {entry["name"] for entry in own}
    others = [{"name": name, "about": _about(MODELS[name])} for name in MODELS if name not in known]
    show([*own, *others], ("name", "family", "parameters", "about"), as_json)


def data(as_json: Json = False) -> None:
    """The data sources, and the ways to deal them out."""
    entries = [
        {"name": name, "kind": kind, "about": _about(registry[name]), "settings": _settings(registry[name])}
        for kind, registry in (("source", SOURCES), ("partition", PARTITIONS))
        for name in registry
    ]
    show(entries, ("name", "kind", "about", "settings"), as_json)


def describe_method(name: str, method: type[Method]) -> Entry:
    """What there is to say about a method."""
    needs = {key: value for key, value in dataclasses.asdict(method.needs).items() if value not in (False, "nothing")}
    settings = {key: _default(field.default) for key, field in method.model_fields.items()}
    return {"name": name, "about": _about(inspect.getmodule(method)), "needs": needs, "settings": settings}


def show(entries: list[Entry], columns: tuple[str, ...], as_json: bool) -> None:
    """Prints entries as JSON for programs, or as a table for people."""
    if as_json:
        typer.echo(json.dumps(entries, indent=1))
        return
    table = Table(*columns)
    for entry in entries:
        table.add_row(*(_cell(entry.get(column)) for column in columns))
    Console().print(table)


def _about(thing: Any) -> str:
    function = getattr(thing, "func", thing)  # a builder with some settings filled in
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())


def _settings(function: Any) -> Entry:
    parameters = inspect.signature(function).parameters.values()
    return {p.name: None if p.default is p.empty else _default(p.default) for p in parameters}


def _default(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | list | tuple | type(None)) else str(value)


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key} = {item}" for key, item in value.items())
    if isinstance(value, int):
        return f"{value:,}"
    return "" if value is None else str(value).replace("[", r"\[")
