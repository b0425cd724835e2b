"""Methods compared on one federation: who competes, what is kept, and the tables made from it."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest
import torch

from evidence.field import __main__ as command
from evidence.field import choice
from evidence.field.line_up import LINE_UPS, WIDTHS
from evidence.field.page import PAGE, filled, table
from evidence.field.results import RESULTS, joined, path_of
from potluck.cli.check import dry_runs, rehearse
from potluck.comparison.cells import plan_cells
from potluck.core.errors import PotluckError
from potluck.methods import METHODS
from potluck.methods.guide import ADVICE, GUIDE
from potluck.recipes import read

ROW = {
    "settings": {},
    "tried": {"plan.lr": "0.1"},
    "chosen": True,
    "seeds": [0, 1],
    "validation": [0.5, 0.5],
    "lost": [],
    "gain": [],
    "bytes": [0, 0],
    "seconds": [10.2, 11.2],
}
CONTENT = {
    "participants": 10,
    "seeds": [0, 1],
    "rounds": 20,
    "commit": "abc",
    "played with": ["torch 2.13.0, Python 3.11.7, Linux"],
    "rows": [
        {**ROW, "method": "Local", "accuracy": [0.5, 0.6]},
        {
            **ROW,
            "method": "FedAvg",
            "settings": {"aggregation": "same-architecture"},
            "accuracy": [0.7, 0.7],
            "gain": [0.2, 0.1],
            "lost": [1, 2],
            "bytes": [1_000_000, 3_000_000],
        },
        {**ROW, "method": "FedAvg", "chosen": False, "accuracy": [0.9, 0.9]},
    ],
}


@pytest.fixture
def images(tmp_path):
    """A file like Fashion-MNIST's, of noise, just large enough."""
    random = np.random.default_rng(0)
    sizes = {"train": 4000, "test": 1100}
    arrays = {f"x_{part}": random.integers(256, size=(n, 28, 28), dtype=np.uint8) for part, n in sizes.items()}
    arrays |= {f"y_{part}": np.arange(n) % 10 for part, n in sizes.items()}
    np.savez(tmp_path / "images.npz", **arrays)
    return tmp_path / "images.npz"


def changes(images):
    return f"data.source.path={json.dumps(str(images))}"


def test_a_table_has_the_chosen_settings_the_best_first():
    assert table(CONTENT).splitlines() == [
        "| method | accuracy % | gain over Local | lost | sent and received | seconds | rate |",
        "|---|---:|---:|---:|---:|---:|---:|",
        "| FedAvg | 70.0 ± 0.0 | +15.0 ± 7.1 | 1.5 of 10 | 2.0 MB | 11 | 0.1 |",
        "| **Local** | 55.0 ± 7.1 | – | – | 0 B | 11 | 0.1 |",
        "",
        "Seeds 0, 1, 20 rounds, commit abc; torch 2.13.0, Python 3.11.7, Linux.",
        "",
        'Settings that are no defaults: FedAvg `aggregation = "same-architecture"`.',
    ]


def seeded(seed, accuracy, validation):
    """Results of one seed: Local and FedAvg, each with two settings."""
    rows = [
        {
            **ROW,
            "method": method,
            "tried": {"plan.lr": rate},
            "chosen": value == max(validation[method]),
            "seeds": [seed],
            "accuracy": [accuracy],
            "validation": [value],
            "gain": [accuracy] if method == "FedAvg" else [],
            "lost": [seed] if method == "FedAvg" else [],
            "bytes": [seed],
            "seconds": [1.0 * seed],
        }
        for method in ("Local", "FedAvg")
        for rate, value in zip(("0.1", "0.2"), validation[method], strict=True)
    ]
    return {**CONTENT, "seeds": [seed], "commit": f"c{seed}", "failed": {}, "rows": rows}


def test_seeds_played_later_join_those_that_are_kept():
    first = seeded(1, 0.5, {"Local": (0.6, 0.5), "FedAvg": (0.6, 0.5)})
    second = seeded(0, 0.7, {"Local": (0.9, 0.8), "FedAvg": (0.4, 0.8)})
    both = joined(first, second)
    assert (both["seeds"], both["commit"]) == ([0, 1], "c1, c0")
    fedavg = [row for row in both["rows"] if row["method"] == "FedAvg"]
    assert [row["validation"] for row in fedavg] == [[0.4, 0.6], [0.8, 0.5]]
    assert [row["chosen"] for row in fedavg] == [False, True], "by the mean over both seeds"
    assert [fedavg[0][name] for name in ("accuracy", "gain", "lost", "bytes")] == [
        [0.7, 0.5],
        [0.7, 0.5],
        [0, 1],
        [0, 1],
    ]
    assert joined(first, seeded(1, 0.9, {"Local": (0.6, 0.5), "FedAvg": (0.6, 0.5)}))["rows"][0]["accuracy"] == [0.9]


def test_seeds_are_not_joined_where_gains_are_against_another_setting():
    first = seeded(1, 0.5, {"Local": (0.6, 0.5), "FedAvg": (0.6, 0.5)})
    with pytest.raises(PotluckError, match=r"another setting of Local is chosen than with \[0\] alone"):
        joined(first, seeded(0, 0.7, {"Local": (0.80, 0.81), "FedAvg": (0.4, 0.8)}))
    with pytest.raises(PotluckError, match="of another federation"):
        joined({**first, "rounds": 5}, seeded(0, 0.7, {"Local": (0.9, 0.8), "FedAvg": (0.4, 0.8)}))


def test_the_page_holds_what_the_results_make():
    text = PAGE.read_text()
    assert filled(text, RESULTS) == text, "run: python -m evidence.field --write"
    assert all(f"<!-- table {name} -->" in text for name in LINE_UPS)


def test_the_page_for_choosing_holds_what_the_results_make():
    text = choice.PAGE.read_text()
    assert choice.filled(text, RESULTS) == text, "run: python -m evidence.field --write"
    marks = {found["what"] for found in choice.MARKED.finditer(text)}
    assert marks == {*GUIDE, "what leaves", "played"} - {"Alone"}
    assert all(f"](methods.md#{name.lower()})" in text.replace("-", "").lower() for name in ADVICE if name != "Local")


def test_methods_stand_by_what_they_gained_and_those_not_played_last():
    """FD gained 1 and 3 points, MHAT none, and CoFED was not played."""
    row = {"lost": [0, 1], "bytes": [1000, 3000]}
    rows = {"MHAT": {**row, "gain": [0.0, 0.0]}, "FD": {**row, "gain": [0.01, 0.03]}}
    lines = choice.table(["CoFED", "MHAT", "FD"], rows, 4).splitlines()[2:]
    assert [line.split("]")[0] for line in lines] == ["| [FD", "| [MHAT", "| [CoFED"]
    assert "| +2.0 ± 1.4 | 0.5 of 4 | 2.0 kB |" in lines[0]
    assert "| not played |  |  |" in lines[2]


def test_what_may_leave_lists_each_method_once_where_it_is_first_possible():
    answers, features, weights = choice.leaving().splitlines()[2:]
    assert "[FD]" in answers
    assert "[FedProto]" in features
    assert "[FedAvg]" in weights
    listed = [name for line in (answers, features, weights) for name in line.split("](")[:-1]]
    assert len(listed) == len(ADVICE) - 1, "all but Local, with which nothing leaves"


@pytest.mark.parametrize("line_up", LINE_UPS.values(), ids=LINE_UPS)
def test_every_setting_can_be_set(line_up, images):
    settings = line_up.changes(line_up.methods)
    cells = plan_cells(line_up.file, list(line_up.methods), [0], images.parent, changes=[changes(images), *settings])
    made = {cell.entry.method: cell.recipe().method.settings for cell in cells}
    assert made == {**line_up.methods, "Local": {}}
    assert set(line_up.methods) | set(line_up.left_out) <= set(METHODS)


def test_ten_participants_with_300_images_each(images):
    for line_up in LINE_UPS.values():
        federation = read(line_up.file, [changes(images)]).federation()
        people = federation.participants.values()
        assert [len(person.data) + len(person.validation) for person in people] == [300] * 10
        assert all(len(federation.test_of(person)) == 1000 for person in people)
    assert [person.model.conv1.out_channels for person in people] == [32, 16, 8, 4, 2] * 2


@pytest.mark.slow
@pytest.mark.parametrize("line_up", LINE_UPS.values(), ids=LINE_UPS)
def test_all_that_fit_compete_or_are_left_out_with_a_reason(line_up, images):
    fit = set(dry_runs(read(line_up.file, [changes(images)])).fits) - {"Local"}
    assert fit <= set(line_up.methods) | set(line_up.left_out)


@pytest.mark.slow
@pytest.mark.parametrize("line_up", LINE_UPS.values(), ids=LINE_UPS)
def test_all_who_compete_fit_with_the_settings_that_they_have(line_up, images):
    settings = [changes(images), *line_up.changes(line_up.methods)]
    for cell in plan_cells(line_up.file, list(line_up.methods), [0], images.parent, changes=settings):
        recipe = cell.recipe()
        rehearse(recipe.builder(), recipe.build_method())


@pytest.mark.slow
def test_a_table_is_played_kept_and_gone_on_with(images, monkeypatch, capsys):
    def play(*more: str) -> dict[str, Any]:
        words = ["field", "widths", "--data", images, "--only", "FedAvg", "--rates", "0.1,0.2", *more]
        folders = ["--runs", images.parent / "runs", "--results", images.parent / "results"]
        monkeypatch.setattr(sys, "argv", [*map(str, words + folders)])
        command.main()
        content: dict[str, Any] = json.loads(path_of(WIDTHS, images.parent / "results").read_text())
        return content

    first = play("--rounds", "1", "--seeds", "1")
    assert [(row["method"], row["tried"]["plan.lr"]) for row in first["rows"]] == [
        (method, rate) for method in ("FedAvg", "Local") for rate in ("0.1", "0.2")
    ]
    assert sum(row["chosen"] for row in first["rows"]) == 2
    assert not first["failed"]
    assert first["seeds"] == [0]
    assert [told.startswith(f"torch {torch.__version__.partition('+')[0]}") for told in first["played with"]] == [True]
    assert play("--rounds", "1", "--seeds", "1")["rows"] == first["rows"], "nothing is played twice"
    assert "Local" in capsys.readouterr().out
