"""A recipe: everything that makes a federation, as settings. The same settings make the same federation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field, PrivateAttr, Strict, field_validator, model_validator

from potluck.core.disclosure import Disclosure
from potluck.core.errors import PotluckError
from potluck.core.labels import Label
from potluck.core.plan import Plan
from potluck.core.window import Window
from potluck.engines import DeviceName, Engine, Ray, make_engine, pick_device
from potluck.engines.distributed.engine import BLOCK
from potluck.engines.hardware import Precision
from potluck.federation.attacks import AttackNamed
from potluck.federation.availability import Availability
from potluck.federation.clock import VirtualClock
from potluck.federation.federation import Federation
from potluck.federation.method import Method
from potluck.federation.participation import ParticipationSetting
from potluck.federation.tuning import grid
from potluck.methods import METHODS
from potluck.models import MODELS
from potluck.recipes.callback_sections import EarlyStoppingSection, TrackSection, trackers_of
from potluck.recipes.channel_section import ChannelSection
from potluck.recipes.file_kinds import FileKind
from potluck.recipes.paper_item import PaperItem
from potluck.recipes.references import (
    SUPPLIED,
    DataNamed,
    MethodNamed,
    ModelNamed,
    Named,
    PartitionNamed,
    PreprocessNamed,
    ShiftNamed,
    SourceNamed,
    TaskNamed,
    wrong_settings,
)
from potluck.recipes.validation import Origin, Section, refuse, wrong_in

if TYPE_CHECKING:
    from potluck.recipes.builder import FederationBuilder
    from potluck.runs.callbacks import Callback

Whole = Annotated[int, Strict()]


def _possible(plan: dict[str, Any]) -> dict[str, Any]:
    wrong = [(place, text) for place, text in wrong_in(Plan, plan) if place]  # what goes together is seen later
    if wrong:
        refuse(wrong)
    return plan


def _choosable(choices: dict[str, list[Any]]) -> dict[str, list[Any]]:
    for name, values in choices.items():
        if not values:
            refuse([((name,), f"{name} = []; expected a list of values to choose from.")])
        for value in values:
            _possible({name: value})
    return choices


PlanSettings = Annotated[dict[str, Any], AfterValidator(_possible)]
"""Some of a plan's settings."""

PlanChoices = Annotated[dict[str, list[Any]], AfterValidator(_choosable)]
"""For some of a plan's settings, the values to choose from."""


class PublicSection(Section):
    """The public data: some training samples taken aside, another source's samples, or generated rows.

    Args:
        take: how many samples are set aside from the source: a share such as 0.1, or a number such as 500.
        source: another source, whose samples they are.
        generate: how many rows are made, each value valid for its column: for tables.
        labelled: with ``take`` or ``source``, whether everyone sees the labels, too; by default false.
        count: with ``source``, how many of its samples; by default all.
    """

    model_config = ConfigDict(title="data.public")

    take: Whole | float | None = Field(None, gt=0)
    source: SourceNamed | None = None
    generate: Whole | None = Field(None, ge=1)
    labelled: bool = False
    count: Whole | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _one_way(self) -> PublicSection:
        ways = [name for name in ("take", "source", "generate") if getattr(self, name) is not None]
        if len(ways) != 1:
            raise ValueError(f"expected one of take, source and generate; got {' and '.join(ways) or 'none'}.")
        if self.count is not None and self.source is None:
            refuse([(("count",), f"count goes with source; with {ways[0]} the number stands there.")])
        if self.labelled and self.generate is not None:
            refuse([(("labelled",), "generated rows have no labels; expected take or source.")])
        return self


class DataSection(Section):
    """Where samples come from and who holds which.

    Args:
        source: where the samples come from: a name that ``potluck data`` lists, a file, or a function that returns a
            ``potluck.data.Source``; by default "digits".
        test: which of the source's test rows test those who bring none: "shared" (the default), all for everyone, or
            "own", those of the groups that a participant holds.
        partition: how the samples are split among those who bring no data; by default "iid", evenly.
        shift: how each of them sees its inputs, test data included; by default as they are.
        public: data that everyone may see; by default none.
    """

    model_config = ConfigDict(title="data")

    source: SourceNamed | None = None
    test: Literal["shared", "own"] = "shared"
    partition: PartitionNamed = Named(name="iid")
    shift: ShiftNamed | None = None
    public: PublicSection | None = None


class ParticipantSection(Section):
    """One participant, or ``count`` of a kind. Its share of the data, or its own.

    Args:
        name: what the others call it; names differ.
        model: what it brings: a name that ``potluck models`` lists, or "package.module:callable".
        count: how many of a kind: bank with ``count = 2`` is bank1 and bank2; by default 1.
        plan: how it trains, where that differs from the others; by default as they do.
        tune: values of its plan to choose from by validation; by default nothing is chosen.
        data: its own data: a file, or a function that returns ``(x, y)``; by default a share of the source.
        test: likewise, what it is tested on; by default the source's test rows.
        preprocess: a common preprocessor's file, or a function that returns a scikit-learn transformer, or its class;
            by default nothing.
        disclosure: which statistics may leave in a study of tables; by default all, of five rows and more.
        preload: whether large data are read into memory at the start: true, false, or "auto" (the default), if they
            are not large.
        task: what it learns, where that differs from the others.
        labels: the classes that it tells apart; by default those of its data.
        metrics: what is measured on its test data; by default as of all.
        validation: the share of its data that is held back to choose settings by; by default 0.
        weight: its credibility in votes and means; by default 1.
        head: the layer of its network that answers, or a list of layers; by default the last one with parameters.
        unseen: whether it takes no part, and is evaluated at the end as a newcomer; by default false.
        window: which rows it trains on in which round; by default all.
        attack: how it attacks the others, to try a method's defence; by default it does not.
        vary: settings of the model in which those of a kind differ, each a list that is handed out in turn; by default
            none.
    """

    model_config = ConfigDict(title="a participant")

    name: str = Field(min_length=1, description="what the others call it")
    model: ModelNamed = Field(description="one of `potluck models`, or 'package.module:callable'")
    count: Whole = Field(1, ge=1)
    plan: PlanSettings = Field(default_factory=dict)
    tune: PlanChoices = Field(default_factory=dict)
    data: DataNamed | None = None
    test: DataNamed | None = None
    preprocess: PreprocessNamed | None = None
    disclosure: Disclosure = Field(default_factory=Disclosure)
    preload: bool | Literal["auto"] = "auto"
    task: TaskNamed | None = None
    labels: list[Label] | None = Field(None, min_length=1)
    metrics: list[str] | None = Field(None, min_length=1)
    validation: float = Field(0.0, ge=0, lt=1)
    weight: float = Field(1.0, gt=0)
    head: str | list[str] | None = None
    unseen: bool = False
    window: Window | None = None
    attack: AttackNamed = None
    vary: dict[str, list[Any]] = Field(default_factory=dict)

    def names(self) -> list[str]:
        """What its participants are called."""
        return [self.name] if self.count == 1 else [f"{self.name}{number}" for number in range(1, self.count + 1)]

    def model_of(self, number: int) -> Named:
        """What one of them brings, counted from 0: what varies is handed out in turn."""
        varied = {name: values[number % len(values)] for name, values in self.vary.items()}
        return Named(name=self.model.name, settings={**self.model.settings, **varied})

    @model_validator(mode="after")
    def _varied_as_it_can_be(self) -> ParticipantSection:
        for name, values in self.vary.items():
            if not values:
                refuse([(("vary", name), f"{name} = []; expected a list of values, handed out in turn.")])
        for number in range(max(map(len, self.vary.values()), default=0)):
            if wrong := wrong_settings(MODELS.__getitem__, SUPPLIED["model"], self.model_of(number)):
                refuse([(("vary", *place), text) for place, text in wrong])
        return self

    @model_validator(mode="after")
    def _tuned_by_validation(self) -> ParticipantSection:
        if self.tune and not self.validation:
            refuse([(("tune",), "there are no validation data to choose by; expected validation, such as 0.2.")])
        return self


class RaySection(Section):
    """The workers of the engine "ray".

    Args:
        workers: how many; by default one for each GPU or core of the cluster.
        address: of a Ray cluster; by default Ray is started for this run.
        block: how many participants of one architecture a worker takes at a time; by default 8.
        threads: how many threads a worker computes with; by default 1.
    """

    model_config = ConfigDict(title="ray")

    workers: Whole | None = Field(None, ge=1)
    address: str | None = None
    block: Whole = Field(BLOCK, ge=1)
    threads: Whole = Field(1, ge=1)


class Recipe(Section):
    """A federation in settings: what a run file holds.

    Args:
        rounds: how many in all.
        method: what the participants do: a name that ``potluck methods`` lists, or "package.module:name".
        participants: who takes part, each in a table ``[[participants]]``.
        data: where the samples come from, and who holds which; by default digits, split evenly.
        plan: how networks train, unless a participant says otherwise; by default as a ``Plan`` does.
        task: what is learned: a name such as "regression", or a table of it and settings; by default classification.
        metrics: what is measured: scikit-learn's names, or "package.module:function"; the first is the headline. By
            default the task's.
        seed: what every random draw derives from; by default 0.
        engine: who carries the work out: "serial" one by one, "batched" many at once, "auto" (the default) what pays
            for each model, by a fixed rule, "autotune" what the clock finds fastest, "ray" on many machines.
        ray: where and how, for the engine "ray".
        device: a torch device, such as "cpu" or "cuda:1"; by default "auto", a GPU if there is one.
        precision: what networks compute in: "torch" (the default), PyTorch's own choice; "float32"; or "bfloat16" for
            convolutions, products of matrices and attention.
        participation: who takes part in a round: a share (0.5), how many (10), or a function; by default all.
        availability: the probability with which each participant is there in a round, or a table of drop-outs; by
            default nobody is away.
        clock: the devices' speeds, for simulated time; by default none.
        channel: the codecs of what travels; by default none.
        keep_optimizer: whether optimizers remember from one training to the next; by default as the method says.
        max_concurrent: how many participants run together; by default as many as fit into memory.
        storage: where participants are while others run: in "memory" (the default), or on "disk", in a temporary
            folder.
        unseen_epochs: how many epochs participants that are ``unseen`` train before they are evaluated; by default 0.
        checkpoint_every: rounds between checkpoints; by default 1.
        evaluate_every: after how many rounds participants are evaluated, and always after the last; by default 1.
        early_stopping: when the run ends before its last round; by default it does not.
        track: who else keeps what happens, each with its settings, such as ``tensorboard = true``; by default nobody.
        paper: what a paper published, where the file is one of its tables or figures.
    """

    model_config = ConfigDict(title="a run file")
    KIND: ClassVar[FileKind] = "run"
    RENAMED: ClassVar[dict[str, str]] = {"wave": "max_concurrent", "at_rest": "storage"}

    rounds: Whole = Field(ge=0, description="how many in all")
    method: MethodNamed = Field(description="one of `potluck methods`, or 'package.module:name'")
    participants: list[ParticipantSection] = Field(
        min_length=1, description="who takes part, each in a table [[participants]]"
    )
    data: DataSection = DataSection()
    plan: PlanSettings = Field(default_factory=dict)
    task: TaskNamed | None = None
    metrics: list[str] | None = Field(None, min_length=1)
    seed: Whole = 0
    engine: str = "auto"
    ray: RaySection = RaySection()
    device: DeviceName = "auto"
    precision: Precision = "torch"
    participation: ParticipationSetting = 1.0
    availability: Annotated[float, Field(gt=0, le=1)] | Availability | None = None
    clock: VirtualClock | None = None
    channel: ChannelSection = ChannelSection()
    keep_optimizer: bool | None = None
    max_concurrent: Whole | None = Field(None, ge=1)
    storage: Literal["memory", "disk"] = "memory"
    unseen_epochs: Whole = Field(0, ge=0)
    checkpoint_every: Whole = Field(1, ge=1)
    evaluate_every: Whole = Field(1, ge=1)
    early_stopping: EarlyStoppingSection | None = None
    track: TrackSection = Field(default_factory=dict, exclude=True)
    paper: PaperItem | None = Field(None, exclude=True)

    _origin: Origin = PrivateAttr(default=Origin())

    def model_post_init(self, context: Any, /) -> None:
        """Remembers where the settings come from: the ``context`` of validation."""
        if context is not None:
            self._origin = context

    @property
    def file(self) -> str | None:
        """The file that it stands in, if it stands in one."""
        return None if self._origin.file is None else str(self._origin.file)

    @property
    def source(self) -> Named | None:
        """Where the shared samples come from: by default digits; nowhere, if everyone brings data."""
        shared = any(party.data is None for party in self.participants)
        return self.data.source or (Named(name="digits") if shared else None)

    def build_method(self) -> Method:
        """The method with its settings."""
        method: Method = METHODS[self.method.name](**self.method.settings)
        return method

    def build_plan(self, party: ParticipantSection) -> Plan:
        """A party's plan: what it sets itself, else what the recipe sets for all."""
        return Plan(**{**self.plan, **party.plan})

    def callbacks(self) -> list[Callback]:
        """Who is notified of its run: trackers, and what may end it early."""
        stopping = [] if self.early_stopping is None else [self.early_stopping.build()]
        return [*stopping, *trackers_of(self.track)]

    def task_of(self, party: ParticipantSection) -> dict[str, Any] | None:
        """What a party learns: what it says itself, else what the recipe says for all; None for classification."""
        named = party.task or self.task
        return None if named is None else {"name": named.name, **named.settings}

    def build_plans(self, party: ParticipantSection) -> list[Plan]:
        """The plans a party chooses from by validation; its plan alone, if there is nothing to tune."""
        return grid(self.build_plan(party), **party.tune)

    def builder(self) -> FederationBuilder:
        """The data loaded and divided: what makes federations, as many as asked."""
        from potluck.recipes.builder import FederationBuilder

        return FederationBuilder(self)

    def federation(self, method: Method | None = None, engine: str | None = None) -> Federation:
        """The federation, ready to run; with another method or engine if one is given."""
        return self.builder().federation(method or self.build_method(), engine or self.engine)

    def build_engine(self, name: str) -> str | Engine:
        """The engine of that name, with the settings that the run file has for it."""
        if name != "ray":
            return name
        return Ray(pick_device(self.device), self.precision, **self.ray.model_dump())

    @contextmanager
    def at(self, *place: str | int) -> Iterator[None]:
        """Tells what goes wrong inside with the place of the setting it comes from."""
        try:
            yield
        except PotluckError as error:
            raise type(error)(f"{self._origin.tell(place)}: {error}") from error

    @field_validator("engine")
    @classmethod
    def _engine_exists(cls, engine: str) -> str:
        if engine == "dry-run":
            raise ValueError("the engine 'dry-run' trains nothing; it is for `potluck check`.")
        make_engine(engine, "cpu")
        return engine

    @field_validator("participants")
    @classmethod
    def _names_differ(cls, participants: list[ParticipantSection]) -> list[ParticipantSection]:
        seen: set[str] = set()
        for position, party in enumerate(participants):
            doubled = sorted(seen.intersection(party.names()))
            if doubled:
                refuse([((position, "name"), f"two participants are named {doubled[0]!r}; names must differ.")])
            seen.update(party.names())
        return participants

    @model_validator(mode="after")
    def _public_from_somewhere(self) -> Recipe:
        public = self.data.public
        if self.source is None and public is not None and public.source is None:
            refuse([(("data", "public"), "there is no data.source to take public data from.")])
        return self

    @model_validator(mode="after")
    def _exchanges_exist(self) -> Recipe:
        wrong = self.channel.misnamed(self.method.name, METHODS[self.method.name].exchanges())
        if wrong:
            refuse([(("channel", *place), text) for place, text in wrong])
        return self

    @model_validator(mode="after")
    def _plans_fit_together(self) -> Recipe:
        for position, party in enumerate(self.participants):
            wrong = wrong_in(Plan, {**self.plan, **party.plan})
            if wrong:
                place = ("participants", position, "plan") if party.plan else ("plan",)
                refuse([(place, text) for _, text in wrong])
            impossible = wrong_in(self.build_plans, {"party": party})
            if impossible:
                refuse([(("participants", position, "tune"), text) for _, text in impossible])
        return self
