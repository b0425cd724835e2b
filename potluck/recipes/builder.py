"""Builds what a recipe says: its data loaded and divided among participants, and federations of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from potluck import models
from potluck.channel.channel import Audit
from potluck.core.errors import SettingsError
from potluck.core.labels import LabelSpace
from potluck.core.plan import Plan
from potluck.core.randomness import derive
from potluck.core.registry import call, import_object
from potluck.data import Source, from_source, load, shift, split, split_public, valid_values
from potluck.engines.base import Engine
from potluck.federation.federation import Federation
from potluck.federation.method import Method
from potluck.federation.participant import Participant
from potluck.federation.tuning import choose_plan
from potluck.ingestion.tables import rows_of

if TYPE_CHECKING:
    from potluck.recipes.recipe import Recipe
    from potluck.recipes.references import Named

Array = np.ndarray[Any, Any]


class Share(NamedTuple):
    """What a participant gets of the source's data; test data only where they are not everybody's.

    Args:
        data: its training data.
        labels: its label space; by default that of its data.
        test: its test data; by default None.
    """

    data: Any
    labels: LabelSpace | None = None
    test: tuple[Any, Array] | None = None


class FederationBuilder:
    """A recipe's data, loaded and divided: makes the same participants as often as asked.

    Args:
        recipe: the recipe.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        with recipe.at("data", "source"):
            self.source = _loaded(recipe.source)
            self._check_targets()
        with recipe.at("data", "public"):
            self.public, rows = self._public()
        with recipe.at("data", "partition"):
            self.shares = self._divided(rows)
        self._plans: dict[tuple[str, str], Plan] = {}

    def federation(
        self,
        method: Method,
        engine: str | Engine,
        participants: Iterable[Participant] | None = None,
        audit: Audit | None = None,
    ) -> Federation:
        """A federation of new participants, or of these; reported to whoever audits what travels.

        An engine that is brought plays it; plans are chosen by the automatic one then.
        """
        recipe = self.recipe
        chooses = engine if isinstance(engine, str) else "auto"
        federation = Federation(
            self.participants(chooses) if participants is None else participants,
            method,
            public=self.public,
            test=(self.source.x_test, self.source.y_test) if self.source else None,
            seed=recipe.seed,
            engine=recipe.build_engine(engine) if isinstance(engine, str) else engine,
            device=recipe.device,
            precision=recipe.precision,
            participation=recipe.participation,
            availability=recipe.availability,
            clock=recipe.clock,
            keep_optimizer=recipe.keep_optimizer,
            max_concurrent=recipe.max_concurrent,
            storage=recipe.storage,
            unseen=self.unseen(chooses) if participants is None else (),
            unseen_epochs=recipe.unseen_epochs,
            evaluate_every=recipe.evaluate_every,
            channel=recipe.channel.build(audit=audit).of(method.exchanges()),
        )
        federation.made_from = {"file": recipe.file, **recipe.model_dump(mode="json", fallback=str)}
        return federation

    def participants(self, engine: str = "auto") -> Iterator[Participant]:
        """Who takes part, with their shares in the order listed, and the plans they choose."""
        return self._people(engine, unseen=False)

    def unseen(self, engine: str = "auto") -> Iterator[Participant]:
        """Who takes no part, and is evaluated as a newcomer."""
        return self._people(engine, unseen=True)

    def _people(self, engine: str, unseen: bool) -> Iterator[Participant]:
        shares = iter(self.shares)
        for position, party in enumerate(self.recipe.participants):
            for number, name in enumerate(party.names()):
                if party.unseen != unseen:
                    if party.data is None:
                        next(shares)
                    continue
                own = next(shares) if party.data is None else Share(self._own(party.data, position, "data"))
                test = own.test if party.test is None else self._own(party.test, position, "test")
                prepared = None if party.preprocess is None else self._own(party.preprocess, position, "preprocess")
                with self.recipe.at("participants", position):
                    participant = Participant(
                        name,
                        partial(self._model, position, number),
                        own.data,
                        plan=self.recipe.build_plan(party),
                        test=test,
                        task=self.recipe.task_of(party),
                        labels=party.labels or (own.labels if self.recipe.task_of(party) is None else None),
                        metrics=party.metrics or self.recipe.metrics,
                        validation=party.validation,
                        weight=party.weight,
                        preprocess=prepared,
                        disclosure=party.disclosure,
                        preload=party.preload,
                        head=party.head,
                        window=party.window,
                        attack=party.attack,
                    )
                if party.tune:
                    participant.plan = self._chosen(position, participant, engine)
                yield participant

    def _check_targets(self) -> None:
        """Classification needs labels."""
        shared = [party for party in self.recipe.participants if party.data is None]
        classify = any(self.recipe.task_of(party) is None for party in shared)
        if self.source is not None and self.source.values and classify:
            raise SettingsError(f'The targets of {self.source.name!r} are values; expected task = "regression".')

    def _chosen(self, position: int, participant: Participant, engine: str) -> Plan:
        """The plan that a participant chooses by validation: once, however many federations it is in."""
        recipe, key = self.recipe, (participant.name, engine)
        if key not in self._plans:
            plans = recipe.build_plans(recipe.participants[position])
            with recipe.at("participants", position, "tune"):
                self._plans[key] = choose_plan(
                    participant, plans, seed=recipe.seed, engine=engine, device=recipe.device
                )
        return self._plans[key]

    def _model(self, position: int, number: int, input_shape: tuple[int, ...], classes: int) -> Any:
        model = self.recipe.participants[position].model_of(number)
        with self.recipe.at("participants", position, "model"):
            return models.build(model.name, input_shape, classes, **model.settings)

    def _own(self, function: Named, position: int, what: str) -> Any:
        with self.recipe.at("participants", position, what):
            return call(function.name, import_object(function.name), function.settings)

    def _public(self) -> tuple[Any, Array | None]:
        """The public data, and the rows of the source that are left for the participants; None for all."""
        source, public, seed = self.source, self.recipe.data.public, derive(self.recipe.seed, "public data")
        if public is None:
            return None, None
        other = _loaded(public.source)
        if other is not None and public.labelled:
            some = other if public.count is None else split_public(other.x, other.y, public.count, seed, other.values)
            return (some.x, some.y), None
        if other is not None:
            return from_source(other, public.count, seed, like=source.shape if source else None), None
        assert source is not None
        if public.generate is not None:
            return valid_values(source.x, public.generate, seed), None
        assert public.take is not None
        aside = split_public(source.x, source.y, public.take, seed, source.values)
        return (aside.x, aside.y) if public.labelled else aside.x, aside.kept

    def _divided(self, rows: Array | None) -> list[Share]:
        """Everybody's share of these rows."""
        count = sum(party.count for party in self.recipe.participants if party.data is None)
        if count == 0 or self.source is None:
            return []
        left, partition = self.source if rows is None else _only(self.source, rows), self.recipe.data.partition
        divided = split(partition.name, left, count, derive(self.recipe.seed, "partition"), **partition.settings)
        return [
            self._share(left, rows, labels, number, count)
            for number, (rows, labels) in enumerate(zip(divided.indices, divided.labels, strict=True))
        ]

    def _share(self, source: Source, rows: Array, labels: LabelSpace, number: int, count: int) -> Share:
        """These rows of a source; and test data, where the participant has others than everybody.

        ``number`` is the participant's own among the ``count`` who share the source. Under a feature shift it sees the
        test rows that it knows in its own way, too; with ``test = "own"`` they are those of the groups that it holds.
        """
        data, kind = self.recipe.data, self.recipe.data.shift
        x, y = rows_of(source.x, rows), source.y[rows]
        if kind is None and data.test == "shared":
            return Share((x, y), labels)
        known = np.ones(len(source.y_test), bool) if source.values else np.isin(source.y_test, np.asarray(labels))
        if data.test == "own":
            known &= self._own_tests(source, rows)
        test = rows_of(source.x_test, known)
        if kind is not None:
            seed = derive(self.recipe.seed, "shift")
            with self.recipe.at("data", "shift"):
                x, test = (shift(kind.name, seen, number, count, seed, **kind.settings) for seen in (x, test))
        return Share((x, y), labels, (test, source.y_test[known]) if known.any() else None)

    def _own_tests(self, source: Source, rows: Array) -> Array:
        """Which test rows are of the groups that these training rows are of."""
        with self.recipe.at("data", "test"):
            if source.groups is None or source.groups_test is None:
                raise SettingsError(
                    f"{source.name!r} does not say whose a test row is; expected a source with groups, such as a table "
                    f'with `group`, or test = "shared".'
                )
            held = np.unique(source.groups[rows])
            own: Array = np.isin(source.groups_test, held)
            if not own.any():
                raise SettingsError(f"There are no test rows of {', '.join(map(str, held.tolist()[:5]))}.")
            return own


def _loaded(source: Named | None) -> Source | None:
    return None if source is None else load(source.name, **source.settings)


def _only(source: Source, rows: Array) -> Source:
    """The source with some of its training rows."""
    fine, groups = (None if column is None else column[rows] for column in (source.fine, source.groups))
    return replace(source, x=rows_of(source.x, rows), y=source.y[rows], fine=fine, groups=groups)
