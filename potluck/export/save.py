"""Writes a participant's model to a folder, with all that is needed to use it elsewhere."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from potluck.core.errors import SettingsError
from potluck.core.inputs import flat
from potluck.core.samples import Samples
from potluck.core.stable_names import readable_name
from potluck.engines.base import AnsweringSession
from potluck.export.answering import AnsweringModule, networks_of
from potluck.export.card import model_card
from potluck.export.estimator_file import class_of, write_estimator, write_skops
from potluck.export.facts import ColumnFacts, ModelFacts, ProgramInput, checksum
from potluck.export.program import AnsweringProgram
from potluck.federation.method import Method
from potluck.federation.method_facts import facts_of
from potluck.federation.participant import Participant
from potluck.ingestion.tables import DataFrameTable
from potluck.learners.estimator import Estimator

log = logging.getLogger(__name__)

PROGRAM, WEIGHTS, ONNX, PREPROCESS, CARD = (
    "model.pt2",
    "weights.safetensors",
    "model.onnx",
    "preprocess.skops",
    "README.md",
)
"""The files of an exported model, beside its facts."""
MOST = 64
"""How many inputs a program is tried with, at most."""
LIBRARIES = ("potluck-fl", "torch", "numpy", "scikit-learn", "skops", "xgboost", "xgboost-cpu")
"""Whose versions are recorded."""


def save_model(
    me: Participant,
    folder: Path,
    *,
    test: Samples | None = None,
    test_data: str = "its own",
    onnx: bool = False,
    provenance: Mapping[str, str] | None = None,
) -> ModelFacts:
    """Writes the model of a participant as its method answers with it, whole or not at all; returns what is said of it.

    Args:
        me: the participant, as it is after a run.
        folder: where it goes; it must not be there, or be empty.
        test: what it is measured on, as its model reads it; by default its own test data, if it has some.
        test_data: whose test data they are, in words; by default its own.
        onnx: whether a network is written as ONNX, too; by default False.
        provenance: where it is from, besides what the participant knows; by default nothing more.
    """
    if folder.is_dir() and any(folder.iterdir()):
        raise SettingsError(f"{folder} is not empty and stays as it is; choose another folder.")
    if folder.exists() and not folder.is_dir():
        raise SettingsError(f"{folder} is a file; expected a folder for the model.")
    draft = folder.with_name(f".{folder.name}.unfinished")
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
    except OSError as error:
        raise SettingsError(f"Nothing can be written to {folder}: {error.strerror}.") from error
    try:
        facts = ModelFacts(
            **_written(me, draft, onnx),
            **_measured(me, me.test if test is None else test, test_data),
            **_origin(me),
            provenance=dict(provenance or {}),
            files={path.name: checksum(path) for path in sorted(draft.iterdir())},
        )
        facts.write(draft)
        (draft / CARD).write_text(model_card(facts), encoding="utf-8")
        if folder.exists():
            folder.rmdir()
        draft.rename(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return facts


def _written(me: Participant, folder: Path, onnx: bool) -> dict[str, Any]:
    """Writes model and preprocessing, and says what they are."""
    samples = me.thing("data").inputs()
    some = samples.take(torch.arange(min(MOST, len(samples))))
    networks, learner = networks_of(me, me.answering, some), me.learner
    facts: dict[str, Any] = {"model": class_of(learner.model), "columns": _columns(me), "transform": "nothing"}
    if networks:
        x = _as_stored(some.x, me)
        program = AnsweringProgram(AnsweringModule(me, me.answering, networks, x), x, me.name)
        program.check(x, _answers(me, some))
        _warn_of_data(me, program, x)
        program.write(folder / PROGRAM, folder / WEIGHTS)
        if onnx:
            program.write_onnx(folder / ONNX)
        facts |= {"kind": "torch", "transform": _transform(me), "inputs": _inputs(x)}
    else:
        assert isinstance(learner, Estimator)
        if onnx:
            raise SettingsError(f"{me.name}: {type(learner.model).__name__} is no torch module; ONNX is for those.")
        facts |= {"kind": write_estimator(learner.model, folder, me.name)}
        facts |= {"occurring": learner.occurring, "numbered": learner.numbered}
    if (prepared := me.inputs.preprocessing) is not None:
        write_skops(prepared.transformer, folder / PREPROCESS)
        facts["preprocess"] = class_of(prepared.transformer)
    return facts


def _warn_of_data(me: Participant, program: AnsweringProgram, x: Any) -> None:
    """Warns where a program holds numbers that are neither weights nor the method's state, as many as a sample has."""
    least = min(column[0].numel() for column in flat(x).values())
    known = [leaf for leaf in tree_leaves(me.state) if isinstance(leaf, torch.Tensor)]
    for entry in program.constants:
        same = [other for other in known if other.shape == entry.shape]
        if entry.numel() >= max(least, 2) and not any(torch.equal(other.to(entry.dtype), entry) for other in same):
            log.warning(
                "%s's program holds %s numbers that its method answers with, and that are no weights: see whether they "
                "are data before you give it away.",
                me.name,
                " × ".join(map(str, entry.shape)),
            )


def _as_stored(x: Any, me: Participant) -> Any:
    """Inputs as a program takes them: floats of the network's own type, unless a transform may want another."""
    if me.plan.transform is not None:
        return x
    dtype = me.network.dtype
    return tree_map(lambda part: part.to(dtype) if part.is_floating_point() else part, x)


def _inputs(x: Any) -> dict[str, ProgramInput]:
    return {
        name.removeprefix("x."): ProgramInput(shape=tuple(column.shape[1:]), dtype=str(column.dtype)[len("torch.") :])
        for name, column in flat(x).items()
    }


def _columns(me: Participant) -> tuple[ColumnFacts, ...] | None:
    """The columns of the table that it brought, if it brought one."""
    source = me.thing("brought").source
    if not isinstance(source, DataFrameTable):
        return None
    return tuple(
        ColumnFacts(name=str(name), dtype=str(kind), categories=_categories(source.rows[name]))
        for name, kind in zip(source.rows.columns, source.rows.dtypes, strict=True)
    )


def _categories(column: Any) -> tuple[Any, ...] | None:
    if str(column.dtype) == "category":
        return tuple(column.cat.categories.tolist())
    return None


def _transform(me: Participant) -> str:
    """What a program does to inputs before the network reads them."""
    if me.plan.transform is not None:
        return f"the plan's transform, {readable_name(me.plan.transform)}"
    scaled = {"pictures": "bytes of pictures are divided by 255", "bytes": "bytes are divided by 255"}
    return scaled.get(me.plan.scale, "nothing")


def _answers(me: Participant, samples: Samples) -> torch.Tensor:
    found: torch.Tensor = AnsweringSession(me, me.answering, samples).answer_alone(torch.device("cpu"))
    return found


def _measured(me: Participant, test: Samples | None, test_data: str) -> dict[str, Any]:
    """How good it is on test data."""
    if test is None:
        return {}
    metrics, _ = me.task.measure(_answers(me, test.inputs()), test.y)
    return {"metrics": metrics, "test_samples": len(test), "test_data": test_data}


def _origin(me: Participant) -> dict[str, Any]:
    """What the participant knows of where its model is from."""
    method = getattr(me.answering, "__self__", None)
    facts = facts_of(type(method)) if isinstance(method, Method) else None
    return {
        "participant": me.name,
        "task": me.task.KIND,
        "task_settings": me.task.shared_settings(),
        "labels": me.labels,
        "metric_names": tuple(me.task.nothing),
        "training_samples": len(me.thing("data")),
        "plan": me.plan.model_dump(mode="json", fallback=str),
        "method": facts.name if facts else "none",
        "method_settings": method.model_dump(mode="json", fallback=str) if isinstance(method, Method) else {},
        "about_method": facts.sentence if facts else "It was in no federation.",
        "rounds": me.round,
        "seed": me.seed,
        "made": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "versions": {name: found for name in LIBRARIES if (found := _version(name))},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
