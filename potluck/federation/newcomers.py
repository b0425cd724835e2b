"""Newcomers: participants who take no part, and show what a method gives to whoever comes when all is learned."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from torch import nn
from torch.utils._pytree import tree_map

from potluck.core.errors import SettingsError
from potluck.core.requests import Fit
from potluck.core.samples import SharedData
from potluck.core.settings import check_count
from potluck.federation.method import Method, Steps
from potluck.federation.participant import Participant
from potluck.federation.server import Server
from potluck.federation.tally import ParticipantTally

log = logging.getLogger(__name__)


class Newcomers:
    """Those who take no part, and join anew whenever they are asked what a method gives them.

    Args:
        people: who they are, by name.
        method: what the parties do.
        epochs: how many epochs each of them trains on its own data, when it has joined.
    """

    def __init__(self, people: Mapping[str, Participant], method: Method, epochs: int) -> None:
        check_count("unseen_epochs", epochs, "local epochs", least=0)
        if people and not method.late_joining:
            raise SettingsError(
                f"unseen names {', '.join(sorted(people))}, but with {type(method).__name__} nobody may join late, "
                f"so there is nothing that it gives a newcomer. Leave `unseen` empty, or choose another method."
            )
        self._people, self._method, self.epochs = people, method, epochs
        models = {name: person.brought_model for name, person in people.items()}
        self._brought = {
            name: {entry: value.clone() for entry, value in model.state_dict().items()}
            for name, model in models.items()
            if isinstance(model, nn.Module)
        }
        """The weights of those models that are objects, which would keep what they learned when they came before."""

    def prepare(self, seed: int, shown: SharedData | None, round: int) -> list[Participant]:
        """All of them, by name, as they came."""
        people = [self._people[name] for name in sorted(self._people)]
        for person in people:
            if person.name in self._brought:
                person.brought_model.load_state_dict(self._brought[person.name])
            person.join(seed, shown, self._method)
            person.round = round
        return people

    def joined(self, tallies: Mapping[str, ParticipantTally]) -> dict[str, Participant]:
        """Those who could join; says why the others could not."""
        for name, tally in tallies.items():
            if tally.refused is not None:
                log.warning("%s could not join as a newcomer: %s", name, tally.refused)
        return {name: self._people[name] for name, tally in tallies.items() if tally.refused is None}

    @property
    def adapt(self) -> Callable[[Participant], Steps]:
        """What one does with what it was given: a few epochs on its own data."""
        return partial(train_alone, self.epochs)


def train_alone(epochs: int, me: Participant) -> Steps:
    """A participant's half: so many epochs on its own data."""
    yield Fit(plan=me.plan.replace(epochs=epochs))
    return None


@contextmanager
def nothing_noted(server: Server) -> Iterator[None]:
    """Afterwards the server knows nothing of whoever joined meanwhile."""
    before, memory = server.state, dict(server.codec_memory)
    server.state = tree_map(lambda leaf: leaf, before)  # dicts and lists of its own around the same tensors
    try:
        yield
    finally:
        server.state, server.codec_memory = before, memory
