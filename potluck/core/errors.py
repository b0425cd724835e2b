"""What can go wrong by a user's or a sender's doing. Every message says what was given and what was expected."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PotluckError(Exception):
    """The base of every error that Potluck raises on purpose."""


class DataError(PotluckError, ValueError):
    """Data that cannot be used: empty, not finite, of the wrong shape, or with labels nobody declared."""


class ModelError(PotluckError, ValueError):
    """A model that cannot be used, or cannot do what is asked of it."""


class SettingsError(PotluckError, ValueError):
    """A setting that does not exist, or has a value it cannot have."""


class PayloadError(PotluckError, ValueError):
    """A payload that must not be used: damaged, too large, or not what was asked for."""


class RequirementsError(PotluckError, ValueError):
    """A method that does not fit this federation, with every reason why."""


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
    """Ends an error message about something that an extra brings. The index's `potluck` is another project."""
    return f"pip install '.[{extra}]' in Potluck's folder."
