"""Keeping estimators on disk without pickle: through skops, or through a save and load of their own.

An estimator with ``save(path)`` and ``load(path)`` is asked to use them. All others go through skops, which builds only
the types it is allowed to: those it knows as safe, and those found in the owner's own estimator.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from potluck.core.errors import ModelError


def dump_estimator(model: Any) -> Tensor:
    """An estimator as bytes, in a tensor."""
    if _keeps_itself(model):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            model.save(str(path))
            data = path.read_bytes()
    else:
        from skops import io

        data = io.dumps(model)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def load_estimator(stored: Tensor, model: Any, types: list[str]) -> Any:
    """The estimator in these bytes. ``model`` is the one its owner brought, ``types`` what it may consist of."""
    data = stored.numpy().tobytes()
    if _keeps_itself(model):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model"
            path.write_bytes(data)
            model.load(str(path))
        return model
    from skops import io

    strange = sorted(set(io.get_untrusted_types(data=data)) - set(types))
    if strange:
        raise ModelError(f"The kept {type(model).__name__} holds types it should not consist of: {strange}.")
    return io.loads(data, trusted=types)


def try_out(model: Any, fit: Callable[[Any], None], answer: Callable[[Any], Any], owner: str) -> list[str]:
    """Fits a copy, keeps it, reads it back, and returns the types it consists of.

    Raises ModelError where that fails, so that nobody finds out at the end of a long run.

    Args:
        model: what is to be kept.
        fit: fits a copy on a few samples.
        answer: what a fitted copy answers to them, which must be the same when it is read back.
        owner: whose it is.
    """
    kind = type(model).__name__
    try:
        trial = copy.deepcopy(model)
        fit(trial)
    except Exception as error:
        why = (
            f"{owner}: {kind} could not be fitted to a few of its samples, to try out whether a run folder can hold it"
        )
        raise ModelError(f"{why}: {error}") from error
    try:
        stored = dump_estimator(trial)
        types = _types(stored, trial)
        answered = answer(trial)
        back = load_estimator(stored, copy.deepcopy(model), types)  # one that was never fitted, as in a later process
        same = answered == answer(back)
    except Exception as error:  # any failure of a stranger's code means the same here
        raise ModelError(_advice(owner, kind, str(error))) from error
    if not same:
        raise ModelError(_advice(owner, kind, "it answers differently when read back"))
    return types


def _types(stored: Tensor, model: Any) -> list[str]:
    if _keeps_itself(model):
        return []
    from skops import io

    return sorted(io.get_untrusted_types(data=stored.numpy().tobytes()))


def _keeps_itself(model: Any) -> bool:
    return callable(getattr(model, "save", None)) and callable(getattr(model, "load", None))


def _advice(owner: str, kind: str, reason: str) -> str:
    return (
        f"{owner}: {kind} cannot be kept in a run folder: {reason}. Give it methods save(path) and load(path), "
        f"or run without a run folder."
    )
