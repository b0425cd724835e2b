"""``potluck new``: a commented run file with a Python file beside it, or the file of a server or of a site."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
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


FOR_KINDS = {
    "a run file": {"--task", "--method"},
    "--server": {"--method", "--participant", "--public", "--target", "--no-tls"},
    "--site": {"--model", "--data", "--test", "--target", "--no-tls"},
}
"""The options that each kind of file has a use for."""


def new(
    folder: Annotated[Path, typer.Argument(help="Where the files go.")] = Path(),
    task: Annotated[
        str | None,
        typer.Option(help=f"What is learned: {', '.join(TEMPLATES)}.", show_default="classification"),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="A method, one of `potluck methods`: a federation that fits it, with its settings."),
    ] = None,
    server: Annotated[bool, typer.Option("--server", help="Write the file of a real federation's server.")] = False,
    site: Annotated[
        str | None, typer.Option(metavar="NAME", help="Write the file of the site of that name.", show_default=False)
    ] = None,
    participant: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="With --server: a site that may take part. Repeatable."),
    ] = None,
    public: Annotated[str | None, typer.Option(metavar="FILE", help="With --server: data that all may see.")] = None,
    model: Annotated[str | None, typer.Option(help="With --site: its model.", show_default="mlp")] = None,
    data: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --site: its data.", show_default="NAME.csv")
    ] = None,
    test: Annotated[str | None, typer.Option(metavar="FILE", help="With --site: its test data.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of labels in these tables.", show_default="label")
    ] = None,
    tls: Annotated[
        bool, typer.Option("--tls/--no-tls", help="With --server or --site: whether there are certificates and keys.")
    ] = True,
) -> None:
    """Write a commented run file, and a Python file for your own model and data.

    federation.toml and mine.py go to FOLDER, by default the working directory.
    For a real federation, --server writes server.toml, for `potluck serve`, and
    --site NAME writes site-NAME.toml, for `potluck join`. Nothing is overwritten.
    """
    options: dict[str, object] = {"--task": task, "--method": method, "--participant": participant, "--public": public}
    options |= {"--model": model, "--data": data, "--test": test, "--target": target, "--no-tls": not tls or None}
    if server and site is not None:
        raise SettingsError("--server and --site; expected one of them, since the files are for different machines.")
    kind = "--server" if server else "a run file" if site is None else "--site"
    foreign = [name for name, value in options.items() if value is not None and name not in FOR_KINDS[kind]]
    if foreign:
        fits = " or ".join(kind for kind, names in FOR_KINDS.items() if foreign[0] in names)
        raise SettingsError(
            f"{foreign[0]} is for {fits}; this is {'' if site is None and not server else 'for '}{kind}."
        )
    if server:
        from potluck.cli.site_files import SERVER, server_text

        names = participant or ["hospital", "clinic"]
        _write(folder, {SERVER: server_text(method or "FedAvg", names, tls, public, target or "label")})
        typer.echo(f"  potluck serve {shlex.quote(str(folder / SERVER))}")
    elif site is not None:
        from potluck.cli.site_files import site_file, site_text

        name = site_file(site)
        _write(folder, {name: site_text(site, model or "mlp", data, test, target or "label", tls)})
        typer.echo(f"  potluck join {shlex.quote(str(folder / name))} --server HOST:PORT --check")
    else:
        _write(folder, _run_file(task, method))
        file = shlex.quote(str(folder / FILES[0]))
        typer.echo(f"  potluck check {file}\n  potluck run {file}")


def _run_file(task: str | None, method: str | None) -> dict[str, str]:
    """The texts of a run file and of the Python file beside it, by name."""
    if task is not None and task not in TEMPLATES:
        raise SettingsError(f"--task {task!r}.{nearest(task, TEMPLATES)}")
    if method is not None and task not in (None, "classification"):
        raise SettingsError(f"--method and --task {task}; expected one of them: with --method digits are classified.")
    made, written = TEMPLATES[task or "classification"], {}
    for name, template in zip(FILES, made.templates, strict=True):
        text = (files("potluck.cli") / "templates" / f"{template}.txt").read_text(encoding="utf-8")
        for gap, filling in made.gaps.items():
            text = text.replace(gap, filling)
        written[name] = text
    if method is not None:
        from potluck.recipes.fitting import fitting_file

        written[FILES[0]] = fitting_file(method)
    return written


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    """Writes these files, none of which may be there, and says so."""
    taken = [folder / name for name in texts if (folder / name).exists()]
    if taken:
        raise SettingsError(f"{taken[0]} is there already and stays as it is; choose another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"Nothing can be written to {folder}: {error.strerror}.") from error
    typer.echo(f"Wrote {' and '.join(str(folder / name) for name in texts)}. Try:")
