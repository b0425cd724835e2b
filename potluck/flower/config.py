"""What people write: the server's file, and each participant's own. Errors name the line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from potluck import models
from potluck.core.disclosure import Disclosure
from potluck.core.labels import Label
from potluck.core.payload import MAX_BYTES
from potluck.core.plan import Plan
from potluck.core.randomness import derive
from potluck.core.registry import call, import_object
from potluck.core.samples import SharedData
from potluck.data import from_source, load, split_public
from potluck.engines import DeviceName
from potluck.federation.admission import published
from potluck.federation.method import Method
from potluck.federation.participant import Participant
from potluck.federation.participation import HowMany, how_many
from potluck.flower.engine import OnTooFew
from potluck.flower.policy import Policy
from potluck.methods import METHODS
from potluck.recipes.callback_sections import TrackSection
from potluck.recipes.channel_section import ChannelSection
from potluck.recipes.file_kinds import FileKind
from potluck.recipes.recipe import PlanSettings, Whole
from potluck.recipes.references import (
    DataNamed,
    MethodNamed,
    ModelNamed,
    PreprocessNamed,
    SourceNamed,
    TaskNamed,
)
from potluck.recipes.run_file import read_as
from potluck.recipes.validation import Origin, Section, refuse


def _beside(path: str, info: ValidationInfo) -> str:
    """A file named in a file is looked for beside it."""
    origin: Origin = info.context or Origin()
    return str(origin.folder / Path(path).expanduser())


def _existing(path: str, info: ValidationInfo) -> str:
    found = _beside(path, info)
    if not Path(found).is_file():
        raise ValueError(f"there is no file {found!r}; `potluck keys init` makes certificates and keys for a trial.")
    return found


FilePath = Annotated[str, AfterValidator(_existing)]
FolderPath = Annotated[str, AfterValidator(_beside)]


class PublicEntry(Section):
    """Where the public data are from. Both sides load them by themselves, or the server sends them.

    Args:
        source: one of `potluck data`, an .npz file, or "package.module:function".
        labelled: whether labels go with the inputs; by default not.
        count: how many samples are drawn; by default all.
        sha256: the checksum that they must have; by default it is not checked here.
    """

    model_config = ConfigDict(title="public")

    source: SourceNamed = Field(description="one of `potluck data`, an .npz file, or 'package.module:function'")
    labelled: bool = False
    count: Whole | None = Field(None, ge=1)
    sha256: str | None = Field(None, pattern="^[0-9a-f]{64}$")

    def load(self, seed: int) -> SharedData:
        """The public data: the source's training rows, or some of them."""
        source = load(self.source.name, **self.source.settings)
        drawn = derive(seed, "public data")
        if not self.labelled:
            return _checked(from_source(source, self.count, drawn))
        some = source if self.count is None else split_public(source.x, source.y, self.count, drawn)
        return _checked((some.x, some.y))


class ServerTest(Section):
    """Where the server's own test data are from. They stay at the server.

    Args:
        source: one of `potluck data`, an .npz file, or "package.module:function"; its test rows are taken.
    """

    model_config = ConfigDict(title="test")

    source: SourceNamed = Field(description="one of `potluck data`, an .npz file, or 'package.module:function'")

    def load(self) -> tuple[Any, Any]:
        """Inputs and labels."""
        source = load(self.source.name, **self.source.settings)
        return source.x_test, source.y_test


def _checked(data: Any) -> SharedData:
    public = published(data)
    assert public is not None
    return public


class ParticipantEntry(Section):
    """Who may take part.

    Args:
        name: what the others call it.
        weight: its credibility; by default 1.
        key: a file with the public half of its key; needed with TLS.
    """

    model_config = ConfigDict(title="a participant")

    name: str = Field(min_length=1, max_length=200, description="what the others call it")
    weight: float = Field(1.0, gt=0)
    key: FilePath | None = None


class Tls(Section):
    """What the server proves who it is with.

    Args:
        certificate: the server's certificate, for the host names that participants use.
        key: its private key.
        authority: the certificate of the authority that signed it.
    """

    model_config = ConfigDict(title="tls")

    certificate: FilePath = Field(description="the server's certificate, for the host names participants use")
    key: FilePath = Field(description="its private key")
    authority: FilePath = Field(description="the certificate of the authority that signed it")


class FederationFile(Section):
    """The server's file.

    Args:
        rounds: how many in all.
        method: the method, with its settings.
        participants: who may take part.
        public: the public data; by default none.
        test: what models of the server's that the method reports are evaluated on; by default they are not.
        seed: what every random draw derives from; by default 0.
        device: what the server's own networks compute on; by default "auto".
        participation: the share of participants that take part in a round (up to 1.0, the default), or how many.
        keep_optimizer: whether optimizers remember across trainings; by default as the method says.
        channel: the codecs of what travels; by default none.
        labels: the labels that all must have, in order; by default those of most participants, where the method needs
            one label space.
        min_participants: how many must answer in a round; by default 0, for a majority of those who are drawn, at
            least two.
        on_too_few: with fewer, whether the run stops at once ("fail"), or waits for enough and then goes on from the
            last checkpoint ("wait", the default).
        wait_timeout: how many seconds it waits before it stops all the same; by default an hour.
        answer_timeout: seconds an answer may take; by default an hour.
        join_timeout: seconds to wait for all participants at first; then the minimum is enough. By default an hour.
        max_payload_bytes: how many bytes a payload may have; by default 2 GiB.
        max_messages: how many messages one participant may be sent in a phase; by default 1000.
        host: the address that participants connect to; by default 127.0.0.1.
        port: its port; by default 8443.
        tls: certificates; by default none.
        track: what else records the run, at the server: a table of trackers, such as ``csv = true``; by default
            nothing.
    """

    model_config = ConfigDict(title="a server's file")
    KIND: ClassVar[FileKind] = "server"
    RENAMED: ClassVar[dict[str, str]] = {
        "minimum": "min_participants",
        "below_minimum": "on_too_few",
        "deadline": "answer_timeout",
        "wait": "join_timeout",
        "limit": "max_payload_bytes",
        "messages": "max_messages",
    }

    rounds: Whole = Field(ge=0, description="how many in all")
    method: MethodNamed = Field(description="one of `potluck methods`, or 'package.module:name'")
    participants: list[ParticipantEntry] = Field(
        min_length=1, description="who may take part, each in a table [[participants]]"
    )
    public: PublicEntry | None = None
    test: ServerTest | None = None
    seed: Whole = 0
    device: DeviceName = "auto"
    participation: HowMany = 1.0
    keep_optimizer: bool | None = None
    channel: ChannelSection = ChannelSection()
    labels: list[Label] | None = Field(None, min_length=1)
    min_participants: Whole = Field(0, ge=0)
    on_too_few: OnTooFew = "wait"
    wait_timeout: float = Field(3600.0, gt=0)
    answer_timeout: float = Field(3600.0, gt=0)
    join_timeout: float = Field(3600.0, gt=0)
    max_payload_bytes: Whole = Field(MAX_BYTES, ge=1)
    max_messages: Whole = Field(1000, ge=1)
    host: str = "127.0.0.1"
    port: Whole = Field(8443, ge=1, le=65535)
    tls: Tls | None = None
    track: TrackSection = Field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Who may take part."""
        return [entry.name for entry in self.participants]

    @property
    def required_participants(self) -> int:
        """How many must answer in a round: most of those who are drawn for it, unless the file says otherwise."""
        drawn = how_many(self.participation, len(self.participants))
        return self.min_participants or min(drawn, max(2, drawn // 2 + 1))

    @property
    def keys(self) -> dict[str, bytes] | None:
        """Each participant's public key; None where nodes do not prove who they are."""
        if self.tls is None:
            return None
        from potluck.flower.certificates import public_pem

        return {entry.name: public_pem(entry.key) for entry in self.participants if entry.key is not None}

    def build_method(self) -> Method:
        """The method with its settings."""
        method: Method = METHODS[self.method.name](**self.method.settings)
        return method

    @field_validator("participants")
    @classmethod
    def _participants_differ(cls, participants: list[ParticipantEntry]) -> list[ParticipantEntry]:
        for what in ("name", "key"):
            seen: set[str] = set()
            for position, entry in enumerate(participants):
                value = getattr(entry, what)
                if value is not None and value in seen:
                    refuse([((position, what), f"two participants have the {what} {value!r}; they must differ.")])
                seen.add(value)
        return participants

    @model_validator(mode="after")
    def _fits_together(self) -> FederationFile:
        wrong = self.channel.misnamed(self.method.name, METHODS[self.method.name].exchanges())
        if wrong:
            refuse([(("channel", *place), text) for place, text in wrong])
        minimum, count = self.min_participants, len(self.participants)
        if minimum > count:
            refuse([(("min_participants",), f"min_participants = {minimum}, but only {count} may take part.")])
        for position, entry in enumerate(self.participants):
            if self.tls is not None and entry.key is None:
                refuse([(("participants", position), f"{entry.name} has no key; with [tls] everyone needs one.")])
            if self.tls is None and entry.key is not None:
                refuse([(("participants", position, "key"), "keys need TLS; add a table [tls].")])
        if self.tls is None and self.host not in ("127.0.0.1", "localhost", "::1"):
            refuse([(("host",), f"host = {self.host!r} without [tls] would let anyone listen in and take part.")])
        return self


class ParticipantFile(Section):
    """A participant's own file. Nothing in it leaves the machine but what the method sends.

    Args:
        name: what the server's file calls it.
        model: its model, with settings.
        data: a file (.csv, .parquet, .npz, a folder of images) or a function that returns (x, y), with settings.
        test: the same for test data; by default none.
        preprocess: a common preprocessor's file (.json), or a function that returns a scikit-learn transformer, with
            settings; by default none.
        disclosure: which statistics of its columns may leave in a study of tables; by default ``Disclosure()``.
        plan: how it trains; by default ``Plan()``.
        task: what is learned, such as "regression", with settings; by default classification.
        labels: its label space; by default the labels in its data.
        metrics: what is measured on its test data, by scikit-learn's names or as "package.module:function"; the first
            is the headline. By default the task's.
        validation: the share of its data that settings are chosen by; by default 0.
        head: the name of the network's layer that answers, or several; by default the last one with parameters.
        public: its own copy of the public data; by default the server sends them.
        allow_imports: each "package.module:name" that the server may name; by default none.
        policy: what its owner allows, whatever the server asks for; by default everything that it agrees to.
        state_dir: a folder for what must last; by default "state".
        device: what its network computes on; by default "auto".
        max_payload_bytes: how many bytes a payload of the server's may have; by default 2 GiB.
        server_timeout: how many seconds a server that does not answer is waited for; by default a day.
        root_certificates: the authority that signed the server's certificate; by default no TLS.
        key: its own private key; needed with TLS where the server's file has keys.
    """

    model_config = ConfigDict(title="a participant's own file")
    KIND: ClassVar[FileKind] = "site"
    RENAMED: ClassVar[dict[str, str]] = {
        "allow": "allow_imports",
        "state": "state_dir",
        "limit": "max_payload_bytes",
    }

    name: str = Field(min_length=1, max_length=200, description="what the server's file calls it")
    model: ModelNamed = Field(description="one of `potluck models`, or 'package.module:callable'")
    data: DataNamed = Field(description="a file, or a function that returns (x, y), as 'package.module:function'")
    test: DataNamed | None = None
    preprocess: PreprocessNamed | None = None
    disclosure: Disclosure = Field(default_factory=Disclosure)
    plan: PlanSettings = Field(default_factory=dict)
    task: TaskNamed | None = None
    labels: list[Label] | None = Field(None, min_length=1)
    metrics: list[str] | None = Field(None, min_length=1)
    validation: float = Field(0.0, ge=0, lt=1)
    head: str | list[str] | None = None
    public: PublicEntry | None = None
    allow_imports: list[str] = Field(default_factory=list)
    policy: Policy = Field(default_factory=Policy)
    state_dir: FolderPath = Field("state", validate_default=True)
    device: DeviceName = "auto"
    max_payload_bytes: Whole = Field(MAX_BYTES, ge=1)
    server_timeout: float = Field(86400.0, gt=0)
    root_certificates: FilePath | None = None
    key: FilePath | None = None

    def build(self) -> Participant:
        """The participant, with its data; the model is made when it joins."""
        own = {
            what: None if named is None else call(named.name, import_object(named.name), named.settings)
            for what, named in (("data", self.data), ("test", self.test), ("preprocess", self.preprocess))
        }
        return Participant(
            self.name,
            self._model,
            own["data"],
            plan=Plan(**self.plan),
            test=own["test"],
            task=None if self.task is None else {"name": self.task.name, **self.task.settings},
            labels=self.labels,
            metrics=self.metrics,
            validation=self.validation,
            preprocess=own["preprocess"],
            disclosure=self.disclosure,
            head=self.head,
        )

    def _model(self, input_shape: tuple[int, ...], classes: int) -> Any:
        return models.build(self.model.name, input_shape, classes, **self.model.settings)

    @model_validator(mode="after")
    def _key_needs_tls(self) -> ParticipantFile:
        if self.key is not None and self.root_certificates is None:
            refuse([(("key",), "a key needs TLS; add `root_certificates`, the authority that signed the server's.")])
        return self


def read_federation(path: str | Path, **settings: Any) -> FederationFile:
    """The server's file."""
    return read_as(FederationFile, path, settings={k: v for k, v in settings.items() if v is not None})


def read_participant(path: str | Path, **settings: Any) -> ParticipantFile:
    """A participant's own file."""
    return read_as(ParticipantFile, path, settings={k: v for k, v in settings.items() if v is not None})
