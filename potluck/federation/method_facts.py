"""What a method says of itself, as a program can show it: its paper, needs, what it sends, and its settings."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from potluck.federation.method import Leaving, Method, Needs

PARAMETER = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.M)
"""A setting in a docstring, and what is said of it."""


ELSEWHERE = re.compile(r"as in ``(\w+)``(.*)")
"""That a setting is explained where another class explains it, and what is said besides."""


@dataclass(frozen=True)
class SettingFacts:
    """A setting that has a choice.

    Args:
        default: what it is by default; None where it must be given.
        required: whether it must be given.
        about: what the docstring says of it; empty where it says nothing.
    """

    default: Any
    required: bool
    about: str


@dataclass(frozen=True)
class MethodFacts:
    """What a method says of itself.

    Args:
        name: the class's name.
        sentence: the first line of its file: its name, the paper in brackets, and behind a colon what it does.
        steps: the first line of the class's docstring.
        needs: what it needs with its default settings.
        sends: exchange → what a participant sends in it.
        leaves: the kinds of things that leave a participant.
        settings: what can be set, by name; what a method has fixed is left out.
    """

    name: str
    sentence: str
    steps: str
    needs: Needs
    sends: dict[str, str]
    leaves: tuple[Leaving, ...]
    settings: dict[str, SettingFacts]

    @property
    def title(self) -> str:
        """The method's name and its paper."""
        return self.sentence.partition(": ")[0]

    @property
    def about(self) -> str:
        """What it does."""
        return self.sentence.partition(": ")[2]

    @property
    def needs_table(self) -> dict[str, Any]:
        """Those of its needs that ask for something, as fields of ``Needs``."""
        plain = dataclasses.asdict(Needs(tasks="any"))
        return {key: value for key, value in dataclasses.asdict(self.needs).items() if value != plain[key]}


def facts_of(method: type[Method]) -> MethodFacts:
    """Reads them from a method's class, and from the text of its file."""
    text = inspect.getdoc(method) or ""
    module = inspect.getdoc(sys.modules[method.__module__]) or ""
    settings = settings_of(method)
    ready = not any(setting.required for setting in settings.values())
    kinds = [kind for name in method.exchanges() for kind in method.leaves.get(name, ())]
    return MethodFacts(
        method.__name__,
        _line((module or text).partition("\n\n")[0]),
        _line(text.partition("\n\n")[0]),
        method().requires() if ready else method.needs,
        method.described_exchanges(),
        tuple(dict.fromkeys(kinds)),
        settings,
    )


def settings_of(kind: type[BaseModel]) -> dict[str, SettingFacts]:
    """What can be set, by name, as the fields and the docstring of a class say."""
    explained: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        explained |= _explained(base) if issubclass(base, BaseModel) else {}
    return {
        name: SettingFacts(
            None if field.is_required() else field.get_default(call_default_factory=True, validated_data={}),
            field.is_required(),
            explained.get(name, ""),
        )
        for name, field in kind.model_fields.items()
        if not is_fixed(field.annotation)
    }


def _explained(kind: type[BaseModel]) -> dict[str, str]:
    """What the docstring says of each setting; "as in" a class that it derives from is replaced by what that says."""
    own = inspect.cleandoc(kind.__doc__ or "")
    said = {name: _line(text) for name, text in PARAMETER.findall(own)}
    for name, text in said.items():
        found = ELSEWHERE.match(text)
        other = next((base for base in kind.__mro__[1:] if found and base.__name__ == found[1]), None)
        if found and other and name in (there := _explained(other)):
            said[name] = there[name].partition("; by default")[0].rstrip(".") + found[2] if found[2] else there[name]
    return said


def is_fixed(annotation: Any) -> bool:
    """Whether a field has one value only: a subclass has chosen for its users."""
    return annotation is type(None) or (get_origin(annotation) is Literal and len(get_args(annotation)) == 1)


def in_words(needs: Needs) -> Iterator[str]:
    """What a method needs, one by one, in a few words each."""
    if needs.torch_module:
        yield "torch modules"
    if needs.same_architecture:
        apart = ["normalisation"] * needs.own_norms + ["the last layer"] * bool(needs.own_layers)
        yield "one architecture" + (f" but for {' and '.join(apart)}" if apart else "")
    words = {
        "convolutions": "convolutions",
        "stages": "stages",
        "head": "a head",
        "validation": "validation data",
        "one_input_shape": "one input shape",
        "one_label_space": "one label space",
        "shared_labels": "labels in common",
    }
    yield from (said for field, said in words.items() if getattr(needs, field))
    if needs.public != "nothing":
        yield "public data" if needs.public == "inputs" else "public data with labels"
    if needs.tasks != "any":
        yield f"{' or '.join(needs.tasks)}"


def plain(value: Any) -> Any:
    """A default as JSON can hold it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True, fallback=str)
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | dict | type(None)) else str(value)


def _line(text: str) -> str:
    return " ".join(text.split())
