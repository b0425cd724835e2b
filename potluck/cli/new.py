"""``potluck new``: a commented run file, and a Python file for one's own model and data."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from potluck.core.errors import SettingsError, nearest

FILES = ("federation.toml", "mine.py")


class Texts(NamedTuple):
    """What is written for a task: the templates of the two files, and what fills in the gaps of the first one.

    Args:
        templates: of the run file, and of the Python file beside it.
        gaps: what fills in the gaps of the run file, by name.
    """

    templates: tuple[str, str]
    gaps: dict[str, str]


def _own_data(task: str, what: str, setting: str, metrics: str) -> Texts:
    gaps = {"{what}": what, "{task}": setting, "{metrics}": metrics}
    return Texts(("task.toml", f"{task}.py"), gaps)


TEMPLATES = {
    "classification": Texts(FILES, {}),
    "regression": _own_data(
        "regression",
        "values",
        "# Where networks are averaged, all learn values on one scale: about their mean and their deviation.\n"
        'task = { name = "regression", scale = [20.0, 4.5] }',
        '["mae", "r2"]       # the first is the headline; by default "r2", "mae", "rmse"',
    ),
    "multilabel": _own_data(
        "multilabel",
        "any number of labels",
        'task = { name = "multilabel", labels = ["calm", "old", "sad"] }',
        '["roc_auc"]  # the first is the headline',
    ),
    "per-position": _own_data(
        "per-position",
        "a label for each token",
        'task = { name = "per-position", labels = ["down", "up"], ignore = "-" }',
        '["f1_macro"]        # the first is the headline; by default "accuracy", …',
    ),
    "next-token": _own_data(
        "next-token",
        "the next token",
        'task = { name = "next-token", vocabulary = 20, padding = 0 }',
        '["accuracy"]        # the first is the headline; by default "loss", "accuracy"',
    ),
}


def new(
    folder: Annotated[Path, typer.Argument(help="Where the files go.")] = Path(),
    task: Annotated[str, typer.Option(help=f"What is learned: {', '.join(TEMPLATES)}.")] = "classification",
    method: Annotated[
        str | None,
        typer.Option(help="A method, one of `potluck methods`: a federation that fits it, with its settings."),
    ] = None,
) -> None:
    """Write a commented run file, and a Python file for your own model and data.

    federation.toml and mine.py go to FOLDER, by default the working directory.
    Nothing is overwritten.
    """
    if task not in TEMPLATES:
        raise SettingsError(f"--task {task!r}.{nearest(task, TEMPLATES)}")
    if method is not None and task != "classification":
        raise SettingsError(f"--method and --task {task}; expected one of them: with --method digits are classified.")
    known = None if method is None else _fitting(method)
    taken = [folder / name for name in FILES if (folder / name).exists()]
    if taken:
        raise SettingsError(f"{taken[0]} is there already and stays as it is; choose another folder.")
    texts = TEMPLATES[task]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, template in zip(FILES, texts.templates, strict=True):
            text = (files("potluck.cli") / "templates" / f"{template}.txt").read_text(encoding="utf-8")
            if known is not None and name == FILES[0]:
                text = known
            for gap, filling in texts.gaps.items():
                text = text.replace(gap, filling)
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"Nothing can be written to {folder}: {error.strerror}.") from error
    typer.echo(f"Wrote {' and '.join(str(folder / name) for name in FILES)}. Try:")
    file = shlex.quote(str(folder / FILES[0]))
    typer.echo(f"  potluck check {file}\n  potluck run {file}")


def _fitting(method: str) -> str:
    """The run file for a method; it is known before anything is written whether there is one of that name."""
    from potluck.recipes.fitting import fitting_file

    return fitting_file(method)
