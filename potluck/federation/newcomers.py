"""Newcomers: participants who take no part, and show what a method gives to whoever comes when all is learned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from torch.utils._pytree import tree_map

from potluck.core.errors import SettingsError
from potluck.core.requests import Fit
from potluck.federation.method import Method, Steps
from potluck.federation.participant import Participant
from potluck.federation.round import ParticipantTally
from potluck.federation.server import Server

Joining = Callable[[list[Participant]], Mapping[str, ParticipantTally]]
"""Has these participants join, and says how that went for each."""


def check_newcomers(method: Method, names: Collection[str], epochs: int) -> None:
    """Raises SettingsError where nobody may come late, so that there would be nothing to show."""
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 0:
        raise SettingsError(f"unseen_epochs is {epochs!r}; expected a number of local epochs from 0 on.")
    if names and not method.late_joining:
        raise SettingsError(
            f"unseen names {', '.join(sorted(names))}, but with {type(method).__name__} nobody may join late, "
            f"so there is nothing that it gives a newcomer. Leave `unseen` empty, or choose another method."
        )


def adapting(epochs: int) -> Callable[[Participant], Steps]:
    """What a newcomer does with what it was given: a few epochs on its own data."""

    def adapt(me: Participant) -> Steps:
        yield Fit(plan=me.plan.replace(epochs=epochs))
        return None

    return adapt


@contextmanager
def nothing_noted(server: Server) -> Iterator[None]:
    """Afterwards the server knows nothing of whoever joined meanwhile."""
    before, memory = server.state, dict(server.codec_memory)
    server.state = tree_map(lambda leaf: leaf, before)  # dicts and lists of its own around the same tensors
    try:
        yield
    finally:
        server.state, server.codec_memory = before, memory
