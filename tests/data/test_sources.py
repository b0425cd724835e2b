"""Sources are found by name, by a file, and by a function of one's own."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from potluck.core.errors import SettingsError
from potluck.data import SOURCES, Source, generated, load


def save(folder):
    images = np.zeros((12, 5, 6), np.uint8)
    np.savez(folder / "mine.npz", x_train=images, y_train=np.arange(12) % 3, x_test=images[:3], y_test=np.arange(3))
    return folder / "mine.npz"


def test_load_finds_a_source_by_name_and_passes_settings():
    assert load("generated", samples=40, classes=2).x.shape == (30, 20)
    assert load("Generated_Images", samples=40, size=4).shape == (1, 4, 4)
    assert set(SOURCES) >= {"digits", "npz", "generated", "generated-images"}


def test_load_reads_a_file_by_its_name(tmp_path):
    path = save(tmp_path)
    assert load(str(path)).shape == (1, 5, 6)
    assert load("npz", path=path).shape == (1, 5, 6)


def test_load_calls_what_a_dotted_name_names(monkeypatch):
    module = types.ModuleType("my_kitchen")
    module.pantry = lambda size: generated(samples=size)
    module.empty = lambda: 3
    monkeypatch.setitem(sys.modules, "my_kitchen", module)
    assert isinstance(load("my_kitchen:pantry", size=80), Source)
    with pytest.raises(SettingsError, match=r"'my_kitchen:empty' gave a int; expected a potluck\.data\.Source"):
        load("my_kitchen:empty")


def test_load_answers_unknown_names_and_settings_with_known_ones(tmp_path):
    with pytest.raises(SettingsError, match="Did you mean 'digits'"):
        load("digit")
    with pytest.raises(SettingsError, match=r"'generated' has no setting 'sample'.*Did you mean 'samples'"):
        load("generated", sample=3)
    with pytest.raises(SettingsError, match="has no setting 'seed'"):
        load(str(save(tmp_path)), seed=3)
    with pytest.raises(SettingsError, match="missing a required argument: 'path'"):
        load("npz")
