"""Data shared out and public data taken aside, as a recipe says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from potluck.core.errors import DataError, RequirementsError, SettingsError
from potluck.federation.attacks import ScaledUpdate
from potluck.methods.robust import Krum
from tests.recipes.files import SMALL, read_text


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
    held = [tuple(row) for share in builder.shares for row in share.data[0].tolist()] + [
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


def test_own_source_and_partition(here):
    builder = read_text(
        here, SMALL, "data.source={name='mine:source', rows=80}", "data.partition=mine:halves"
    ).builder()
    assert [len(share.data[1]) for share in builder.shares] == [7, 7, 6]


def test_under_a_shift_each_sees_training_and_test_data_in_its_own_way(here):
    plain = read_text(here, SMALL).federation()
    shifted = read_text(here, SMALL, 'data.shift={name="noise", std=2.0}').federation()
    assert plain.participants["net1"].test is None, "the federation's"
    for position, name in enumerate(plain.participants):
        before, after = (played.test_of(played.participants[name]) for played in (plain, shifted))
        assert torch.equal(before.y, after.y)
        assert torch.equal(before.x, after.x) == (position == 0), "the first one sees no noise"
        own, seen = plain.participants[name].data, shifted.participants[name].data
        assert torch.equal(own.x, seen.x) == (position == 0)
        assert torch.equal(own.y, seen.y)


def test_a_shift_that_is_none_is_told_with_its_place(here):
    with pytest.raises(SettingsError, match=r"data\.shift.*There is no shift 'blur'"):
        read_text(here, SMALL, 'data.shift="blur"')
    with pytest.raises(DataError, match=r"data\.shift: The shift 'rotation' got inputs of shape"):
        read_text(here, SMALL, 'data.shift="rotation"').builder()


CSV = """\
rounds = 1
method = "Local"

[[participants]]
name = "tree"
model = { name = "sklearn.ensemble:HistGradientBoostingClassifier", categorical_features = "from_dtype" }
data = { name = "clinic.csv", target = "ill", drop = ["id"], categories = ["town"] }
validation = 0.2

[[participants]]
name = "net"
model = { name = "mlp", hidden = [4] }
data = { name = "clinic.csv", target = "ill", drop = ["id", "town"] }
test = { name = "clinic.csv", target = "ill", drop = ["id", "town"] }
preprocess = { name = "sklearn.preprocessing:StandardScaler", with_mean = false }

[[participants]]
name = "pictures"
model = "mlp"
data = { name = "pictures", size = [4, 4], mode = "L" }
preload = false

[[participants]]
name = "arrays"
model = "mlp"
data = "arrays.npz"
"""


def test_files_are_data(here):
    rows = [f"{row},{row % 7},{'east' if row % 2 else 'west'},{'yes' if row % 7 > 3 else 'no'}" for row in range(40)]
    (here / "clinic.csv").write_text("\n".join(["id,age,town,ill", *rows]))
    np.savez(here / "arrays.npz", x=np.ones((6, 2)), y=["a", "b"] * 3)
    for label in ("cat", "dog"):
        (here / "pictures" / label).mkdir(parents=True)
        for number in range(3):
            Image.fromarray(np.full((6, 6, 3), 80 * number, np.uint8)).save(here / "pictures" / label / f"{number}.png")
    federation = read_text(here, CSV).federation()
    tree, net, pictures, arrays = federation.participants.values()
    assert (len(tree.data), tree.labels, list(tree.data.x.columns)) == (32, ("no", "yes"), ["age", "town"])
    assert str(tree.data.x["town"].dtype) == "category"
    assert net.data.x.shape == (40, 1)
    assert float(net.data.x.std(correction=0)) == pytest.approx(1)
    assert (pictures.labels, pictures.data.kinds["x"].shape) == (("cat", "dog"), (1, 4, 4))
    assert pictures.data.source is not None, "they are not in memory"
    assert arrays.data.x.shape == (6, 2)
    rows = federation.run(1).rows()
    assert [row["accuracy"] is not None for row in rows] == [False, True, False, False]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("participants.tree.data.name=clinc.csv", r"there is no file '.*clinc\.csv'"),
        ("participants.tree.data.targt=ill", "has no setting 'targt'"),
        ("participants.tree.data.drop=1", "drop = 1"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_line(here, change, message):
    (here / "clinic.csv").write_text("id,age,town,ill\n1,2,east,no")
    (here / "pictures").mkdir()
    np.savez(here / "arrays.npz", x=np.ones((6, 2)), y=np.arange(6) % 2)
    with pytest.raises(SettingsError, match=message):
        read_text(here, CSV, change)


def test_a_table_may_be_shared_out(here):
    rows = [f"{row % 9},{row % 5},{'yes' if row % 9 > 4 else 'no'}" for row in range(80)]
    (here / "clinic.csv").write_text("\n".join(["age,visits,ill", *rows]))
    changes = ('data.source={name="clinic.csv", target="ill"}', 'data.partition="iid"', "data.public.take=20")
    federation = read_text(here, SMALL, *changes).federation()
    assert [list(person.data.kinds["x"].shape) for person in federation.participants.values()] == [[2]] * 3
    assert list(federation.participants["tree"].data.x.columns) == ["age", "visits"]
    assert federation.run(1).rows()[0]["accuracy"] is not None


VARIED = """
rounds = 1
method = "Local"
[data]
source = { name = "generated", features = 6 }
[[participants]]
name = "phone"
count = 7
model = { name = "mlp", hidden = [16] }
vary = { rate = ["a", "b", "c", "d", "e"] }
"""


def test_settings_of_models_are_handed_out_in_turn(here):
    people = read_text(here, VARIED).federation().participants.values()
    assert [person.model[1].out_features for person in people] == [16, 8, 4, 2, 1, 16, 8]


@pytest.mark.parametrize(
    ("vary", "says"),
    [
        ('{ rat = ["a"] }', "participants.0.vary.rat: 'mlp' has no setting 'rat'. Did you mean 'rate'"),
        ("{ rate = [] }", r"participants.0.vary.rate: rate = \[\]; expected a list of values"),
        ("{ rate = [[1]] }", "participants.0.vary.rate"),
    ],
)
def test_what_cannot_vary_is_told_with_its_place(here, vary, says):
    with pytest.raises(SettingsError, match=says):
        read_text(here, VARIED, f"participants.phone.vary={vary}")


def test_participants_lie_and_methods_merge_as_the_file_says(here):
    changes = (
        'participants.net.attack={name="scaling", factor=3}',
        'method={name="FD", robust={name="krum", liars=2}}',
    )
    federation = read_text(here, SMALL, *changes).federation()
    attacks = {name: person.attack for name, person in federation.participants.items()}
    assert attacks == {"net1": ScaledUpdate(factor=3), "net2": ScaledUpdate(factor=3), "tree": None}
    assert federation.method.robust == Krum(liars=2)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ('participants.net.attack="scalling"', "There is no attack 'scalling'. Did you mean 'scaling'"),
        ('participants.net.attack={name="scaling", faktor=3}', "ScaledUpdate has no setting 'faktor'"),
        ('method={name="FD", robust="medain"}', "There is no robust merge 'medain'. Did you mean 'median'"),
        ('method={name="FD", robust={name="krum", liar=1}}', "Krum has no setting 'liar'"),
        ('method={name="MHAT", robust="krum"}', "no plain mean"),
    ],
)
def test_an_attack_or_a_rule_that_there_is_not_is_told(here, change, says):
    with pytest.raises(SettingsError, match=says):
        read_text(here, SMALL, change)


SITES = """
rounds = 1
method = "Local"
[data]
source = {{ name = "sites.csv", target = "ill", group = "town", test_share = 0.4{more} }}
test = "own"
partition = {{ name = "by-group", names = ["west", "east"] }}
[[participants]]
name = "site"
model = "mlp"
count = 2
"""


def write_sites(folder):
    rows = "\n".join(f"{number},{number % 2},{['east', 'west'][number // 20]}" for number in range(40))
    (folder / "sites.csv").write_text(f"age,ill,town\n{rows}\n")


def test_everybody_is_tested_on_the_rows_of_its_own_groups(here):
    write_sites(here)
    people = read_text(here, SITES.format(more="")).federation().participants
    assert people["site1"].data.x.min() >= 20
    assert people["site1"].test.x.min() >= 20
    assert people["site2"].test.x.max() < 20
    assert len(people["site1"].test) + len(people["site2"].test) == 16


def test_own_test_rows_need_groups(here):
    text = SMALL.replace("[data]", '[data]\ntest = "own"')
    wrong = r"data.test: 'generated' does not say whose a test row is|data.test: .*does not say whose a test row is"
    with pytest.raises(SettingsError, match=wrong):
        read_text(here, text, 'data.source="digits"', "data.public={take=40}").federation()


def test_values_are_for_regression(here):
    write_sites(here)
    text = SITES.format(more=", values = true")
    with pytest.raises(SettingsError, match=r'data.source: The targets of .* are values; expected task = "regression"'):
        read_text(here, text).federation()
    history = read_text(here, text, "task=regression").federation().run(1)
    assert history.final.metric == "r2"
