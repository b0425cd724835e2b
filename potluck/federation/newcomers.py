"""Newcomers: participants who take no part, and show what a method gives to whoever comes when all is learned."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from torch.utils._pytree import tree_map

from potluck.core.errors import SettingsError
from potluck.core.requests import Fit
from potluck.core.settings import check_count
from potluck.federation.method import Method, Steps
from potluck.federation.participant import Participant
from potluck.federation.round import ParticipantTally
from potluck.federation.server import Server

log = logging.getLogger(__name__)


def check_newcomers(method: Method, names: Collection[str], epochs: int) -> None:
    """Raises SettingsError where nobody may come late, so that there would be nothing to show."""
    check_count("unseen_epochs", epochs, "local epochs", least=0)
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


def has_joined(name: str, tally: ParticipantTally) -> bool:
    """Whether a newcomer could join; says why, if not."""
    if tally.refused is not None:
        log.warning("%s could not join as a newcomer: %s", name, tally.refused)
    return tally.refused is None


@contextmanager
def nothing_noted(server: Server) -> Iterator[None]:
    """Afterwards the server knows nothing of whoever joined meanwhile."""
    before, memory = server.state, dict(server.codec_memory)
    server.state = tree_map(lambda leaf: leaf, before)  # dicts and lists of its own around the same tensors
    try:
        yield
    finally:
        server.state, server.codec_memory = before, memory
