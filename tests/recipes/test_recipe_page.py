"""``docs/run-files.md`` names every key, and its examples can be read, as those of the page about data sets."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from potluck import Plan
from potluck.recipes import Recipe
from potluck.recipes.channel_section import ChannelSection
from potluck.recipes.recipe import DataSection, ParticipantSection, PublicSection
from potluck.recipes.references import look_beside
from potluck.recipes.validation import Origin
from tests.recipes.files import MODULE

PAGE = (Path(__file__).parents[2] / "docs" / "run-files.md").read_text()
SETS = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text()
EXAMPLES = [tomllib.loads(text) for text in re.findall(r"^```toml\n(.*?)^```$", PAGE + SETS, re.M | re.S)]
BASE = {"rounds": 1, "method": "Local", "participants": [{"name": "a", "model": "mlp"}]}


def test_every_key_is_there():
    for section in (Recipe, DataSection, PublicSection, ChannelSection, ParticipantSection, Plan):
        for key in section.model_fields:
            assert f"\n| `{key}` |" in PAGE, key


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_examples_can_be_read(here, example):
    (here / "mine.py").write_text(MODULE)
    x, y = np.zeros((6, 2)), np.arange(6) % 3
    np.savez(here / "mine.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    (here / "clinic.csv").write_text("id,age,town,ill\n1,30,east,no\n")
    look_beside(here, {})
    Recipe.model_validate({**BASE, **example}, context=Origin(here))
