"""Checks of the builders' arguments; errors name the value and what was expected."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from potluck.core.errors import ModelError, SettingsError

Choice = TypeVar("Choice", int, str)


def one_of(setting: str, given: Choice, known: Collection[Choice]) -> Choice:
    """A setting with a few possible values."""
    if given not in known:
        raise SettingsError(f"{setting} = {given!r}; expected one of {', '.join(map(repr, known))}.")
    return given


def sizes(setting: str, given: Sequence[int]) -> tuple[int, ...]:
    """A setting with a size for each layer."""
    if not isinstance(given, Sequence) or not all(isinstance(size, int) and size > 0 for size in given):
        raise SettingsError(f"{setting} = {given!r}; expected whole numbers above 0.")
    return tuple(given)


def one_shape(model: str, given: Sequence[int] | Mapping[str, Any]) -> tuple[int, ...]:
    """The shape of an input that is one array."""
    if isinstance(given, Mapping):
        raise ModelError(f"{model} reads one array; the inputs are several: {', '.join(given)}.")
    return tuple(given)


def image_shape(model: str, given: Sequence[int] | Mapping[str, Any], smallest: int = 1) -> tuple[int, int, int]:
    """The shape of an input that is an image: channels, height, width."""
    given = one_shape(model, given)
    if len(given) != 3 or min(given) < 1:
        raise ModelError(f"{model} reads images of shape (channels, height, width); the inputs have {given}.")
    channels, height, width = given
    if min(height, width) < smallest:
        raise ModelError(f"{model} reads images of {smallest}×{smallest} pixels and up; the inputs have {given}.")
    return channels, height, width
