"""Errors that a user or a sender causes. Every message names the value, what was expected and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PotluckError(Exception):
    """The base of every error that Potluck raises on purpose."""


class DataError(PotluckError, ValueError):
    """Data that cannot be used: empty, not finite, of the wrong shape, or with labels outside the label space."""


class ModelError(PotluckError, ValueError):
    """A model that cannot be used, or cannot do what a request asks."""


class SettingsError(PotluckError, ValueError):
    """A setting that does not exist, or has a value it cannot have."""


class PayloadError(PotluckError, ValueError):
    """A payload that must not be used: damaged, too large, or not as its schema says."""


class RequirementsError(PotluckError, ValueError):
    """A method that does not fit this federation, with every reason why."""


class MergeError(PotluckError, ValueError):
    """What a server's half made of its answers must not be sent to anybody."""


MANY = 60
"""How many names an error message lists at most."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Ends an error message about an unknown name: the closest known one, then all of them."""
    choices = sorted(known)
    lowered = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name.lower(), lowered, n=1)
    hint = f" Did you mean {lowered[close[0]]!r}?" if close else ""
    return f"{hint} Known: {', '.join(choices[:MANY]) or 'none'}{', …' if len(choices) > MANY else ''}."


def how_to_install(extra: str) -> str:
    """Ends an error message about an extra that is missing. The package index's `potluck` is another project."""
    return f"pip install '.[{extra}]' in Potluck's folder."
