"""What a federation is: as settings for people, and in checksums, so that its checkpoint fits no other one."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch

from potluck.channel.channel import Channel
from potluck.core.samples import Samples
from potluck.core.settings import Settings
from potluck.core.stable_names import readable_name, stable_name
from potluck.federation.method import Method
from potluck.federation.participant import Participant
from potluck.federation.participation import Participation
from potluck.learners.network import Network
from potluck.runs.checkpoint import CheckpointError, Fingerprint
from potluck.runs.provenance import commit

if TYPE_CHECKING:
    from potluck.federation.federation import Federation

LIBRARIES = ("potluck-fl", "torch", "numpy", "scikit-learn", "safetensors", "skops")


def settings_as_run(federation: Federation) -> dict[str, Any]:
    """The settings as run."""
    return {
        "method": {"name": type(federation.method).__name__, **_plain(federation.method)},
        "seed": federation.seed,
        "engine": type(federation.engine).__name__.lower(),
        "device": str(federation.engine.device),
        "precision": federation.engine.precision,
        "decisions": federation.engine.decisions(),
        "participation": _participation(federation.participation),
        **{name: _plain(part) for name, part in _simulation(federation).items()},
        **_codecs(federation.channel),
        "keep_optimizer": federation.keep_optimizer,
        **({"evaluate_every": federation.evaluate_every} if federation.evaluate_every > 1 else {}),
        "public_samples": federation.server.public_size,
        "participants": [_participant(p) for p in federation.participants.values()],
        "recipe": federation.made_from,
        "versions": {name: _version(name) for name in LIBRARIES},
        "commit": commit(),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
    }


def fingerprint(federation: Federation) -> Fingerprint:
    """Everything that decides a result, in checksums. The engine is not in it: engines agree."""
    settings = settings_as_run(federation)
    names = ["method", "seed", "precision", "participation", "keep_optimizer", "participants", *_simulation(federation)]
    names += [*_codecs(federation.channel), *(name for name in ("evaluate_every",) if name in settings)]
    found = {name: _text(json.dumps(settings[name], sort_keys=True, default=str)) for name in names}
    found["participants' data"] = _samples(p.data for p in federation.participants.values() if p.is_local)
    found["test data"] = _samples(
        test for p in federation.participants.values() if (test := federation.test_of(p)) is not None
    )
    if federation.method.server_reports and federation.server_test is not None:
        found["the server's test data"] = _samples([federation.server_test])
    found["public data"] = _samples([federation.server.public] if federation.server.public else [])
    return found


def participant_fingerprint(
    participant: Participant, method: Method, keep_optimizer: bool, channel: Channel
) -> Fingerprint:
    """Everything that decides one participant's part in a result, in checksums. What is of its data is in "data"."""
    settings = {
        "method": [type(method).__name__, _plain(method), keep_optimizer],
        "seed": participant.seed,
        "participant": {name: value for name, value in _participant(participant).items() if name != "samples"},
        **_codecs(channel),
    }
    found = {name: _text(json.dumps(value, sort_keys=True, default=str)) for name, value in settings.items()}
    return {**found, "data": _samples([participant.thing("data")])}


def check_resumable(
    participants: Iterable[Participant],
    method: Method,
    keep_optimizer: bool,
    channel: Channel,
    participation: Participation = 1.0,
) -> None:
    """Raises CheckpointError where a resumed run could not tell whether a setting is still the same.

    That is so for the method's and the codecs' settings, for a function that chooses who takes part, and for optimizers
    that remember: their state is stored under their name.
    """
    found = [(f"{type(method).__name__} is set with", thing) for thing in _nameless(method)]
    found += [
        (f"{type(codec).__name__} is set with", thing) for codec in channel.all_codecs() for thing in _nameless(codec)
    ]
    if not stable_name(participation):
        found.append(("participation is", participation))
    if keep_optimizer:
        networks = [p for p in participants if p.is_local and p.learner.shows_layers]
        found += [(f"{p.name} trains with", p.plan.optimizer) for p in networks if not stable_name(p.plan.optimizer)]
    if found:
        what = "; ".join(f"{how} {readable_name(thing)}" for how, thing in found)
        raise CheckpointError(
            f"The run cannot be resumed: {what}, which has no name that a later process knows it by. Expected no "
            f"lambda, and no function made inside another one; define it at the top level of a module."
        )


def _nameless(settings: Settings) -> list[Any]:
    """The values in settings that have no name in another process."""
    found: list[Any] = []

    def note(thing: Any) -> str:
        if stable_name(thing) is None:
            found.append(thing)
        return ""

    settings.model_dump(mode="json", fallback=note)
    return found


def _participant(participant: Participant) -> dict[str, Any]:
    if not participant.is_local:
        return {"name": participant.name, "weight": participant.weight}
    learner, model = participant.learner, participant.model
    return {
        "name": participant.name,
        "model": f"{type(model).__module__}.{type(model).__qualname__}",
        "architecture": learner.architecture.digest if isinstance(learner, Network) else _settings(model),
        "plan": _plain(participant.plan),
        **participant.task.described(),
        "samples": len(participant.thing("data")),
        **({"preprocess": _settings(prepared.transformer)} if (prepared := participant.inputs.preprocessing) else {}),
        "weight": participant.weight,
        **({"window": _plain(participant.window)} if participant.window else {}),
        **({"attack": _plain(participant.attack)} if participant.attack else {}),
        **({"models": _declared(participant)} if participant.specs else {}),
    }


def _declared(participant: Participant) -> dict[str, Any]:
    """The models that the method declares."""
    return {
        name: {
            "architecture": participant.models[name].architecture.digest,
            "plan": None if spec.plan is None else _plain(spec.plan),
            "keep_optimizer": spec.keep_optimizer,
        }
        for name, spec in participant.specs.items()
    }


def _participation(participation: Participation) -> float | int | str:
    return readable_name(participation) if callable(participation) else participation


def _simulation(federation: Federation) -> dict[str, Settings]:
    """What is simulated besides training, where a user asked for it."""
    parts = {"availability": federation.availability, "clock": federation.clock}
    return {name: part for name, part in parts.items() if part is not None}


def _codecs(channel: Channel) -> dict[str, Any]:
    """The channel's codecs, where there are any."""
    return {"channel": channel.settings()} if channel.has_codecs else {}


def _settings(estimator: Any) -> str:
    """An estimator's settings, if it has ``get_params``."""
    settings = estimator.get_params() if hasattr(estimator, "get_params") else {}
    return str({name: readable_name(value) for name, value in settings.items()})


def _plain(settings: Settings) -> dict[str, Any]:
    return settings.model_dump(mode="json", fallback=readable_name)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _samples(parts: Iterable[Samples]) -> str:
    """A checksum of all of them. Samples that many share are read once."""
    whole = hashlib.sha256()
    known: WeakKeyDictionary[Samples, bytes] = WeakKeyDictionary()
    for part in parts:
        if part not in known:
            digest = hashlib.sha256()
            for name, column in sorted(part.columns.items()):
                digest.update(f"{name} {tuple(column.shape)} {column.dtype}".encode())
                digest.update(column.contiguous().view(torch.uint8).numpy().data)
            if part.source is not None:
                digest.update(part.source.digest())
            known[part] = digest.digest()
        whole.update(known[part])
    return whole.hexdigest()


def _text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
