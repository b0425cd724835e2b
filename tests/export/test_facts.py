"""What an exported model says of itself: written, read, and held to."""

from __future__ import annotations

import json

import pytest

import potluck
from potluck.core.errors import DataError
from potluck.export.facts import FACTS, ModelFacts
from potluck.methods import Local
from tests.export.models import LABELS, after_a_run


@pytest.fixture
def folder(tmp_path):
    after_a_run(Local())[0].save(tmp_path / "model")
    return tmp_path / "model"


def test_they_tell_of_model_and_origin(folder):
    facts = ModelFacts.read(folder)
    assert (facts.participant, facts.kind, facts.method, facts.rounds) == ("p0", "torch", "Local", 1)
    assert facts.labels == LABELS
    assert facts.inputs["x"].shape == (1, 6, 6)
    assert facts.inputs["x"].dtype == "float32"
    assert set(facts.metrics) == {"accuracy", "loss", "macro_f1", "balanced_accuracy"}
    assert facts.test_samples == 30
    assert facts.training_samples == 24
    assert facts.versions["torch"]
    assert facts.made.startswith("20")


def test_the_task_is_built_again(folder):
    assert ModelFacts.read(folder).build_task() == potluck.Classification(LABELS)


def test_a_file_that_was_changed_is_told(folder):
    (folder / "model.pt2").write_bytes(b"another")
    with pytest.raises(DataError, match=r"model\.pt2 is not the file that was exported"):
        ModelFacts.read(folder)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"format": 2}, "format"),
        ({"kind": "pickle"}, "kind"),
        ({"more": 1}, "more"),
        ({"files": {"../outside": "0"}}, "is not the file that was exported"),
    ],
)
def test_facts_that_were_changed_are_told(change, why, folder):
    content = json.loads((folder / FACTS).read_text()) | change
    (folder / FACTS).write_text(json.dumps(content))
    with pytest.raises(DataError, match=why):
        ModelFacts.read(folder)


def test_another_folder_is_told(tmp_path):
    with pytest.raises(DataError, match="holds no exported model"):
        ModelFacts.read(tmp_path)
