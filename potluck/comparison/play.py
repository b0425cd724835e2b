"""Plays one cell of a comparison into its folder; what is there already is not played again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import torch

from potluck.comparison.cells import Cell
from potluck.comparison.sharing import cross_evaluation, pool
from potluck.core.errors import SettingsError
from potluck.core.history import Row
from potluck.core.registry import import_object
from potluck.federation.federation import Federation
from potluck.federation.participant import Participant
from potluck.methods import Local
from potluck.recipes import Recipe
from potluck.report.folders import MEASURED, read_json
from potluck.runs.callbacks import Callback
from potluck.runs.folder import replace_file

RoundPlayed = Callable[[int], None]
"""Is called with how many rounds have been played."""


def is_done(cell: Cell) -> bool:
    """Whether the cell has been played to its end, with these settings."""
    path = cell.folder / MEASURED
    return path.is_file() and read_json(path).get("asked") == asked(cell, cell.recipe())


def asked(cell: Cell, recipe: Recipe) -> dict[str, Any]:
    """What a cell is asked for, as it is stored when that is done."""
    plain: dict[str, Any] = json.loads(recipe.model_dump_json(fallback=str))
    return {"recipe": plain, "pooled": cell.pooled, "cross": cell.cross}


def play(cell: Cell, notify: RoundPlayed, callbacks: Iterable[Callback] = ()) -> None:
    """Plays a cell, or goes on with it, and measures what a report needs besides the history.

    Args:
        cell: what is played.
        notify: is told how many rounds have been played.
        callbacks: who else is told of the run; by default nobody.
    """
    recipe = cell.recipe()
    federation = build(cell, recipe)

    def count(played: Federation, rows: list[Row]) -> None:
        notify(played.history.rounds)

    history = federation.run(
        recipe.rounds,
        run_dir=cell.folder,
        resume=True,
        checkpoint_every=recipe.checkpoint_every,
        callbacks=[*recipe.callbacks(), *callbacks, count],
    )
    if history.rounds != recipe.rounds and federation.stopped is None:
        raise SettingsError(
            f"{cell.folder} holds {history.rounds} rounds, and {recipe.rounds} were asked for; choose another folder."
        )
    found = {"asked": asked(cell, recipe), **measured(federation)}
    if recipe.paper is not None and recipe.paper.inspect:
        found["inspected"] = {
            name: value for path in recipe.paper.inspect for name, value in import_object(path)(federation).items()
        }
    if cell.cross:
        found["cross"] = cross_evaluation(federation)
    replace_file(cell.folder / MEASURED, json.dumps(found, indent=1, allow_nan=False) + "\n")
    notify(history.rounds)


def build(cell: Cell, recipe: Recipe) -> Federation:
    """The federation of a cell: for the ceiling, of participants that share their data."""
    if not cell.pooled:
        return recipe.federation()
    builder = recipe.builder()
    return builder.federation(Local(), recipe.engine, pool(builder.participants(recipe.engine), recipe.seed))


def measured(federation: Federation) -> dict[str, Any]:
    """Who holds what, and the metrics on validation data, on which settings may be chosen."""
    return {
        "participants": [{"name": name, "counts": counts(party)} for name, party in federation.participants.items()],
        "validation": federation.validate(),
    }


def counts(party: Participant) -> dict[str, int]:
    """How many training samples it has of each label; of a task without a label for each sample, how many in all."""
    if party.data.y.ndim != 1:
        return {"all": len(party.data)}
    tally = torch.bincount(party.data.y, minlength=len(party.labels)).tolist()
    return {str(label): number for label, number in zip(party.labels, tally, strict=True)}
