"""How far a reader must walk to follow a round: the files of Potluck's that it passes."""

from __future__ import annotations

from pathlib import Path

import potluck
from potluck.methods import FedIN
from tests.passed_files import PassedFiles
from tests.tables import deep_cnn, made_data, participants

AT_MOST = 22
"""It was 15 before transforms, stacked data, evaluation and rows had files of their own; it must not grow further."""


def files_of_a_round(engine):
    """The files, outside of the core's values, whose functions the third round of FedIN calls."""
    people = participants([deep_cnn(i, 1) for i in range(4)], plan=potluck.Plan(epochs=1, batch_size=8))
    federation = potluck.Federation(people, FedIN(pairs=4), test=made_data(20, 3), engine=engine)
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


def test_the_page_names_them():
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    for file in files_of_a_round("batched"):
        assert f"`{file}`" in page
