"""``potluck new``: a run file and a module that work as they are."""

from __future__ import annotations

import json
import tomllib

import pytest

from potluck.cli.new import TEMPLATES
from tests.cli.commands import potluck


def test_what_is_written_can_be_checked_and_run(here):
    said = potluck("new", "my table").stdout
    assert "potluck check 'my table/federation.toml'" in said
    assert "CoFED*" in potluck("check", "my table/federation.toml").stdout.split("What does not fit")[0]
    potluck("run", "my table/federation.toml", "--out", "together")
    potluck("run", "my table/federation.toml", "--out", "alone", "--set", "method=Local")
    together, alone = (json.loads((here / name / "summary.json").read_text()) for name in ("together", "alone"))
    assert together["accuracy"] > alone["accuracy"] + 0.05


def test_ones_own_data_can_be_used(here):
    potluck("new")
    quick = ("--set", "plan.epochs=1", "--set", "method.update_epochs=1")
    potluck("run", "federation.toml", "--set", "participants.lab.data=mine:load", *quick)
    settings = json.loads((here / "runs/federation-0/settings.json").read_text())
    assert {who["name"]: who["samples"] for who in settings["participants"]}["lab"] == 60


def test_every_line_is_commented_or_valid(here):
    potluck("new")
    text = (here / "federation.toml").read_text()
    assert tomllib.loads(text)["method"]["name"] == "CoFED"
    assert text.count("#") > 15
    assert max(len(line) for line in text.splitlines()) <= 100


def test_nothing_is_overwritten(here):
    (here / "mine.py").write_text("precious")
    said = potluck("new", fails=2).stderr
    assert said == "Error: mine.py is there already and stays as it is; choose another folder.\n"
    assert (here / "mine.py").read_text() == "precious"
    assert not (here / "federation.toml").exists()


def test_a_folder_that_cannot_be(here):
    (here / "file").write_text("")
    assert "Nothing can be written to file/inside: Not a directory." in potluck("new", "file/inside", fails=2).stderr


@pytest.mark.parametrize(
    ("task", "headline", "least"),
    [("regression", "r2", 0.5), ("multilabel", "average_precision", 0.8), ("per-position", "accuracy", 0.7)],
)
def test_for_a_task_a_model_and_data_are_written_that_work(here, task, headline, least):
    potluck("new", "--task", task)
    potluck("run", "federation.toml", "--out", "run")
    summary = json.loads((here / "run/summary.json").read_text())
    assert summary["headline"] == headline
    assert summary[headline] > least


def test_data_of_the_next_token_are_the_tokens_alone(here):
    potluck("new", "--task", "next-token")
    potluck("run", "federation.toml", "--out", "run", "--set", "rounds=2", "--set", "metrics=['accuracy']")
    assert json.loads((here / "run/summary.json").read_text())["accuracy"] > 0.5


def test_a_task_that_nobody_knows(here):
    assert "Did you mean 'regression'" in potluck("new", "--task", "regresion", fails=2).stderr
    assert not (here / "mine.py").exists()


@pytest.mark.parametrize("task", list(TEMPLATES))
def test_what_is_written_is_readable(here, task):
    potluck("new", "--task", task)
    text = (here / "federation.toml").read_text()
    assert tomllib.loads(text)["seed"] == 0
    assert max(len(line) for line in text.splitlines()) <= 100


@pytest.mark.parametrize("method", ["fedproto", "CoFED", "HetLoRA"])
def test_for_a_method_a_federation_is_written_that_fits_it(here, method):
    potluck("new", "--method", method)
    text = (here / "federation.toml").read_text()
    name = tomllib.loads(text)["method"]["name"]
    assert name.lower() == method.lower()
    said = potluck("check", "federation.toml").stdout
    assert f"  {name}* " in said.split("What does not fit")[0]
    potluck("run", "federation.toml", "--out", "run", "--set", "rounds=1")
    assert json.loads((here / "run/summary.json").read_text())["accuracy"] > 0.1


def test_a_method_that_nobody_knows(here):
    assert "Did you mean 'FedProto'" in potluck("new", "--method", "FedProtto", fails=2).stderr
    assert not (here / "federation.toml").exists()


def test_a_method_or_a_task(here):
    said = potluck("new", "--method", "FedAvg", "--task", "regression", fails=2).stderr
    assert "expected one of them" in said


def test_the_files_of_a_real_federation_have_names_of_their_own(here):
    said = potluck("new", "--server", "--participant", "ann", "--participant", "bob", "--method", "FedAvg").stdout
    assert "Wrote server.toml. Try:\n  potluck serve server.toml" in said
    said = potluck("new", "--site", "ann", "--target", "ill").stdout
    assert "potluck join site-ann.toml --server HOST:PORT --check" in said
    assert [each["name"] for each in tomllib.loads((here / "server.toml").read_text())["participants"]] == [
        "ann",
        "bob",
    ]
    assert "is there already" in potluck("new", "--site", "ann", fails=2).stderr
    potluck("new", "--site", "bob", "other", "--no-tls")
    assert [path.name for path in (here / "other").iterdir()] == ["site-bob.toml"]
    potluck("new")


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (("--server", "--site", "ann"), "expected one of them"),
        (("--server", "--model", "mlp"), "--model is for --site; this is for --server"),
        (("--site", "ann", "--task", "regression"), "--task is for a run file; this is for --site"),
        (("--participant", "ann"), "--participant is for --server; this is a run file"),
        (("--no-tls",), "--no-tls is for --server or --site; this is a run file"),
        (("--server", "--method", "FedAgv"), "Did you mean 'FedAvg'"),
        (("--server", "--participant", "../ann"), "A site's name is '../ann'"),
    ],
)
def test_options_of_another_kind_of_file_are_refused(options, wrong, here):
    assert wrong in potluck("new", *options, fails=2).stderr
    assert not list(here.glob("*.toml"))


@pytest.mark.parametrize(
    ("command", "kind", "right"),
    [
        (("serve", "federation.toml"), "a run file", "potluck run federation.toml"),
        (("run", "server.toml"), "a server's file", "potluck serve server.toml"),
        (("check", "site-ann.toml"), "a participant's own file", "potluck join site-ann.toml"),
        (("join", "server.toml", "--check"), "a server's file", "potluck serve server.toml"),
    ],
)
def test_a_file_of_another_kind_is_told_in_a_sentence(command, kind, right, here):
    potluck("new")
    potluck("new", "--server")
    potluck("new", "--site", "ann")
    said = potluck(*command, fails=2).stderr
    assert f"{command[1]} is {kind}" in said
    assert f"it is for `{right}" in said
    assert len(said.splitlines()) == 1
