"""How far a reader must walk to follow a round: the files of Potluck's that it passes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import potluck
from potluck.methods import FedIN, fedin
from tests.passed_files import PACKAGE, PassedFiles
from tests.tables import deep_cnn, made_data, participants

AT_MOST = 18
"""It was 15 before a stack's inputs, readings in stacks and who is evaluated had files of their own."""

FRAMES = 19
"""How many of our own calls lead from ``Federation.run`` to a loss."""


def federation_of_four(engine):
    people = participants([deep_cnn(i, 1) for i in range(4)], plan=potluck.Plan(epochs=1, batch_size=8))
    return potluck.Federation(people, FedIN(pairs=4), test=made_data(20, 3), engine=engine)


def files_of_a_round(engine):
    """The files, outside of the core's values, whose functions the third round of FedIN calls."""
    federation = federation_of_four(engine)
    passed = PassedFiles()

    def after_round(played, rows):
        passed.start() if played.history.rounds == 2 else passed.stop()

    try:
        federation.run(3, callbacks=[after_round])
    finally:
        passed.stop()
    return passed.files["here"]


def test_a_round_on_the_batched_engine_can_be_followed():
    passed = files_of_a_round("batched")
    assert "engines/batched/trainer.py" in passed
    assert len(passed) <= AT_MOST, passed


def test_the_page_lists_them():
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    section = page.partition("## A round on the batched engine")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\d+\. `([\w/]+\.py)`", section, re.MULTILINE)) == set(files_of_a_round("batched"))


def test_the_way_to_the_loss_is_short(monkeypatch):
    depths = []

    def counted(*given):
        names, frame = [], sys._getframe()
        while frame is not None:
            if Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
                names.append(frame.f_code.co_qualname)
            frame = frame.f_back
        assert names[-1] == "Federation.run"
        depths.append(len(names))
        return loss(*given)

    loss = fedin.local
    monkeypatch.setattr(fedin, "local", counted)
    federation_of_four("batched").run(2)
    assert 0 < max(depths) <= FRAMES
