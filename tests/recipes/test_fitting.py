"""A federation for every method: it fits, and shows all settings."""

from __future__ import annotations

import tomllib

import pytest

from potluck.cli.check import rehearse
from potluck.core.errors import SettingsError
from potluck.federation.method_facts import facts_of
from potluck.methods import METHODS
from potluck.recipes import Recipe, read
from potluck.recipes.fitting import fitting_file
from tests.recipes.files import here, write

__all__ = ["here"]


def of(folder, name: str) -> Recipe:
    return read(write(folder, fitting_file(name), f"{name}.toml"))


def test_it_fits_every_method(tmp_path):
    for name in METHODS:
        recipe = of(tmp_path, name)
        traffic = rehearse(recipe.builder(), recipe.build_method())
        sent = traffic.each_round + traffic.joining_up
        assert (sent > 0) == bool(METHODS[name].exchanges()), name


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_in_it(tmp_path, name):
    """All rounds, but of DENSE, whose server takes minutes for each; nobody's network diverges."""
    recipe = of(tmp_path, name)
    history = recipe.federation().run(1 if name == "DENSE" else recipe.rounds)
    assert not [row["refused"] for row in history.rows() if row["refused"]]
    assert len(history.final.rows) >= 4
    assert history.final.accuracy is None or history.final.accuracy > 0.2, "a study measures nothing"


def test_all_settings_are_there_to_be_uncommented():
    for name in METHODS:
        lines = fitting_file(name).splitlines()
        settings = facts_of(METHODS[name]).settings
        found = {line.removeprefix("# ").partition(" = ")[0]: line for line in lines if " = " in line}
        assert set(settings) <= set(found), name
        for key in settings:
            if "…" not in found[key]:
                tomllib.loads(found[key].removeprefix("# "))


def test_a_method_of_ones_own_that_must_be_told_something(here, monkeypatch):
    (here / "mine_told.py").write_text("import potluck\n\n\nclass Told(potluck.Method):\n    often: int\n")
    monkeypatch.syspath_prepend(here)
    with pytest.raises(SettingsError, match="must be told often"):
        fitting_file("mine_told:Told")
