"""How far a reader must walk to follow a round: the files of Potluck's that it passes."""

from __future__ import annotations

import sys
from pathlib import Path

import potluck
from potluck.methods import FedIN
from tests.tables import deep_cnn, made_data, participants

ROOT = Path(potluck.__file__).parent

VALUES = {
    f"core/{name}.py"
    for name in (
        "payload",
        "schema",
        "exchange_order",
        "samples",
        "inputs",
        "plan",
        "randomness",
        "history",
        "columns",
        "tasks",
        "classification",
        "metrics",
        "model_view",
    )
}
"""Plain values of the core: what a schema is to a payload, columns are to a history, and metrics to a task."""

AT_MOST = 15


def files_of_a_round(engine):
    """The files, outside of the core's values, whose functions the third round of FedIN calls."""
    passed = {}
    people = participants([deep_cnn(i, 1) for i in range(4)], plan=potluck.Plan(epochs=1, batch_size=8))
    federation = potluck.Federation(people, FedIN(pairs=4), test=made_data(20, 3), engine=engine)

    def note(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            passed.setdefault(str(path.relative_to(ROOT)))

    def after_round(played, rows):
        sys.setprofile(note if played.history.rounds == 2 else None)

    try:
        federation.run(3, callbacks=[after_round])
    finally:
        sys.setprofile(None)
    return [file for file in passed if file not in VALUES]


def test_a_round_on_the_batched_engine_can_be_followed():
    passed = files_of_a_round("batched")
    assert "engines/batched/trainer.py" in passed
    assert len(passed) <= AT_MOST, passed


def test_the_page_names_them():
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
    for file in files_of_a_round("batched"):
        assert f"`{file}`" in page
