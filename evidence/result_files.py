"""Where results are kept: ``results/<paper>/<item>.jsonl``, one line for each run (``potluck.reproduction``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from potluck.reproduction.recording import file_of as recorded
from potluck.reproduction.result_lines import ResultLine, append, read_lines, withdraw
from potluck.reproduction.rows import read_rows
from potluck.runs.provenance import commit

RESULTS = Path(__file__).parent / "results"

ITEMS: Mapping[str, Mapping[str, str]] = {
    "cofed_adult": {"raw-*": "cofed/figure-9-unscaled", "*": "cofed/figure-9"},
    "cofed_cifar": {"iid-*": "cofed/figure-2-iid", "*": "cofed/figure-2-non-iid"},
    "draftfed_cifar": {
        "narrow-cifar-draftfed-cifar100": "draftfed/figure-8",
        "narrow-cifar-draftfed-svhn": "draftfed/figure-8",
        "narrow-*-logits": "draftfed/table-5-narrow",
        "draftfed-logits": "draftfed/table-5",
        "narrow-cifar-*": "draftfed/table-2-narrow-cifar",
        "narrow-*": "draftfed/table-2-narrow",
        "*": "draftfed/table-2",
    },
    "fedin_cifar": {
        "again-*": "fedin/table-1-again",
        "small-fashion-*": "fedin/table-2b-small-fashion",
        "small-noise-*": "fedin/table-6-small",
        "small-*": "fedin/table-2b-small",
        "half-*": "fedin/table-2b-half",
        "narrow-noise-*": "fedin/table-6-narrow",
        "narrow-long-*": "fedin/figure-9-narrow",
        "narrow-whole-*": "fedin/table-1-narrow",
        "narrow-cifar-*": "fedin/table-2b-narrow-cifar",
        "narrow-partial-*": "fedin/table-2b-narrow-partial",
        "narrow-longer-*": "fedin/table-2b-narrow-longer",
        "narrow-*": "fedin/table-2b-narrow",
        "parameters-*": "fedin/table-1-parameters",
        "*": "fedin/table-1",
    },
    "mhat_mnist": {
        "choice-*": "mhat/figure-3",
        "*-mixed": "mhat/figure-7",
        "*-slow": "mhat/table-1-slow",
        "*-long-*": "mhat/table-1-long",
        "*-20": "mhat/table-1-20",
        "*": "mhat/table-1-3",
    },
    "perhefed_cifar": {
        "narrow-long-*": "perhefed/table-2-narrow-long",
        "narrow-whole-*": "perhefed/table-2-narrow-whole",
        "narrow-cifar-*": "perhefed/table-2-narrow-cifar",
        "narrow-*": "perhefed/table-2-narrow",
        "*": "perhefed/table-2",
    },
    "counts": {name: f"{name}/counts" for name in ("draftfed", "fedin", "perhefed")},
    "tune": {"mhat": "mhat/tuning", "adult": "cofed/tuning"},
    "proximal": {"": "fedin/proximal"},
}
"""Experiment → which of its settings belong to which table or figure; the first pattern that fits counts."""


def file_of(experiment: str, setting: str, folder: Path = RESULTS) -> Path:
    """The file that holds the runs of a setting. Of a recipe's runs it is that which ``potluck reproduce`` adds to."""
    if experiment in read_rows():
        return recorded(experiment, folder)
    patterns = ITEMS.get(experiment, {"*": experiment})  # one that is listed nowhere has a file of its own
    return folder / f"{next(item for pattern, item in patterns.items() if fnmatchcase(setting, pattern))}.jsonl"


def all_lines(folder: Path) -> Iterator[ResultLine]:
    """Every line of a folder that counts."""
    for path in sorted(folder.rglob("*.jsonl")):
        yield from (line for line in read_lines(path) if line.withdrawn is None)


def keep_content(experiment: str, setting: str, content: Any, folder: Path) -> None:
    """Adds what was counted or chosen, and withdraws what it takes the place of."""
    path, source = file_of(experiment, setting, folder), commit()
    before = [line for line in read_lines(path) if line.withdrawn is None]
    line = ResultLine(
        run=f"{experiment}.{setting}".rstrip("."),
        experiment=experiment,
        setting=setting,
        done=True,
        commit=source and source.rstrip("+"),
        dirty=source and source.endswith("+"),
        content=content,
    )
    kept = append(path, line)
    for other in before:
        if other.name == line.name:
            withdraw(path, other.run, f"found again as {kept.run}")
