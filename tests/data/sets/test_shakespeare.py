"""Shakespeare's speakers, and what follows on what they say."""

from __future__ import annotations

import numpy as np
import pytest

from potluck.core.errors import DataError
from potluck.data import shakespeare
from potluck.data.sets.shakespeare import speeches
from tests.data.sets.published_files import put, shakespeare_files

SMALL = {"length": 20, "step": 5, "min_characters": 200}


def test_speeches_are_put_together_by_speaker():
    text = "ANNE:\nHow now?\nWho comes?\n\nBOB:\nI: the watch.\n\nANNE:\nEnter.\n\nA line of nobody's\n\nCAROL:\n"
    assert speeches(text) == {"ANNE": b"How now?\nWho comes?\nEnter.", "BOB": b"I: the watch."}
    assert speeches(text.replace("\n", "\r\n")) == speeches(text)


def test_a_label_is_the_character_that_follows(sets):
    put(sets / "shakespeare", shakespeare_files())
    found = shakespeare(**SMALL)
    assert found.groups is not None
    assert found.x.shape[1:] == (20,)
    said = speeches(shakespeare_files()["input.txt"].decode())
    assert set(found.groups.tolist()) == {"ANNE", "BOB"}, "who says little is left out"
    for row, label, who in zip(found.x, found.y, found.groups, strict=True):
        assert bytes([*row.tolist(), int(label)]) in said[str(who)]
    anne = found.x[found.groups == "ANNE"]
    assert np.array_equal(anne[0, 5:], anne[1, :15]), "the next row begins five characters further on"


def test_training_and_test_rows_share_no_text(sets):
    put(sets / "shakespeare", {"input.txt": ("ANNE:\n" + "".join(map(chr, range(40, 120))) * 4).encode()})
    text = bytes(range(40, 120)) * 4
    found = shakespeare(length=20, step=1, min_characters=200)
    assert len(found.x) == 256 - 20
    assert len(found.x_test) == 64 - 20
    assert bytes(found.x_test[0].tolist()) == text[256:276]


def test_some_speakers(sets):
    put(sets / "shakespeare", shakespeare_files())
    assert len(set(shakespeare(**SMALL, speakers=1).groups)) == 1


def test_a_text_without_speakers_is_told(sets):
    put(sets / "shakespeare", {"input.txt": b"Once upon a time. " * 300})
    with pytest.raises(DataError, match=r"nobody says 2000 characters; expected paragraphs"):
        shakespeare()
    with pytest.raises(DataError, match="length=0"):
        shakespeare(length=0)
