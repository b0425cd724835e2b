"""``potluck export`` and ``potluck predict``: a model leaves a federation, and is used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from potluck.cli.console import messages, waiting
from potluck.cli.logs import logged
from potluck.core.errors import DataError, SettingsError

if TYPE_CHECKING:
    from potluck.export.facts import ModelFacts


def export(
    source: Annotated[
        Path,
        typer.Argument(metavar="RUN|STATE", help="A run folder, or a participant's state folder.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the model goes.", show_default=False)],
    participant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose model; of a run folder with several.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="PARTICIPANT.toml",
            help="Of a state folder: the participant's file, if it is not where it was.",
            show_default=False,
        ),
    ] = None,
    onnx: Annotated[bool, typer.Option("--onnx", help="Write a network as ONNX, too.")] = False,
) -> None:
    """Write a participant's model, as its method answers with it, for use elsewhere.

    A torch program that plain torch loads with its weights beside it, or the
    estimator in a form that its own library reads; with labels, preprocessing,
    metrics on test data, where it is from, and a model card. Nothing is asked of
    a server: at a site it works at once, also while a federation is running.
    """
    from potluck.recipes.finished_run import is_run

    if not source.is_dir():
        raise SettingsError(
            f"There is no folder {str(source)!r}; expected that of a run, or a participant's state folder."
        )
    console = messages()
    with logged(console), waiting("making the participant again, tracing its model", console):
        made = _from_run if is_run(source) else _from_state
        facts = made(source, out, participant, file, onnx)
    typer.echo(f"Wrote {out}: {facts.participant}'s model after round {facts.rounds} of {facts.method}.")
    for name in ("README.md", "potluck.json", *facts.files):
        typer.echo(f"  {name}")
    if facts.test_samples:
        from potluck.core.metrics import readable, title

        shown = [f"{title(name)} {readable(name, value)}" for name, value in facts.metrics.items() if value is not None]
        typer.echo(f"On {facts.test_samples} test samples: {', '.join(shown) or 'nothing to tell'}.")


def _from_run(source: Path, out: Path, participant: str | None, file: Path | None, onnx: bool) -> ModelFacts:
    from potluck.export.save import save_model
    from potluck.recipes.finished_run import participant_of

    if file is not None:
        raise SettingsError("--file is for a participant's state folder; a run folder knows its own file.")
    federation, me = participant_of(source, participant)
    whose = "its own" if me.test is not None else "the federation's, of the labels that it knows"
    test = federation.test_of(me)
    return save_model(me, out, test=test, test_data=whose, onnx=onnx, provenance={"run": source.resolve().name})


def _from_state(source: Path, out: Path, participant: str | None, file: Path | None, onnx: bool) -> ModelFacts:
    from potluck.cli.serve import need_flower

    need_flower()
    from potluck.export.save import save_model
    from potluck.flower.site_state import participant_of

    me, provenance = participant_of(source, participant, file)
    return save_model(me, out, onnx=onnx, provenance=provenance)


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="What `potluck export` wrote.", show_default=False)],
    data: Annotated[Path, typer.Argument(metavar="DATA.csv", help="A .csv or .parquet file.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where it goes.", show_default="DATA-predicted.csv")
    ] = None,
    column: Annotated[str, typer.Option(help="What the new column is called.")] = "prediction",
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add a column for each label, or output, too.")
    ] = False,
    missing: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="A text that stands for a missing value. Repeatable.")
    ] = None,
    trust: Annotated[
        list[str] | None, typer.Option(metavar="TYPE", help="A type that an estimator may consist of. Repeatable.")
    ] = None,
) -> None:
    """Write a table with a column more: what a model predicts for each row.

    DATA.csv has the columns that the model was trained on; others stay, and are
    not looked at. What is there already is not overwritten.
    """
    from potluck.export.loaded import load
    from potluck.ingestion.files import TABLES, read_table

    target = out or Path(f"{data.stem}-predicted{data.suffix}")
    for path in (data, target):
        if path.suffix.lower() not in TABLES:
            raise SettingsError(f"{path} is no table; expected a file that ends with {' or '.join(TABLES)}.")
    if target.exists():
        raise SettingsError(f"{target} is there already and stays as it is; choose another file with --out.")
    found = load(model, trust or ())
    frame = read_table(data, missing=missing or ())[0]
    if column in frame.columns:
        raise SettingsError(f"{data} has a column {column!r} already; choose another name with --column.")
    rows = _rows(frame, found)
    answers = found.predict_proba(rows)
    said = found.said(answers)
    if said.ndim > 1 and len(found.names) != said.shape[1]:
        raise DataError(f"{model} answers with {said.shape[1:]} for each row, which is no column of a table.")
    added: dict[str, Any] = {column: said} if said.ndim == 1 else {}
    if said.ndim > 1:
        added = {f"{column} {name}": said[:, place] for place, name in enumerate(found.names)}
    if probabilities:
        added |= {f"{column} of {name}": answers[:, place] for place, name in enumerate(found.names)}
    made = frame.assign(**added)
    if target.suffix.lower() == ".csv":
        made.to_csv(target, index=False)
    else:
        made.to_parquet(target, index=False)
    typer.echo(f"Wrote {target}: {len(made)} rows with {', '.join(map(repr, added))}.")


def _rows(frame: Any, model: Any) -> Any:
    """The rows of a table as the model reads them: by columns if it knows their names, or all of them in order."""
    if model.facts.columns is not None:
        return frame
    return frame.to_numpy(dtype="float64", na_value=float("nan"))
