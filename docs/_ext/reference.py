"""Writes the reference of the code itself: every command with its options, every key of files, every public class.

A Markdown page has a mark where it goes: ``<!-- commands -->``, ``<!-- keys package.module:Class -->`` or
``<!-- api package -->``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import typer.main
from pydantic import BaseModel
from sphinx.application import Sphinx

_MARK = re.compile(r"^<!-- (commands|keys|api)(?: ([\w.:]+))? -->$", re.M)
_ENTRY = re.compile(r"^    (\w+): (.*)$")


def described(kind: type) -> dict[str, str]:
    """What the docstrings of a class and of those that it extends say of each of its settings, under ``Args:``."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            found |= _args(base)
    return found


def _args(kind: type) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(kind.__doc__ or "").partition("\nArgs:\n")[2].splitlines():
        if entry := _ENTRY.match(line):
            name = entry[1]
            found[name] = entry[2]
        elif line.startswith("        ") and name:
            found[name] += " " + line.strip()
        elif line.strip():
            break
    return found


def keys(kind: type[BaseModel]) -> Iterator[str]:
    """A class of settings as reStructuredText: what it is, and each key with what it means."""
    told = described(kind)
    yield from (inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0], "")
    for name, field in kind.model_fields.items():
        text = told.get(name) or field.description or ""
        must = " (required)" if field.is_required() else ""
        fixed = f' = "{field.default}"' if name == "name" and isinstance(field.default, str) else ""
        yield from (f"``{field.alias or name}{fixed}``{must}", f"    {text[:1].upper()}{text[1:]}", "")


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each command, and as reStructuredText how it is called, what it does, and its arguments and options."""
    group: Any = typer.main.get_command(import_module("potluck.cli").app)
    for name, command in sorted(group.commands.items()):
        shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
        arguments = [_metavar(parameter) for parameter in shown if parameter.param_type_name == "argument"]
        options = ["[OPTIONS]"] if any(parameter.param_type_name == "option" for parameter in shown) else []
        lines = ["::", "", f"    {' '.join(['potluck', name, *options, *arguments])}", ""]
        lines += [*_literal(inspect.cleandoc(command.help or "")).splitlines(), ""]
        for parameter in shown:
            lines += [f"``{_called(parameter)}``", f"    {_literal(_meaning(parameter))}", ""]
        yield f"potluck {name}", lines


def _metavar(parameter: Any) -> str:
    told = parameter.metavar or parameter.name.upper()
    return str(told) if parameter.required or told.startswith("[") else f"[{told}]"


def _called(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return _metavar(parameter)
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    if parameter.is_flag:
        return names
    choices = getattr(parameter.type, "choices", None)
    value = parameter.metavar or (
        "|".join(map(str, choices)) if choices else parameter.type.name.removesuffix(" range").upper()
    )
    return f"{names} {value}"


def _meaning(parameter: Any) -> str:
    shown, default = parameter.show_default, parameter.default
    if parameter.required:
        told = "required"
    elif isinstance(shown, str):
        told = f"by default {shown}"
    elif (
        shown is False
        or default is None
        or callable(default)
        or parameter.multiple
        or getattr(parameter, "is_flag", False)
    ):
        told = ""
    else:
        told = f"by default {getattr(default, 'value', default)}"
    return " ".join([(parameter.help or "").strip(), *([f"({told})"] if told else [])])


def _literal(text: str) -> str:
    """Text for a terminal as reStructuredText: what stands between single backticks is code, and a star is a star."""
    return re.sub(r"`([^`]+)`", r"``\1``", text).replace("*", r"\*").replace("|", r"\|")


def public(module: str) -> Iterator[tuple[str, str]]:
    """What a module offers, and whether it is documented as a class, a function, a module of its own or a value."""
    found = import_module(module)
    for name in sorted(found.__all__, key=lambda name: (not name[:1].isupper(), name.lower())):
        thing = getattr(found, name)
        if inspect.isclass(thing):
            yield name, "exception" if issubclass(thing, Exception) else "class"
        elif inspect.isfunction(thing):
            yield name, "function"
        elif not inspect.ismodule(thing):
            yield name, "data"


def fenced(lines: Iterable[str]) -> str:
    """reStructuredText inside Markdown."""
    return "\n".join(["````{eval-rst}", *lines, "````", ""])


def written(kind: str, of: str) -> str:
    """The Markdown that stands in the place of a mark."""
    if kind == "commands":
        return "\n".join(f"## {title}\n\n{fenced(lines)}" for title, lines in commands())
    if kind == "keys":
        module, _, name = of.partition(":")
        return fenced(keys(getattr(import_module(module), name)))
    parts = []
    for name, what in public(of):
        options = ["    :members:"] if what == "class" else []
        parts.append(f"## {name}\n\n" + fenced([f".. auto{what}:: {of}.{name}", *options]))
    return "\n".join(parts)


def _write(app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] = _MARK.sub(lambda found: written(found[1], found[2] or ""), source[0])


def _escape(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """In formulas of docstrings a bar is a bar."""
    lines[:] = [re.sub(r"(``.*?``)|\|", lambda found: found[1] or r"\|", line) for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", _write)
    app.connect("autodoc-process-docstring", _escape)
    return {"parallel_read_safe": True}
