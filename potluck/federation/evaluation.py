"""Who is evaluated after which round, and what of the round goes into the history.

Those alone are evaluated whose answers may have changed since they were evaluated last, and those alone have a row to
whom something happened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

from torch import Tensor, nn

from potluck.core.history import IDLE, SERVER, History, Row
from potluck.core.metrics import Metrics, Scores
from potluck.core.model_spec import OWN
from potluck.core.plan import Plan
from potluck.core.settings import check_count
from potluck.federation.participant import Participant
from potluck.federation.tally import ParticipantTally


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


def participant_rows(
    number: int,
    names: Collection[str],
    there: Iterable[str],
    tallies: Mapping[str, ParticipantTally],
    joined: Mapping[str, ParticipantTally],
    scores: Mapping[str, Scores],
    history: History,
    *,
    known: Callable[[str], Metrics],
    clock: bool,
    method: str,
) -> Iterator[Row]:
    """The rows of those who took part or joined, and of those whose metrics changed.

    What joining took is counted in the round after it. A round in which nothing happened to anybody has one row all the
    same, which says that it was played.

    Args:
        number: the round.
        names: all participants.
        there: who took part.
        tallies: what each of those who were to take part sent and noted.
        joined: the same of those who joined before this round.
        scores: what those who were evaluated scored.
        history: the rounds before.
        known: what somebody who was not evaluated is known to score: nothing, where its model has changed.
        clock: whether time is simulated.
        method: what the method is called.
    """
    nothing, took_part = ParticipantTally(), set(there)
    metrics = {name: found[OWN] for name, found in scores.items()}
    news = [
        name
        for name in names
        if name in tallies or name in joined or (name in metrics and not history.says(name, metrics[name]))
    ]
    for name in news or list(names)[:1]:
        joining, tally = joined.get(name, nothing), tallies.get(name, nothing)
        row: Row = {
            "round": number,
            "participant": name,
            **(metrics[name] if name in metrics else known(name)),
            "bytes_up": tally.bytes_up + joining.bytes_up,
            "bytes_down": tally.bytes_down + joining.bytes_down,
            "seconds": tally.seconds + joining.seconds,
            **({"simulated_seconds": tally.simulated + joining.simulated} if clock else {}),
            "took_part": name in took_part,
            "refused": tally.refused or joining.refused,
        }
        notes: dict[str, Any] = {**joining.notes, **tally.notes}
        if taken := sorted(set(notes) & {*row, "model"}):
            raise TypeError(f"{method} notes {taken[0]!r}, which is measured; choose another name.")
        yield {**row, **notes}


def model_rows(number: int, scores: Mapping[str, Scores], of_server: Scores, history: History) -> Iterator[Row]:
    """A row for each model that is reported beside the participants' own ways of answering, if it has changed."""
    for name, found in chain(scores.items(), [(SERVER, of_server)]):
        for model, metrics in found.items():
            if model != OWN and not history.says(name, metrics, model):
                yield {"round": number, "participant": name, "model": model, **metrics, **IDLE}


def _version(tensor: Tensor) -> tuple[int, int]:
    """Two of one tensor are equal unless it was written to in between, or is elsewhere by now."""
    return tensor.data_ptr(), tensor._version
