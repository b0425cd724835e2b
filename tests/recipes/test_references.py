"""What a run file names is found: in modules beside it, in files beside it."""

from __future__ import annotations

import numpy as np
import pytest

from potluck.core.errors import SettingsError
from potluck.recipes import read
from tests.recipes.files import MODULE, SMALL, write


def test_modules_are_found_beside_the_run_file_and_in_the_working_directory(here):
    (here / "near").mkdir()
    for folder, width in ((here, 1), (here / "near", 2)):
        (folder / "mine_a.py").write_text(f"def build(classes, width={width}): return width")
    (here / "mine_b.py").write_text("def build(classes): return 3")
    text = SMALL.replace('"mlp", hidden = [8]', '"mine_a:build"').replace(
        '"sklearn.tree:DecisionTreeClassifier", max_depth = 3', '"mine_b:build"'
    )
    read(write(here / "near", text))
    from potluck.models import build

    assert build("mine_a:build", (6,), 3) == 2
    assert build("mine_b:build", (6,), 3) == 3


def test_types_that_cannot_be_checked_are_left_alone(here):
    (here / "mine_e.py").write_text(
        "from __future__ import annotations\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from nowhere import Width\n"
        "class Odd: pass\n"
        "def build(classes, width: Width): return width\n"
        "def other(classes, width: Odd, depth=3): return width\n"
    )
    text = SMALL.replace('"mlp", hidden = [8]', '"mine_e:build", width = 3')
    text = text.replace(
        '"sklearn.tree:DecisionTreeClassifier", max_depth = 3', '"mine_e:other", width = 3, depth = "x"'
    )
    assert read(write(here, text)).participants[1].model.settings == {"width": 3, "depth": "x"}


def test_two_modules_of_one_name_cannot_be_in_use(here):
    text = SMALL.replace('"mlp", hidden = [8]', '"mine_c:build"')
    for name in ("one", "other"):
        path = write(here / name, text)
        (here / name / "mine_c.py").write_text(MODULE)
    read(path)
    read(path)
    with pytest.raises(SettingsError, match=r"'mine_c' is in use from .*other/mine_c.py, and .*one/mine_c.py cannot"):
        read(here / "one" / "small.toml")


def test_a_bug_in_a_module_is_told_with_its_place(here):
    (here / "mine_d.py").write_text("int('x')")
    bug = r"'mine_d:build' cannot be imported: mine_d\.py, line 1: ValueError: invalid literal"
    with pytest.raises(SettingsError, match=bug):
        read(write(here, SMALL.replace('"mlp", hidden = [8]', '"mine_d:build"')))


@pytest.mark.parametrize("source", ['"set.npz"', '{ name = "npz", path = "set.npz" }', '{ name = "set.npz" }'])
def test_files_are_found_from_the_folder_of_the_run_file(here, source):
    x, y = np.random.default_rng(0).normal(size=(60, 6)), np.arange(60) % 3
    (here / "near").mkdir()
    np.savez(here / "near" / "set.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    text = SMALL.replace('{ name = "generated", samples = 200, features = 6, classes = 3 }', source)
    text = text.replace("take = 40", f"source = {source}")
    recipe = read(write(here / "near", text))
    assert recipe.data.source.settings == recipe.data.public.source.settings == {"path": str(here / "near/set.npz")}
    assert len(recipe.builder().source.y) == 60
    with pytest.raises(SettingsError, match=rf"line 9, data.source(.path)?: there is no file '{here}/far/set.npz'\."):
        read(write(here / "far", text))
    assert read(write(here, text.replace("set.npz", f"{here}/near/set.npz"))).data == recipe.data


def test_a_folder_of_data_sets_is_looked_for_from_the_run_files(here):
    recipe = read(write(here, SMALL), ['data.source={name="mnist", data_dir="sets"}'])
    assert recipe.source.settings["data_dir"] == str(here / "sets")
