"""What people write: the server's federation file, and each participant's own. Mistakes are told with their lines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from potluck import models
from potluck.core.errors import SettingsError
from potluck.core.labels import Label
from potluck.core.plan import Plan
from potluck.core.randomness import derive
from potluck.core.registry import call, import_object
from potluck.core.samples import SharedData
from potluck.data import from_source, load, split_public
from potluck.engines import DeviceName
from potluck.federation.admission import published
from potluck.federation.method import Method
from potluck.federation.participant import Participant
from potluck.methods import METHODS
from potluck.recipes.recipe import PlanSettings, Whole
from potluck.recipes.references import FunctionNamed, MethodNamed, ModelNamed, SourceNamed
from potluck.recipes.run_file import read_as
from potluck.recipes.validation import Origin, Section, refuse


def _beside(path: str, info: ValidationInfo) -> str:
    """A file named in a file is looked for beside it."""
    origin: Origin = info.context or Origin()
    return str(origin.folder / Path(path).expanduser())


def _existing(path: str, info: ValidationInfo) -> str:
    found = _beside(path, info)
    if not Path(found).is_file():
        raise ValueError(f"there is no file {found!r}; `potluck keys` makes certificates and keys for a trial.")
    return found


FilePath = Annotated[str, AfterValidator(_existing)]
FolderPath = Annotated[str, AfterValidator(_beside)]


class PublicFile(Section):
    """Where the public data are from. Both sides load them by themselves, or the server sends them."""

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


def _checked(data: Any) -> SharedData:
    shown = published(data)
    assert shown is not None
    return shown


class Seat(Section):
    """Who may take part: its name, how much its word counts, and the public half of its key."""

    model_config = ConfigDict(title="a participant")

    name: str = Field(min_length=1, max_length=200, description="what the others call it")
    weight: float = Field(1.0, gt=0)
    key: FilePath | None = None


class Tls(Section):
    """The server's certificate, its key, and the authority that signed it."""

    model_config = ConfigDict(title="tls")

    certificate: FilePath = Field(description="the server's certificate, for the host names participants use")
    key: FilePath = Field(description="its private key")
    authority: FilePath = Field(description="the certificate of the authority that signed it")


class FederationFile(Section):
    """The server's file: the method, who may take part, how long to wait, where to listen."""

    model_config = ConfigDict(title="a federation file")

    rounds: Whole = Field(ge=0, description="how many in all")
    method: MethodNamed = Field(description="one of `potluck methods`, or 'package.module:name'")
    participants: list[Seat] = Field(min_length=1, description="who may take part, each in a table [[participants]]")
    public: PublicFile | None = None
    seed: Whole = 0
    device: DeviceName = "auto"
    participation: float = Field(1.0, gt=0, le=1)
    keep_optimizer: bool | None = None
    minimum: Whole = Field(0, ge=0)
    below_minimum: Literal["fail", "wait"] = "fail"
    deadline: float = Field(3600.0, gt=0)
    wait: float | None = Field(None, gt=0)
    limit: Whole = Field(2**31, ge=1)
    messages: Whole = Field(1000, ge=1)
    host: str = "127.0.0.1"
    port: Whole = Field(8443, ge=1, le=65535)
    tls: Tls | None = None

    @property
    def names(self) -> list[str]:
        """Who may take part."""
        return [seat.name for seat in self.participants]

    @property
    def at_least(self) -> int:
        """How many must answer in a round: all who are drawn for it, unless the file says otherwise."""
        return self.minimum or max(1, round(self.participation * len(self.participants)))

    @property
    def keyed(self) -> bool:
        """Whether nodes prove who they are."""
        return self.tls is not None

    def build_method(self) -> Method:
        """The method with its settings."""
        method: Method = METHODS[self.method.name](**self.method.settings)
        return method

    @field_validator("participants")
    @classmethod
    def _seats_differ(cls, seats: list[Seat]) -> list[Seat]:
        for what in ("name", "key"):
            seen: set[str] = set()
            for position, seat in enumerate(seats):
                value = getattr(seat, what)
                if value is not None and value in seen:
                    refuse([((position, what), f"two participants have the {what} {value!r}; they must differ.")])
                seen.add(value)
        return seats

    @model_validator(mode="after")
    def _fits_together(self) -> FederationFile:
        if self.minimum > len(self.participants):
            refuse([(("minimum",), f"minimum = {self.minimum}, but only {len(self.participants)} may take part.")])
        for position, seat in enumerate(self.participants):
            if self.keyed and seat.key is None:
                refuse([(("participants", position), f"{seat.name} has no key; with [tls] everyone needs one.")])
            if seat.key is not None and not self.keyed:
                refuse([(("participants", position, "key"), "keys need TLS; add a table [tls].")])
        if self.tls is None and self.host not in ("127.0.0.1", "localhost", "::1"):
            refuse([(("host",), f"host = {self.host!r} without [tls] would let anyone listen in and take part.")])
        return self


class ParticipantFile(Section):
    """A participant's own file. Nothing in it leaves the machine but what the method sends."""

    model_config = ConfigDict(title="a participant file")

    name: str = Field(min_length=1, max_length=200, description="what the server's file calls it")
    model: ModelNamed = Field(description="one of `potluck models`, or 'package.module:callable'")
    data: FunctionNamed = Field(description="a function that returns (x, y), as 'package.module:function'")
    test: FunctionNamed | None = None
    plan: PlanSettings = Field(default_factory=dict)
    labels: list[Label] | None = Field(None, min_length=1)
    validation: float = Field(0.0, ge=0, lt=1)
    public: PublicFile | None = None
    allow: list[str] = Field(default_factory=list)
    state: FolderPath = Field("state", validate_default=True)
    device: DeviceName = "auto"
    limit: Whole = Field(2**31, ge=1)
    root_certificates: FilePath | None = None
    key: FilePath | None = None

    def build(self) -> Participant:
        """The participant, with its data; the model is made when it joins."""
        own = {
            what: None if named is None else call(named.name, import_object(named.name), named.settings)
            for what, named in (("data", self.data), ("test", self.test))
        }
        return Participant(
            self.name,
            self._model,
            own["data"],
            plan=Plan(**self.plan),
            test=own["test"],
            labels=self.labels,
            validation=self.validation,
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


def public_key(path: str) -> bytes:
    """A node's public key, in the form in which Flower tells it."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_ssh_public_key(Path(path).read_bytes())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SettingsError(f"{path} is no public key: {error}. `potluck keys` makes one.") from error
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
