"""Who is evaluated after which round: those alone whose answers may have changed since they were evaluated last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor, nn

from potluck.core.plan import Plan
from potluck.core.settings import check_count
from potluck.federation.participant import Participant


@dataclass(frozen=True)
class AnsweredWith:
    """What a participant answered with when it was evaluated, as far as others hold references to it.

    Args:
        plan: its plan.
        versions: where each tensor of a network that was brought as an object is, and how often it was written to.
    """

    plan: Plan
    versions: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, participant: Participant) -> AnsweredWith:
        """What it answers with now."""
        model = participant.brought_model
        tensors = [*model.parameters(), *model.buffers()] if isinstance(model, nn.Module) else []
        return cls(participant.plan, tuple(map(_version, tensors)))

    def still(self, participant: Participant) -> bool:
        """Whether it is the same."""
        now = AnsweredWith.of(participant)
        return self.plan is now.plan and self.versions == now.versions


class Evaluation:
    """Keeps who must be evaluated anew.

    A participant whose model and state nobody has looked into since it was evaluated answers as it did then: to train
    it, to restore it and to change it by hand all begin with a look.

    Args:
        every: after how many rounds participants are evaluated; the last round of a run always is.
    """

    def __init__(self, every: int) -> None:
        check_count("evaluate_every", every, "rounds", least=1)
        self.every = every
        self._found: dict[str, AnsweredWith] = {}

    def due(self, number: int, last: int) -> bool:
        """Whether participants are evaluated after a round."""
        return number % self.every == 0 or number >= last

    def outdated(self, participant: Participant) -> bool:
        """Whether what a participant scored may no longer be so."""
        if participant.looked_into or participant.window is not None or not participant.is_local:
            return True
        found = self._found.get(participant.name)  # not known after a resume, whose models nobody else has seen
        return found is not None and not found.still(participant)

    def done(self, participants: Iterable[Participant]) -> None:
        """Notes that these have just been evaluated."""
        for participant in participants:
            participant.looked_into = False
            self._found[participant.name] = AnsweredWith.of(participant)

    def waiting(self, participants: Mapping[str, Participant]) -> list[str]:
        """The names of those who were changed and not evaluated since: what a checkpoint keeps."""
        return [name for name, participant in participants.items() if participant.looked_into]

    def restore(self, participants: Mapping[str, Participant], waiting: Iterable[str]) -> None:
        """Takes up what ``waiting`` gave."""
        names = set(waiting)
        self._found = {}
        for name, participant in participants.items():
            participant.looked_into = name in names


@contextmanager
def only_looking(participants: Mapping[str, Participant]) -> Iterator[None]:
    """Inside, participants are looked into and not changed."""
    before = {name: participant.looked_into for name, participant in participants.items()}
    yield
    for name, participant in participants.items():
        participant.looked_into = before[name]


def _version(tensor: Tensor) -> tuple[int, int]:
    """Two of one tensor are equal unless it was written to in between, or is elsewhere by now."""
    return tensor.data_ptr(), tensor._version
