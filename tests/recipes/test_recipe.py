"""A recipe makes the same federation every time: data dealt, everyone seated."""

from __future__ import annotations

import numpy as np
import pytest

import potluck
from potluck.core.errors import DataError, ModelError, SettingsError
from potluck.recipes import Recipe, read
from tests.recipes.files import NETS, SMALL, read_text
from tests.tables import agree


def test_the_same_file_and_seed_give_the_same_history(here):
    recipe = read_text(here, SMALL)
    first = recipe.federation().run(2).rows()
    agree(first, read(here / "small.toml").federation().run(2).rows(), 0)
    other = read(here / "small.toml", (), {"seed": 4}).federation().run(2).rows()
    assert [row["accuracy"] for row in first] != [row["accuracy"] for row in other]


def test_the_engines_agree(here):
    alone, together = (
        read_text(here, NETS).federation(engine=engine).run(2).rows() for engine in ("serial", "batched")
    )
    for one, other in zip(alone, together, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-3)
        assert one["accuracy"] == pytest.approx(other["accuracy"], abs=0.05)
        assert (one["bytes_up"], one["participant"]) == (other["bytes_up"], other["participant"])


def test_settings_reach_the_federation(here):
    changes = ("participation=0.5", "keep_optimizer=true", "device=cpu", "engine=serial", "participants.tree.weight=3")
    changes += ("participants.net.validation=0.2", "max_concurrent=2", "storage=disk", "participants.net.head='3'")
    federation = read_text(here, SMALL, *changes).federation()
    assert (federation.seed, federation.participation, federation.keep_optimizer) == (3, 0.5, True)
    assert federation.engine.max_concurrent == 2
    assert federation.participants["net1"].storage is federation.storage is not None
    assert type(federation.engine).__name__ == "Serial"
    assert federation.participants["tree"].weight == 3
    assert federation.participants["net1"].head == ("3",)
    assert federation.participants["tree"].model.max_depth == 3
    assert len(federation.participants["net1"].validation) > 0
    assert federation.method == potluck.methods.CoFED(alpha=0.4)


def test_a_plan_is_the_recipes_with_the_participants_own_on_top(here):
    changes = ("plan.optimizer=sgd", "participants.net.plan.momentum=0.9")
    people = read_text(here, SMALL, *changes).federation().participants
    assert people["net1"].plan == potluck.Plan(optimizer="sgd", momentum=0.9, lr=0.01, batch_size=16)
    assert people["tree"].plan == potluck.Plan(optimizer="sgd", lr=0.01, batch_size=16, epochs=1)


def test_own_data_test_model_and_method(here):
    changes = (
        "method=mine:Alone",
        "method.often=2",
        "participants.net.model={name='mine:build', width=5}",
        "participants.net.data={name='mine:load', rows=40, labels=[0, 1]}",
        "participants.net.test='mine:load'",
        "participants.net.labels=[0, 1, 2]",
    )
    federation = read_text(here, SMALL, *changes).federation()
    net, tree = federation.participants["net2"], federation.participants["tree"]
    assert (len(net.data), len(net.test), net.labels) == (40, 30, (0, 1, 2))
    assert net.model[1].out_features == 5
    assert len(tree.data) == 110
    assert federation.method.often == 2
    assert len(federation.run(1)) == 3


def test_digits_are_shared_unless_the_file_says_otherwise(here):
    text = 'rounds = 1\nmethod = "Local"\n[[participants]]\nname = "lab"\nmodel = "mlp"\n'
    assert read_text(here, text).builder().source.name == "digits"


def test_who_has_data_needs_no_source(here):
    text = 'rounds = 1\nmethod = "Local"\n[[participants]]\nname = "lab"\nmodel = "mine:build"\ndata = "mine:load"\n'
    recipe = read_text(here, text)
    assert [row["accuracy"] for row in recipe.federation().run(1).rows()] == [None]
    tested = read_text(here, f'{text}test = "mine:load"\n').federation().run(1).rows()
    assert tested[0]["accuracy"] is not None
    with pytest.raises(SettingsError, match=r"data.public: there is no data.source to take public data from"):
        read_text(here, text, "data.public.take=3")
    shown = read_text(here, text, "data.public.source=mine:source").federation()
    assert shown.server.public_size == 68


@pytest.mark.parametrize(
    ("change", "kind", "said"),
    [
        ("data.source.samples=-1", DataError, "line 9, data.source: samples=-1; expected a whole number"),
        ("data.partition.alpha=-1", DataError, "line 10, data.partition: alpha=-1; expected a number above 0"),
        ("data.partition.minimum=99", DataError, "line 10, data.partition: 3 participants with at least 99 rows each"),
        ("data.public.take=999", DataError, "line 12, data.public: The public set would be 999 of 150 rows"),
        ("data.source.name=mine:load", SettingsError, "'mine:load' has no setting 'samples'"),
        ("data.source=mine:load", SettingsError, "command line, data.source: 'mine:load' gave a tuple; expected a pot"),
        ("data.partition=mine:load", SettingsError, "command line, data.partition: 'mine:load': got an unexpected key"),
        (
            "participants.net.model.hidden=[0]",
            SettingsError,
            "line 21, participants.0.model: hidden = [0]; expected wh",
        ),
        ("participants.net.model=cnn", ModelError, "command line, participants.0.model: cnn reads images"),
        ("participants.net.labels=[0]", DataError, "line 19, participants.0: net1: the data holds label 1, which is"),
        ("participants.net.data=mine:build", SettingsError, "missing a required argument: 'input_shape'"),
    ],
)
def test_what_only_shows_when_the_table_is_laid_is_told_with_its_place(here, change, kind, said):
    with pytest.raises(kind) as caught:
        read_text(here, SMALL, change).federation()
    assert said in str(caught.value)


def test_a_recipe_from_python():
    recipe = Recipe.model_validate(
        {
            "rounds": 1,
            "method": "Local",
            "data": {"source": {"name": "generated", "samples": 60}},
            "participants": [{"name": "a", "model": {"name": "mlp", "hidden": [4]}, "count": 2}],
        }
    )
    assert Recipe.model_validate(recipe.model_dump()) == recipe
    assert np.isfinite([row["loss"] for row in recipe.federation().run(1).rows()]).all()
    skewed = {**recipe.model_dump(), "data": {"source": "generated", "partition": {"name": "dirichlet", "alpha": 0}}}
    with pytest.raises(DataError, match=r"^data.partition: "):
        Recipe.model_validate(skewed).federation()
