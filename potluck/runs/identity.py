"""What a federation is: in words for people, and in checksums so that no other one takes up its checkpoint."""

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

from potluck.runs.checkpoint import Fingerprint
from potluck.samples import Samples

if TYPE_CHECKING:
    from potluck.federation import Federation
    from potluck.method import Method
    from potluck.participant import Participant

LIBRARIES = ("potluck-fl", "torch", "numpy", "scikit-learn", "safetensors", "skops")


def settings_of(federation: Federation) -> dict[str, Any]:
    """The settings as run."""
    return {
        "method": {"name": type(federation.method).__name__, **federation.method.model_dump(mode="json", fallback=str)},
        "seed": federation.seed,
        "engine": type(federation.engine).__name__.lower(),
        "device": str(federation.engine.device),
        "precision": federation.engine.precision,
        "participation": federation.participation,
        "keep_optimizer": federation.keep_optimizer,
        "public_samples": federation.server.public_size,
        "participants": [_participant(p) for p in federation.participants.values()],
        "recipe": federation.made_from,
        "versions": {name: _version(name) for name in LIBRARIES},
        "python": sys.version.split()[0],
        "platform": platform.platform(),
    }


def fingerprint(federation: Federation) -> Fingerprint:
    """Everything that decides a result, in checksums. The engine is not in it: engines agree."""
    settings = settings_of(federation)
    names = ("method", "seed", "precision", "participation", "keep_optimizer", "participants")
    found = {name: _text(json.dumps(settings[name], sort_keys=True, default=str)) for name in names}
    found["participants' data"] = _samples(p.data for p in federation.participants.values() if p.here)
    found["test data"] = _samples(test for _, test in federation._tests.values() if test is not None)
    found["public data"] = _samples([federation.server.public] if federation.server.public else [])
    return found


def participant_fingerprint(participant: Participant, method: Method, keep_optimizer: bool) -> Fingerprint:
    """What decides one participant's part in a result, in checksums."""
    settings = {
        "method": [type(method).__name__, method.model_dump(mode="json", fallback=str), keep_optimizer],
        "seed": participant.seed,
        "participant": _participant(participant),
    }
    found = {name: _text(json.dumps(value, sort_keys=True, default=str)) for name, value in settings.items()}
    return {**found, "data": _samples([participant.data])}


def _participant(participant: Participant) -> dict[str, Any]:
    if not participant.here:
        return {"name": participant.name, "weight": participant.weight}
    model = participant.model
    return {
        "name": participant.name,
        "model": f"{type(model).__module__}.{type(model).__qualname__}",
        "parameters": _shapes(participant) if participant.learner.shows_layers else _settings(model),
        "plan": participant.plan.model_dump(mode="json", fallback=_name),
        "labels": list(participant.labels),
        "samples": len(participant.data),
        "weight": participant.weight,
    }


def _shapes(participant: Participant) -> str:
    """A checksum of names and shapes: long for people, but what must be the same."""
    shapes = {name: list(entry.shape) for name, entry in participant.model.state_dict().items()}
    return _text(json.dumps(shapes))


def _settings(estimator: Any) -> str:
    """An estimator's settings, where it tells them."""
    return str(estimator.get_params()) if hasattr(estimator, "get_params") else ""


def _name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', type(thing).__qualname__)}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _samples(parts: Iterable[Samples]) -> str:
    """A checksum of all of them. What many share is read once, and what nobody holds any more is let go."""
    whole = hashlib.sha256()
    known: WeakKeyDictionary[Samples, bytes] = WeakKeyDictionary()
    for part in parts:
        if part not in known:
            digest = hashlib.sha256()
            for name, column in sorted(part.columns.items()):
                digest.update(f"{name} {tuple(column.shape)} {column.dtype}".encode())
                digest.update(column.contiguous().view(torch.uint8).numpy().data)
            known[part] = digest.digest()
        whole.update(known[part])
    return whole.hexdigest()


def _text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
