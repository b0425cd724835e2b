"""A recipe makes the same federation every time: data dealt, everyone seated."""

from __future__ import annotations

import numpy as np
import pytest

import potluck
from potluck.core.errors import DataError, ModelError, RequirementsError, SettingsError
from potluck.recipes import Recipe, read
from tests.recipes.files import MODULE, NETS, SMALL, write
from tests.tables import agree


def read_text(folder, text, *changes, **settings):
    (folder / "mine.py").write_text(MODULE)
    return read(write(folder, text), changes, settings)


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
    changes += ("participants.net.validation=0.2", "max_concurrent=2", "storage=disk")
    federation = read_text(here, SMALL, *changes).federation()
    assert (federation.seed, federation.participation, federation.keep_optimizer) == (3, 0.5, True)
    assert federation.engine.max_concurrent == 2
    assert federation.participants["net1"].storage is federation.storage is not None
    assert type(federation.engine).__name__ == "Serial"
    assert federation.participants["tree"].weight == 3
    assert federation.participants["tree"].model.max_depth == 3
    assert len(federation.participants["net1"].validation) > 0
    assert federation.method == potluck.methods.CoFED(alpha=0.4)


def test_a_plan_is_the_recipes_with_the_participants_own_on_top(here):
    changes = ("plan.optimizer=sgd", "participants.net.plan.momentum=0.9")
    people = read_text(here, SMALL, *changes).federation().participants
    assert people["net1"].plan == potluck.Plan(optimizer="sgd", momentum=0.9, lr=0.01, batch_size=16)
    assert people["tree"].plan == potluck.Plan(optimizer="sgd", lr=0.01, batch_size=16, epochs=1)


def test_a_partition_gives_label_spaces(here):
    changes = ('data.partition={name="by-classes", classes=2}',)
    people = read_text(here, SMALL, *changes).federation().participants.values()
    assert [len(person.labels) for person in people] == [2, 2, 2]
    assert {label for person in people for label in person.labels} == {0, 1, 2}


def test_labels_may_be_set(here):
    people = read_text(here, SMALL, "participants.tree.labels=[0, 1, 2, 7]").federation().participants
    assert people["tree"].labels == (0, 1, 2, 7)
    assert people["net1"].labels == (0, 1, 2)


def test_every_row_is_held_once_and_public_rows_by_nobody(here):
    builder = read_text(here, SMALL).builder()
    held = [tuple(row) for (x, _), _ in builder.shares for row in x.tolist()] + [
        tuple(r) for r in builder.public.tolist()
    ]
    assert len(held) == len(set(held)) == 150
    assert len(builder.public) == 40


@pytest.mark.parametrize(
    ("public", "rows", "labelled"),
    [
        ("{take = 40}", 40, False),
        ("{take = 0.2, labelled = true}", 30, True),
        ("{generate = 25}", 25, False),
        ('{source = {name = "generated", features = 6, samples = 80}}', 60, False),
        ('{source = {name = "generated", features = 6, samples = 80}, count = 7}', 7, False),
        ('{source = "mine:source", count = 9, labelled = true}', 9, True),
        ('{source = {name = "mine:source", rows = 40}, labelled = true}', 30, True),
    ],
)
def test_public_data_in_every_way(here, public, rows, labelled):
    federation = read_text(here, SMALL, f"data.public={public}").federation()
    assert federation.server.public_size == rows
    assert federation.server.public.labelled == labelled
    assert not any(row["refused"] for row in federation.run(1).rows())


def test_no_public_data(here):
    text = SMALL.replace("[data.public]\ntake = 40\n", "")
    with pytest.raises(RequirementsError, match=r"CoFED does not fit this federation:\n- .*; add `public`"):
        read_text(here, text).federation()
    assert read_text(here, text, "method=Local").federation().server.public is None


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


def test_own_source_and_partition(here):
    builder = read_text(
        here, SMALL, "data.source={name='mine:source', rows=80}", "data.partition=mine:halves"
    ).builder()
    assert [len(y) for (_, y), _ in builder.shares] == [7, 7, 6]


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
