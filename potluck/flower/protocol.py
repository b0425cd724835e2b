"""What travels between the server and a participant: a message of a head and a body.

The head holds plain facts and is checked against a schema; the body is a payload as safetensors. Whatever comes from
the other side is read as data, never run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Never, TypeVar

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

import potluck
from potluck.core.errors import PayloadError
from potluck.core.exchange_order import Phase
from potluck.core.harmless import one_line
from potluck.core.inputs import InputKind
from potluck.core.labels import Label, LabelsFact
from potluck.core.payload import MAX_BYTES
from potluck.federation.participant import Participant

PROTOCOL = 6
"""Raised with every change that an older version would misread."""

MAX_HEAD_BYTES = 2**20

MAX_INPUTS = 2**28
"""How many values an input of one sample may have."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it holds characters that cannot be shown")
    return text


ShortText = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
Words = Annotated[str, Field(max_length=200), AfterValidator(_printable)]
Told = Annotated[str, Field(max_length=10_000), AfterValidator(one_line)]
"""What somebody says, on one line and without characters that a terminal would obey."""
ExchangeName = Annotated[str, Field(max_length=200, pattern=r"^[^\W\d]\w*\z")]
Number = Annotated[int, Field(ge=0, le=2**40)]
Seconds = Annotated[float, Field(ge=0, le=1e12)]
MetricValue = Annotated[float, Field(ge=-1e12, le=1e12)]
ScaleFact = Annotated[list[Annotated[list[float], Field(max_length=2**17)]], Field(min_length=2, max_length=2)]
TaskFact = str | int | float | bool | None | LabelsFact | Annotated[list[Label], Field(max_length=0)] | ScaleFact
FoundMetrics = Annotated[dict[ShortText, MetricValue | None], Field(max_length=64)]
FoundScores = Annotated[dict[ShortText, FoundMetrics], Field(max_length=64)]
Note = bool | Annotated[int, Field(ge=-(2**53), le=2**53)] | float | Words | None
Notes = Annotated[dict[ShortText, Note], Field(max_length=64)]


def plain_notes(notes: Mapping[str, Any]) -> dict[str, Any]:
    """Notes as JSON can hold them: a number that is not finite becomes None, as in the history."""
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in notes.items()}
    return {name: None if isinstance(v, float) and not np.isfinite(v) else v for name, v in plain.items()}


@dataclass(frozen=True)
class Message:
    """What is sent in one piece.

    Args:
        head: names and plain values; by default none.
        body: a payload as it travels; by default empty.
    """

    head: dict[str, Any] = field(default_factory=dict)
    body: bytes = b""

    def encoded_head(self) -> bytes:
        """The head as it travels."""
        return json.dumps(self.head, separators=(",", ":"), allow_nan=False).encode()

    @staticmethod
    def decode(head: bytes | str, body: bytes = b"") -> Message:
        """A message from what travelled; refuses a head that is damaged."""
        if len(head) > MAX_HEAD_BYTES:
            raise PayloadError(f"the head of a message has {len(head)} bytes; the limit is {MAX_HEAD_BYTES}")
        try:
            found = json.loads(head, parse_constant=_not_json, parse_float=_finite)
            json.dumps(found, ensure_ascii=False).encode()  # half a character is no text, and could not be written
        except (ValueError, RecursionError) as error:
            raise PayloadError(f"the head of a message is damaged: {error}") from error
        if not isinstance(found, dict):
            raise PayloadError(f"the head of a message is a {type(found).__name__}; expected names and values")
        return Message(found, body)


def _not_json(name: str) -> Never:
    raise ValueError(f"{name} is no number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:50]} is too large a number")
    return number


class Head(BaseModel):
    """The head of a message: just these facts, of these types."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=True)

    def message(self, body: bytes = b"") -> Message:
        """A message with this head."""
        return Message(self.model_dump(mode="json"), body)


class PublicDataInfo(Head):
    """What the public data are.

    Args:
        source: where they come from.
        sha256: the checksum of what they must be, rows in order.
        labelled: whether labels go with the inputs.
        count: how many samples there are.
    """

    source: Told
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    labelled: bool
    count: Number


class Invitation(Head):
    """What a participant must know before it agrees.

    Args:
        protocol: the server's version of this protocol.
        potluck: the server's version of Potluck.
        federation: what the run is known by.
        method: the method's name.
        settings: the method's settings.
        seed: what every random draw derives from.
        keep_optimizer: whether optimizers remember across trainings.
        rounds: how many there will be at most.
        public: the public data; None if there are none.
        channel: the codecs of what travels, as a file names them; None if there are none.
        min_participants: how many must answer, so that anything is merged.
        max_payload_bytes: how many bytes the server takes in an answer.
    """

    kind: Literal["invitation"] = "invitation"
    protocol: int
    potluck: Words
    federation: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    method: Words
    settings: dict[Words, Any]
    seed: int
    keep_optimizer: bool
    rounds: Number
    public: PublicDataInfo | None = None
    channel: dict[str, Any] | None = None
    min_participants: Number = 0
    max_payload_bytes: Number = MAX_BYTES


class Advance(Head):
    """Go on with a phase, from its beginning or with the server's reply to the exchange before, which is the body.

    Args:
        phase: "join" or "round".
        round: which round; 0 in joining.
        step: how many replies came before; 0 is the beginning of the phase.
    """

    kind: Literal["advance"] = "advance"
    phase: Phase
    round: Number
    step: Number


class Evaluate(Head):
    """Say how well inputs are answered after a round; a half that has not ended ends here."""

    kind: Literal["evaluate"] = "evaluate"
    round: Number


class PublicData(Head):
    """The public data, in the body."""

    kind: Literal["public"] = "public"


class Paused(Head):
    """The server stops before the end, and may go on from there later.

    Args:
        reason: why, in words.
    """

    kind: Literal["paused"] = "paused"
    reason: Told


HowEnded = Literal["finished", "stopped", "failed"]


class Finished(Head):
    """The federation has ended: nobody is waited for any more.

    Args:
        rounds: after how many rounds.
        outcome: "finished" after all of them (the default), "stopped" by those who run it, or "failed" at the server.
        reason: why, in words; by default empty.
    """

    kind: Literal["finished"] = "finished"
    rounds: Number
    outcome: HowEnded = "finished"
    reason: Told = ""


class InputFacts(Head):
    """What one input of a sample looks like.

    Args:
        shape: its shape.
        numbers: what it holds: "floats", "integers", "bytes" (which may be scaled), or the words for a table.
    """

    shape: Annotated[list[Annotated[int, Field(ge=0, le=2**28)]], Field(max_length=16)]
    numbers: Words

    @field_validator("shape")
    @classmethod
    def _is_no_larger_than_a_sample_is(cls, shape: list[int]) -> list[int]:
        if math.prod(shape) > MAX_INPUTS:
            raise ValueError(f"{shape} has more than {MAX_INPUTS} values")
        return shape

    @classmethod
    def of(cls, kind: InputKind) -> InputFacts:
        """Those of a sample's input."""
        return cls(shape=list(kind.shape), numbers=kind.numbers)

    def kind(self) -> InputKind:
        """The kind of input that they describe."""
        return InputKind(tuple(self.shape), self.numbers)


class Accepted(Head):
    """The participant agrees, and says what the server must know.

    Args:
        name: the participant's name.
        task: what it learns, by name.
        settings: what else the server must know of the task, such as its labels.
        metrics: the names of what is measured.
        inputs: each input's shape and kind of numbers, by name.
        has_public: whether it needs no copy of the public data.
    """

    kind: Literal["accepted"] = "accepted"
    name: ShortText
    task: ShortText
    settings: Annotated[dict[ShortText, TaskFact], Field(max_length=16)]
    metrics: Annotated[list[ShortText], Field(min_length=1, max_length=64)]
    inputs: Annotated[dict[ShortText, InputFacts], Field(min_length=1, max_length=256)]
    has_public: bool

    @classmethod
    def of(cls, participant: Participant, has_public: bool) -> Accepted:
        """What is said of a participant."""
        return cls(
            name=participant.name,
            task=participant.task.KIND,
            settings=participant.task.shared_settings(),
            metrics=list(participant.task.nothing),
            inputs={name: InputFacts.of(kind) for name, kind in participant.data.kinds.items()},
            has_public=has_public,
        )


class Declined(Head):
    """The participant does not take part, and why."""

    kind: Literal["declined"] = "declined"
    name: ShortText
    reason: Told


class ExchangeReached(Head):
    """The participant's half has come to an exchange; the body is its payload.

    Args:
        name: the participant's name.
        phase, round, step: what it was asked for.
        exchange: the exchange's name.
        seconds: how long it has worked in this phase so far.
    """

    kind: Literal["exchange"] = "exchange"
    name: ShortText
    phase: Phase
    round: Number
    step: Number
    exchange: ExchangeName
    seconds: Seconds


class PhaseEnded(Head):
    """The participant's half has ended.

    Args:
        name: the participant's name.
        phase, round, step: what it was asked for.
        notes: what its half notes in the history.
        metrics: how well it answers now, after a round.
        models: the same for each further model that the method reports; by default none.
        seconds: how long it has worked in this phase.
    """

    kind: Literal["end"] = "end"
    name: ShortText
    phase: Phase
    round: Number
    step: Number
    notes: Notes
    metrics: FoundMetrics
    models: FoundScores = Field(default_factory=dict)
    seconds: Seconds


class Evaluated(Head):
    """How well the participant answers.

    Args:
        name: the participant's name.
        round: the round.
        metrics: its metrics.
        models: the same for each further model that the method reports; by default none.
    """

    kind: Literal["metrics"] = "metrics"
    name: ShortText
    round: Number
    metrics: FoundMetrics
    models: FoundScores = Field(default_factory=dict)


class Acknowledged(Head):
    """Received; there is nothing to say."""

    kind: Literal["acknowledged"] = "acknowledged"
    name: ShortText


class Failed(Head):
    """It went wrong there. Only the kind of error travels: its text may speak of private data."""

    kind: Literal["failed"] = "failed"
    name: ShortText
    error: Words


ServerRequest = Invitation | PublicData | Advance | Evaluate | Paused | Finished
"""What the server asks of a participant."""

Response = Accepted | Declined | ExchangeReached | PhaseEnded | Evaluated | Acknowledged | Failed
"""What a participant answers."""

_REQUEST: TypeAdapter[ServerRequest] = TypeAdapter(Annotated[ServerRequest, Field(discriminator="kind")])
_RESPONSE: TypeAdapter[Response] = TypeAdapter(Annotated[Response, Field(discriminator="kind")])
_Read = TypeVar("_Read", ServerRequest, Response)


def other_protocol(message: Message) -> str | None:
    """What is wrong with an invitation of another version, whatever else stands in it; None for any other message."""
    head = message.head
    if head.get("kind") != "invitation" or head.get("protocol") == PROTOCOL:
        return None
    theirs = f"protocol {head.get('protocol')!r} (potluck {head.get('potluck')!r})"
    return (
        f"the server speaks {one_line(theirs)[:100]}, this machine {PROTOCOL} (potluck {potluck.__version__}); "
        f"install the same version on both sides"
    )


def read_request(message: Message) -> ServerRequest:
    """What the server asks for."""
    return _read(_REQUEST, message)


def read_response(message: Message) -> Response:
    """What a participant answers."""
    return _read(_RESPONSE, message)


def _read(adapter: TypeAdapter[_Read], message: Message) -> _Read:
    try:
        return adapter.validate_python(message.head)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the head"
        raise PayloadError(f"{where} of a message cannot be read: {first['msg'].lower()}") from None
