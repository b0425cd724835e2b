"""A recipe: everything that makes a federation, as settings. The same settings make the same federation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from potluck import models
from potluck.data import PARTITIONS, SOURCES, Source, from_source, load, split, take_aside, valid_values
from potluck.errors import SettingsError
from potluck.federation import Federation
from potluck.labels import Label
from potluck.method import Method
from potluck.methods import METHODS
from potluck.participant import Participant
from potluck.plan import Plan
from potluck.randomness import derive
from potluck.registry import import_object

Array = np.ndarray[Any, Any]


def _possible(plan: dict[str, Any]) -> dict[str, Any]:
    Plan(**plan)
    return plan


PlanSettings = Annotated[dict[str, Any], AfterValidator(_possible)]
"""Some of a plan's settings."""


class Part(BaseModel):
    """A part of a recipe: checked with the whole, so that every mistake is told with its place."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Named(Part):
    """Something found by its name, with settings of its own beside it."""

    name: str
    settings: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        """``"x"`` is short for ``{name = "x"}``; every other key is one of its settings."""
        if isinstance(given, str):
            return {"name": given}
        if isinstance(given, dict) and "settings" not in given:
            return {"name": given.get("name"), "settings": {k: v for k, v in given.items() if k != "name"}}
        return given


class Public(Part):
    """The public data: some training samples taken aside, another source's inputs, or generated rows."""

    take: int | float | None = Field(None, gt=0)
    labelled: bool = False
    source: Named | None = None
    generate: int | None = Field(None, ge=1)
    count: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _one_way(self) -> Public:
        ways = [name for name in ("take", "source", "generate") if getattr(self, name) is not None]
        if len(ways) != 1:
            raise ValueError(f"expected one of take, source and generate; got {' and '.join(ways) or 'none'}")
        return self


class Data(Part):
    """Where samples come from and who holds which."""

    source: Named = Named(name="digits")
    partition: Named = Named(name="iid")
    public: Public | None = None

    @field_validator("source")
    @classmethod
    def _source_exists(cls, source: Named) -> Named:
        if not source.name.endswith(".npz"):
            SOURCES[source.name]
        return source

    @field_validator("partition")
    @classmethod
    def _partition_exists(cls, partition: Named) -> Named:
        PARTITIONS[partition.name]
        return partition


class Party(Part):
    """One participant, or ``count`` of a kind. Its share of the data, or its own."""

    name: str
    model: Named
    count: int = Field(1, ge=1)
    plan: PlanSettings = Field(default_factory=dict)
    data: str | None = None
    test: str | None = None
    labels: list[Label] | None = None
    validation: float = Field(0.0, ge=0, lt=1)
    weight: float = Field(1.0, gt=0)

    @field_validator("model")
    @classmethod
    def _model_exists(cls, model: Named) -> Named:
        models.MODELS[model.name]
        return model

    def names(self) -> list[str]:
        """What its participants are called."""
        return [self.name] if self.count == 1 else [f"{self.name}{number}" for number in range(1, self.count + 1)]


class Recipe(Part):
    """A federation in settings: what a run file holds."""

    rounds: int = Field(ge=0)
    method: Named
    participants: list[Party] = Field(min_length=1)
    data: Data = Data()
    plan: PlanSettings = Field(default_factory=dict)
    seed: int = 0
    engine: str = "auto"
    device: str = "auto"
    participation: float = Field(1.0, gt=0, le=1)
    keep_optimizer: bool | None = None
    checkpoint_every: int = Field(1, ge=1)

    def build_method(self) -> Method:
        """The method with its settings."""
        made = METHODS[self.method.name](**self.method.settings)
        if not isinstance(made, Method):
            raise SettingsError(f"method = {self.method.name!r} is a {type(made).__name__}; expected a Method.")
        return made

    def build_plan(self, party: Party) -> Plan:
        """A party's plan: what it sets itself, else what the recipe sets for all."""
        return Plan(**{**self.plan, **party.plan})

    @field_validator("method")
    @classmethod
    def _method_exists(cls, method: Named) -> Named:
        METHODS[method.name](**method.settings)
        return method

    @field_validator("participants")
    @classmethod
    def _names_differ(cls, participants: list[Party]) -> list[Party]:
        names = [name for party in participants for name in party.names()]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ValueError(f"two participants are named {doubled[0]!r}; names must differ")
        return participants

    def table(self) -> Table:
        """The data loaded and dealt, the participants made."""
        return Table(self)

    def federation(self, method: Method | None = None, engine: str | None = None) -> Federation:
        """The federation, ready to run; with another method or engine if one is given."""
        return self.table().federation(method or self.build_method(), engine or self.engine)


class Table:
    """A recipe's data, dealt: makes the same participants as often as asked."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.source = load(recipe.data.source.name, **recipe.data.source.settings)
        self.public, rows = self._public()
        self.x, self.y = self.source.x[rows], self.source.y[rows]
        self.dealt = self._deal(rows)

    def federation(self, method: Method, engine: str) -> Federation:
        """A federation of new participants."""
        recipe = self.recipe
        return Federation(
            self.participants(),
            method,
            public=self.public,
            test=(self.source.x_test, self.source.y_test),
            seed=recipe.seed,
            engine=engine,
            device=recipe.device,
            participation=recipe.participation,
            keep_optimizer=recipe.keep_optimizer,
        )

    def participants(self) -> Iterator[Participant]:
        """Each party's participants, with their shares in the order listed."""
        shares = iter(self.dealt)
        for party in self.recipe.participants:
            for name in party.names():
                if party.data is None:
                    data, labels = next(shares)
                else:
                    data, labels = import_object(party.data)(), None
                yield Participant(
                    name,
                    partial(_made, party.model),
                    data,
                    plan=self.recipe.build_plan(party),
                    test=import_object(party.test)() if party.test else None,
                    labels=party.labels or labels,
                    validation=party.validation,
                    weight=party.weight,
                )

    def _public(self) -> tuple[Any, Array]:
        """The public data, and the rows of the source that are left for the participants."""
        source, public, everything = self.source, self.recipe.data.public, np.arange(len(self.source.y))
        seed = derive(self.recipe.seed, "public data")
        if public is None:
            return None, everything
        if public.take is not None:
            aside = take_aside(source.x, source.y, public.take, seed)
            return (aside.x, aside.y) if public.labelled else aside.x, aside.kept
        if public.source is not None:
            other = load(public.source.name, **public.source.settings)
            return from_source(other, public.count, seed, like=source.shape), everything
        assert public.generate is not None
        return valid_values(source.x, public.generate, seed), everything

    def _deal(self, rows: Array) -> list[tuple[tuple[Array, Array], tuple[Label, ...]]]:
        """Everybody's share and label space."""
        count = sum(party.count for party in self.recipe.participants if party.data is None)
        if count == 0:
            return []
        source, partition = self.source, self.recipe.data.partition
        left = Source(
            source.name,
            self.x,
            self.y,
            source.x_test,
            source.y_test,
            None if source.fine is None else source.fine[rows],
            source.fine_test,
            None if source.groups is None else source.groups[rows],
        )
        dealt = split(partition.name, left, count, derive(self.recipe.seed, "partition"), **partition.settings)
        return [
            ((self.x[share], self.y[share]), tuple(labels))
            for share, labels in zip(dealt.shares, dealt.labels, strict=True)
        ]


def _made(model: Named, input_shape: tuple[int, ...], classes: int) -> Any:
    return models.build(model.name, input_shape, classes, **model.settings)
