"""Which runs a comparison is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from potluck.comparison.cells import Cell, plan_cells
from potluck.core.errors import SettingsError
from tests.recipes.files import SMALL, write


def plan(here, *methods, text=SMALL, seeds=(3, 4), **more):
    return plan_cells(write(here, text), methods, seeds, Path("out"), **more)


def test_a_cell_for_each_method_and_seed_and_local_always(here):
    cells = plan(here, "cofed", "MHAT")
    assert [cell.title for cell in cells] == [
        f"{method}, seed {seed}" for seed in (3, 4) for method in ("CoFED", "MHAT", "Local")
    ]
    assert len({cell.folder for cell in cells}) == 6
    assert [cell.entry.method for cell in plan(here, "Local", seeds=[0])] == ["Local"]


def test_the_files_own_method_has_the_files_settings_others_their_defaults(here):
    recipes = {cell.entry.method: cell.recipe() for cell in plan(here, "CoFED", "Local", seeds=[7])}
    assert recipes["CoFED"].build_method().alpha == 0.4
    assert recipes["Local"].method.settings == {}
    assert {recipe.seed for recipe in recipes.values()} == {7}
    assert recipes["CoFED"].participants == recipes["Local"].participants


def test_a_sweep_of_a_plan_is_for_all_one_of_a_method_for_those_that_have_it(here):
    cells = plan(here, "CoFED", seeds=[0], sweeps=["plan.lr=0.1,0.2", "method.alpha=0.5,0.6,0.7"], pooled=True)
    counts = {name: sum(cell.entry.method == name for cell in cells) for name in ("CoFED", "Local", "Pooled")}
    assert counts == {"CoFED": 6, "Local": 2, "Pooled": 2}
    last = next(cell for cell in reversed(cells) if cell.entry.method == "CoFED")
    assert (last.recipe().plan["lr"], last.recipe().build_method().alpha) == (0.2, 0.7)
    assert last.entry.label == "CoFED lr=0.2, alpha=0.7"


def test_a_sweep_of_one_method_alone(here):
    cells = plan(here, "CoFED", "MHAT", seeds=[0], sweeps=["CoFED.alpha=0.5,0.6"])
    assert [cell.entry.label for cell in cells] == ["CoFED alpha=0.5", "CoFED alpha=0.6", "MHAT", "Local"]


def test_a_change_of_one_method_alone(here):
    cells = plan(here, "CoFED", "MHAT", seeds=[0], changes=["mhat.temperature=2", "CoFED.margin=0.1", "rounds=3"])
    recipes = {cell.entry.label: cell.recipe() for cell in cells}
    assert recipes["CoFED"].build_method().margin == 0.1
    assert recipes["MHAT"].build_method().temperature == 2
    assert list(recipes) == ["CoFED", "MHAT", "Local"], "it is not told from others by what is the same in all its runs"
    assert {recipe.rounds for recipe in recipes.values()} == {3}


def test_values_may_be_lists(here):
    cells = plan(here, "Local", seeds=[0], sweeps=["participants.net.model.hidden=[4, 4],[8]"])
    assert [cell.recipe().participants[0].model.settings["hidden"] for cell in cells] == [[4, 4], [8]]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"sweeps": ["plan.lr"]}, "sweeps nothing; expected KEY=a,b,c"),
        ({"sweeps": ["plan.lr="]}, "sweeps nothing; expected KEY=a,b,c"),
        ({"sweeps": ["method.alhpa=1,2"]}, r"none of CoFED, Local has 'method.alhpa'. Did you mean 'alpha'"),
        ({"sweeps": ["plan.lr=0.1..1"]}, "has a range to search, and no --tune says how often"),
        ({"sweeps": ["method.alpha=0.1", "CoFED.alpha=0.2"]}, "A setting of CoFED is swept for it alone and for all"),
        ({"sweeps": ["plan.lr=0.1,-1"]}, "lr"),
        ({"sweeps": ["plan.lr=0.1,0.1"]}, "the same folder"),
        ({"changes": ["method.alpha=2"]}, "alpha"),
    ],
)
def test_mistakes_are_told_before_anything_is_played(here, given, says):
    with pytest.raises(SettingsError, match=says):
        plan(here, "CoFED", **given)


def test_a_method_that_does_not_exist_and_one_that_is_named_twice(here):
    with pytest.raises(SettingsError, match=r"There is no method 'CoFAD'. Did you mean 'CoFED'"):
        plan(here, "CoFAD")
    with pytest.raises(SettingsError, match="CoFED is named twice"):
        plan(here, "CoFED", "cofed")


def test_a_cell_survives_json(here):
    cell = plan(here, "CoFED", sweeps=["plan.lr=0.1"], options=[("rounds", 1)], cross=True)[0]
    assert Cell.from_json(cell.to_json()) == cell
