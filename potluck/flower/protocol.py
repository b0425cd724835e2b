"""Letters: what travels between the server and a participant. A head of plain facts, checked; a body of tensors.

The body is a payload as safetensors. Whatever comes from the other side is read as data, never run.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Never, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from potluck.core.errors import PayloadError
from potluck.core.labels import Label

PROTOCOL = 1
"""Raised with every change that an older version would misread."""

HEAD_LIMIT = 2**20
"""How many bytes a head may have."""

Name = Annotated[str, Field(min_length=1, max_length=200)]
Stage = Literal["join", "round"]
Number = Annotated[int, Field(ge=0, le=2**40)]
Seconds = Annotated[float, Field(ge=0, le=1e12)]
Metric = Annotated[float, Field(ge=-1e300, le=1e300)]
Note = bool | Annotated[int, Field(ge=-(2**53), le=2**53)] | float | Annotated[str, Field(max_length=200)] | None
Notes = Annotated[dict[Name, Note], Field(max_length=64)]


@dataclass(frozen=True)
class Letter:
    """A head and a body."""

    head: dict[str, Any] = field(default_factory=dict)
    body: bytes = b""

    def packed(self) -> bytes:
        """The head as it travels."""
        return json.dumps(self.head, separators=(",", ":"), allow_nan=False).encode()

    @staticmethod
    def unpacked(head: bytes | str, body: bytes = b"") -> Letter:
        """A letter from what travelled; refuses what is no head."""
        if len(head) > HEAD_LIMIT:
            raise PayloadError(f"the head of a letter has {len(head)} bytes; the limit is {HEAD_LIMIT}")
        try:
            found = json.loads(head, parse_constant=_not_json, parse_float=_finite)
            json.dumps(found, ensure_ascii=False).encode()  # half a character is no text, and could not be written
        except (ValueError, RecursionError) as error:
            raise PayloadError(f"the head of a letter is damaged: {error}") from error
        if not isinstance(found, dict):
            raise PayloadError(f"the head of a letter is a {type(found).__name__}; expected names and values")
        return Letter(found, body)


def _not_json(name: str) -> Never:
    raise ValueError(f"{name} is no number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:50]} is too large a number")
    return number


class Head(BaseModel):
    """The head of a letter: just these facts, of these types."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    def letter(self, body: bytes = b"") -> Letter:
        """A letter with this head."""
        return Letter(self.model_dump(mode="json"), body)


class Announcement(Head):
    """The public data in words: where they come from, and the checksum of what they must be, in order."""

    source: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    labelled: bool
    count: Number


class Invitation(Head):
    """What a participant must know before it says yes: the method with its settings, and what all share."""

    kind: Literal["invitation"] = "invitation"
    protocol: int
    potluck: str
    federation: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    method: str
    settings: dict[str, Any]
    seed: int
    keep_optimizer: bool
    rounds: Number
    public: Announcement | None = None


class Work(Head):
    """Go on with a stage: from its beginning (step 0), or with the server's reply to the exchange before."""

    kind: Literal["work"] = "work"
    stage: Stage
    round: Number
    step: Number


class Evaluate(Head):
    """Say how good the model is after a round; a half that has not ended ends here."""

    kind: Literal["evaluate"] = "evaluate"
    round: Number


class PublicData(Head):
    """Here are the public data."""

    kind: Literal["public"] = "public"


class Farewell(Head):
    """The federation has ended."""

    kind: Literal["farewell"] = "farewell"
    rounds: Number


class Accepted(Head):
    """Yes; and what the server must know: labels, the kind of inputs, whether it has the public data."""

    kind: Literal["accepted"] = "accepted"
    name: Name
    labels: Annotated[list[Label], Field(min_length=1, max_length=2**20)]
    inputs: Annotated[list[Annotated[int, Field(ge=0, le=2**40)]], Field(max_length=16)]
    in_bytes: bool
    has_public: bool


class Declined(Head):
    """No, and why."""

    kind: Literal["declined"] = "declined"
    name: Name
    reason: Annotated[str, Field(max_length=10_000)]


class AtExchange(Head):
    """Has come to an exchange; the body is its payload."""

    kind: Literal["exchange"] = "exchange"
    name: Name
    stage: Stage
    round: Number
    step: Number
    exchange: Name
    seconds: Seconds


class Ended(Head):
    """Its half has ended: what it notes, and how good its model is now."""

    kind: Literal["end"] = "end"
    name: Name
    stage: Stage
    round: Number
    step: Number
    notes: Notes
    metrics: dict[str, Metric | None]
    seconds: Seconds


class Measured(Head):
    """How good its model is."""

    kind: Literal["metrics"] = "metrics"
    name: Name
    round: Number
    metrics: dict[str, Metric | None]


class Noted(Head):
    """Understood; nothing to say."""

    kind: Literal["noted"] = "noted"
    name: Name


class Failed(Head):
    """It went wrong there. Only the kind of error travels: its text may speak of private data."""

    kind: Literal["failed"] = "failed"
    name: Name
    error: Annotated[str, Field(max_length=200)]


Request = Invitation | PublicData | Work | Evaluate | Farewell
Answer = Accepted | Declined | AtExchange | Ended | Measured | Noted | Failed

_REQUEST: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="kind")])
_ANSWER: TypeAdapter[Answer] = TypeAdapter(Annotated[Answer, Field(discriminator="kind")])
_Read = TypeVar("_Read", Request, Answer)


def read_request(letter: Letter) -> Request:
    """What the server asks for."""
    return _read(_REQUEST, letter)


def read_answer(letter: Letter) -> Answer:
    """What a participant answers."""
    return _read(_ANSWER, letter)


def _read(adapter: TypeAdapter[_Read], letter: Letter) -> _Read:
    try:
        return adapter.validate_python(letter.head)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the head"
        raise PayloadError(f"{where} of a letter cannot be read: {first['msg'].lower()}") from None
