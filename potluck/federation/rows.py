"""What a round puts into the history: a row for each participant to whom something happened."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from potluck.core.history import IDLE, SERVER, History, Row
from potluck.core.metrics import Metrics, Scores
from potluck.core.model_spec import OWN
from potluck.federation.tally import ParticipantTally


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
