from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from torch import nn
from torch.utils.data import TensorDataset

import potluck
from potluck import DataError, ModelError, Participant, Plan, SettingsError
from potluck.core.labels import UNLABELLED
from potluck.core.samples import SharedData
from potluck.core.window import Window
from potluck.learners.network import Network
from tests.tables import cnn, made_data, mlp, participants

X = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.1, 0.9], [0.8, 0.2]])
Y = ["dog", "cat", "dog", "cat"]


class NearestMean:
    """A model of someone's own, with nothing from scikit-learn in it."""

    def fit(self, x, y):
        self.means = {str(label): x[y == label].mean(axis=0) for label in np.unique(y)}
        return self

    def predict(self, x):
        return [min(self.means, key=lambda label: ((row - self.means[label]) ** 2).sum()) for row in x]


def identity():
    """A network that says which of its two inputs is the larger."""
    net = nn.Linear(2, 2, bias=False)
    net.weight.data = 3 * torch.eye(2)
    return net


def clinic(model=None, data=(X, Y), name="clinic", **settings):
    return Participant(name, identity() if model is None else model, data, **settings)


def numbered(count=10, **settings):
    """A participant whose samples can be told apart."""
    return clinic(nn.Linear(1, 2), (torch.arange(float(count)).reshape(-1, 1), [0, 1] * (count // 2)), **settings)


def rows(samples):
    return samples.x.flatten().int().tolist()


def trained(participant):
    potluck.Federation([participant], potluck.methods.Local(), engine="serial").run(1)
    return participant


def test_the_label_space_is_by_default_what_occurs():
    assert clinic().labels == ("cat", "dog")
    assert clinic().data.y.tolist() == [1, 0, 1, 0]
    assert clinic(data=(X, [7, 3, 7, 3])).labels == (3, 7)
    assert clinic(data=TensorDataset(X, torch.tensor([7, 3, 7, 3]))).labels == (3, 7)


def test_a_label_space_may_hold_more_than_occurs():
    wide = clinic(labels=["emu", "dog", "cat"])
    assert wide.labels == ("cat", "dog", "emu")
    assert wide.data.y.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("settings", [{}, {"test": (X, Y)}, {"validation": (X, Y)}])
def test_a_label_outside_the_space_is_an_error_wherever_it_occurs(settings):
    data = (X, Y) if not settings else (X, ["dog"] * 4)
    with pytest.raises(DataError, match=r"clinic.*: .*label 'cat', which is not in its label space \['dog'\]"):
        clinic(data=data, labels=["dog"], **settings)


def test_the_error_says_which_data_it_was():
    with pytest.raises(DataError, match=r"clinic \(test\)"):
        clinic(test=(X, ["emu"] * 4))
    with pytest.raises(DataError, match=r"clinic \(validation\)"):
        clinic(validation=(X, ["emu"] * 4))


def test_an_empty_label_space_is_an_error():
    with pytest.raises(DataError, match="clinic"):
        clinic(labels=[])


def test_a_share_is_held_back_for_validation():
    p = numbered(validation=0.3)
    assert len(p.validation) == 3
    assert sorted(rows(p.data) + rows(p.validation)) == list(range(10))
    assert p.data.y.tolist() == [row % 2 for row in rows(p.data)]


def test_what_is_held_back_depends_on_seed_and_name_alone():
    def held(seed, **settings):
        p = numbered(validation=0.4, **settings)
        p.join(seed, None)
        assert not set(rows(p.data)) & set(rows(p.validation))
        return rows(p.validation)

    assert held(3) == held(3) == held(3, plan=Plan(lr=0.5), weight=2.0)
    assert held(3) != held(4)
    assert held(3) != held(3, name="bank")


def test_joining_again_splits_all_the_data_again():
    p = numbered(validation=0.4)
    first = rows(p.validation)
    p.join(5, None)
    p.join(0, None)
    assert rows(p.validation) == first
    assert len(p.data) == 6


def test_without_validation_all_data_is_for_training():
    assert numbered().validation is None
    assert rows(numbered().data) == list(range(10))


def test_validation_data_of_ones_own_leaves_the_training_data_whole():
    p = clinic(validation=(X[:2], Y[:2]))
    p.join(3, None)
    assert len(p.data) == 4
    assert p.validation.y.tolist() == [1, 0]


@pytest.mark.parametrize("share", [-0.1, 1, 1.5, 0.01, 0.99, True, float("nan"), float("inf")])
def test_a_share_that_leaves_one_side_empty_is_an_error(share):
    with pytest.raises(SettingsError, match=rf"clinic: validation={float(share)!r} of 4 samples; expected a share"):
        clinic(validation=share)


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_a_weight_is_above_zero(weight):
    with pytest.raises(SettingsError, match=f"clinic: weight is {weight}; expected a finite number above 0"):
        clinic(weight=weight)


@pytest.mark.parametrize("name", ["", "  ", None, 3])
def test_a_name_is_some_text(name):
    with pytest.raises(SettingsError, match=rf"name is {name!r}; expected some text"):
        clinic(name=name)


@pytest.mark.parametrize("model", [None, 3, object()])
def test_what_cannot_fit_and_predict_is_no_model(model):
    with pytest.raises(ModelError, match=r"clinic: model is .*; expected a torch module, an object with fit and"):
        Participant("clinic", model, (X, Y))


def test_a_model_is_checked_when_its_owner_joins():
    with pytest.raises(ModelError, match=r"clinic: Linear puts out \(2, 3\) .*; expected \(2, 2\)"):
        clinic(nn.Linear(2, 3)).join(0, None)


@pytest.fixture
def builders(tmp_path, monkeypatch):
    (tmp_path / "our_models.py").write_text(
        "from sklearn.tree import DecisionTreeClassifier\n"
        "from torch import nn\n"
        "def net(classes, input_shape):\n    return nn.Linear(*input_shape, classes)\n"
        "def fixed():\n    return nn.Linear(2, 2)\n"
        "def tree(depth=3):\n    return DecisionTreeClassifier(max_depth=depth)\n"
        "def nothing():\n    return None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


def joined(path, seed=0, **settings):
    p = clinic(path, **settings)
    p.join(seed, None)
    return p


@pytest.mark.usefixtures("builders")
def test_a_model_by_path_is_built_for_the_data_when_its_owner_joins():
    waiting = clinic("our_models:net")
    assert waiting.model == "our_models:net"
    assert repr(waiting) == "Participant('clinic', our_models:net, 4 samples, labels ['cat', 'dog'])"
    with pytest.raises(ModelError, match="'our_models:net' is built when the participant joins"):
        _ = waiting.learner
    built = joined("our_models:net", labels=["cat", "dog", "emu"]).model
    assert (built.in_features, built.out_features) == (2, 3)
    assert joined("our_models:fixed").model.out_features == 2
    assert joined("our_models:tree").model.max_depth == 3
    assert joined("sklearn.tree:DecisionTreeClassifier").model.max_depth is None


@pytest.mark.usefixtures("builders")
def test_a_model_by_path_starts_from_the_seed_and_the_name():
    def start(*arguments, **settings):
        return joined("our_models:net", *arguments, **settings).model.weight

    torch.manual_seed(1)
    first = start(3)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert torch.equal(start(3), first)
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(start(4), first)
    assert not torch.equal(start(3, name="bank"), first)


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        (lambda input_shape, classes: nn.Linear(input_shape[0], classes), nn.Linear),
        (DecisionTreeClassifier, DecisionTreeClassifier),
        ("MLP", nn.Module),
    ],
    ids=["function", "class", "name in potluck.models"],
)
def test_a_model_may_be_built_by_a_callable_or_by_name(build, kind):
    assert isinstance(joined(build).model, kind)


def test_a_builder_that_needs_more_than_it_is_offered_is_an_error_in_plain_words():
    with pytest.raises(SettingsError, match="'Linear': missing a required argument: 'in_features'"):
        joined(nn.Linear)


@pytest.mark.usefixtures("builders")
def test_a_path_that_builds_no_model_is_an_error():
    with pytest.raises(ModelError, match="clinic: model is None"):
        joined("our_models:nothing")
    with pytest.raises(SettingsError, match=r"has no 'nett'\. Did you mean 'net'"):
        joined("our_models:nett")


def test_a_network_predicts_in_its_owners_words():
    p = clinic()
    assert p.predict(X.numpy()).tolist() == ["dog", "cat", "dog", "cat"]
    torch.testing.assert_close(torch.from_numpy(p.predict_proba(X)), (3 * X).softmax(dim=1))


def test_predicting_leaves_dropout_out():
    p = clinic(nn.Sequential(identity(), nn.Dropout(0.9)))
    np.testing.assert_array_equal(p.predict_proba(X), p.predict_proba(X))


def test_the_plan_prepares_inputs_for_prediction_too():
    p = clinic(plan=Plan(transform=lambda x: x.flip(1)))
    assert p.predict(X).tolist() == ["cat", "dog", "cat", "dog"]


@pytest.mark.parametrize(
    "model", [DecisionTreeClassifier(), RidgeClassifier(), NearestMean()], ids=["tree", "no probabilities", "own"]
)
def test_an_estimator_learns_and_predicts_in_its_owners_words(model):
    p = trained(clinic(model))
    assert p.model is model
    assert p.predict(X).tolist() == Y
    assert p.predict_proba(X).tolist() == [[0, 1], [1, 0], [0, 1], [1, 0]]


def test_an_estimator_that_missed_a_class_gives_it_no_probability():
    p = trained(clinic(DummyClassifier(strategy="prior"), labels=["ant", "cat", "dog", "emu"]))
    assert p.predict_proba(X[:1]).tolist() == [[0, 0.5, 0.5, 0]]


@pytest.mark.parametrize("x", [np.zeros((0, 2)), [["a", "b"]], [[float("nan"), 0.0]]])
def test_inputs_to_predict_are_checked(x):
    with pytest.raises(DataError, match="clinic"):
        clinic().predict(x)


@pytest.mark.parametrize(
    ("x", "told"),
    [(X[:, :1], r"shape \(1,\)"), (X[0], r"shape \(\)"), (TensorDataset(X, X), r"0: shape \(2,\), 1: shape \(2,\)")],
)
def test_other_inputs_than_those_it_was_trained_on_are_told(x, told):
    with pytest.raises(
        DataError, match=rf"clinic: its model cannot read inputs of {told}, and was trained on shape \(2"
    ):
        clinic(identity()).predict(x)


def test_published_test_data_is_restricted_to_ones_own_labels():
    published = SharedData(torch.arange(4.0).reshape(4, 1), np.array(["emu", "dog", "cat", "ant"]))
    mine = clinic().own_test(published)
    assert rows(mine) == [1, 2]
    assert mine.y.tolist() == [1, 0]
    assert clinic(labels=["cat", "dog", "yak"]).own_test(published).y.tolist() == [1, 0]


def test_published_test_data_without_ones_labels_is_none():
    assert clinic().own_test(SharedData(X, np.array(["emu"] * 4))) is None
    assert clinic().own_test(None) is None


def test_test_data_of_ones_own_comes_before_what_is_published():
    own = clinic(test=(X[:1], Y[:1]))
    assert len(own.own_test(SharedData(X, np.array(Y)))) == 1


def test_public_data_is_labelled_where_the_label_is_ones_own():
    p = clinic()
    p.join(0, SharedData(X[:3], np.array(["emu", "cat", "dog"])))
    assert p.public.y.tolist() == [UNLABELLED, 0, 1]
    p.join(0, SharedData(X[:3]))
    assert not p.public.labelled
    p.join(0, None)
    assert p.public is None


def test_a_participant_joins_with_nothing_left_from_another_federation():
    p = clinic()
    p.join(0, None)
    p.state["soft"], p.round = torch.ones(3), 4
    p.join(1, None)
    assert p.state == {}
    assert p.round == 0


def test_weights_are_given_and_taken_by_name():
    p = clinic()
    p.load({"weight": torch.ones(2, 2)})
    assert torch.equal(p.weights()["weight"], torch.ones(2, 2))


def test_an_estimator_has_no_weights_to_give():
    with pytest.raises(ModelError, match="clinic brought a DecisionTreeClassifier; expected a torch module"):
        clinic(DecisionTreeClassifier()).weights()


def test_random_numbers_belong_to_seed_name_round_and_purpose():
    def draw(purpose="votes", seed=0, round=1, **settings):
        p = clinic(**settings)
        p.join(seed, None)
        p.round = round
        return torch.rand(3, generator=p.generator(purpose)).tolist()

    assert draw() == draw()
    others = [draw("masks"), draw(seed=1), draw(round=2), draw(name="bank")]
    assert all(draw() != other for other in others)


def test_a_participant_shows_what_it_brought():
    assert repr(clinic()) == "Participant('clinic', Linear, 4 samples, labels ['cat', 'dog'])"
    assert repr(numbered(validation=0.5)) == "Participant('clinic', Linear, 5 samples, labels [0, 1])"


def test_a_label_space_has_at_least_one_label():
    with pytest.raises(DataError, match="x: the label space is empty; expected at least one label"):
        Participant("x", mlp(0), made_data(20, 0), labels=[])


def test_before_it_joins_it_takes_no_memory_to_work():
    person = Participant("x", mlp(0), made_data(20, 0))
    assert person.working_bytes == 0
    person.join(0, None)
    parameters = 36 * 8 + 8 + 8 * 3 + 3
    assert person.working_bytes == 8 * (6 * parameters + 20 * 36 + 20), (
        "in float64, six times the weights, and the data"
    )


def test_what_is_frozen_takes_memory_once():
    model = mlp(0)
    model[1].requires_grad_(False)
    person = Participant("x", model, made_data(20, 0))
    person.join(0, None)
    assert person.working_bytes == 8 * (36 * 8 + 8 + 6 * (8 * 3 + 3) + 20 * 36 + 20)


def test_a_model_brought_as_an_object_is_looked_at_anew_since_its_owner_may_change_it(monkeypatch):
    looked = []
    monkeypatch.setattr(Network, "look_again", lambda network: looked.append(network))
    own = Participant("own", mlp(0), made_data(20, 0), labels=range(3))
    built = Participant("built", partial(mlp, 0), made_data(20, 0), labels=range(3))
    for person in (own, built):
        person.join(0, None)
        person.look_again()
    assert looked == [own.learner]


def test_head_and_body_are_the_layers_of_its_network():
    person = clinic(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)))
    assert (person.head, person.body) == (("2",), ("0", "1"))
    assert person.network.entries_in(person.head) == {"2.weight", "2.bias"}
    assert person.network.entries_in(person.body) == set(person.weights()) - {"2.weight", "2.bias"}
    named = clinic(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)), head=["1", "2"])
    assert (named.head, named.body) == (("1", "2"), ("0",))


def test_a_network_of_one_layer_has_a_head_and_no_body():
    assert clinic(nn.Sequential(identity())).head == ("0",)
    with pytest.raises(ModelError, match="clinic: Sequential has no parameters beside its head, 0"):
        _ = clinic(nn.Sequential(identity())).body


def test_declared_networks_have_the_precision_of_ones_own():
    """Both read the same batch."""
    people = participants([mlp(0), mlp(1, dtype=torch.float32)])
    potluck.Federation(people, potluck.methods.FML(), engine="serial")
    assert [person.models["common"].dtype for person in people] == [torch.float64, torch.float32]


def test_the_last_layers():
    (person,) = participants([mlp(0)])
    assert [person.last_layers(count) for count in range(3)] == [(), ("3",), ("1", "3")]
    with pytest.raises(ModelError, match="p0: Sequential has 2 layers; asked for 3"):
        person.last_layers(3)
    (named,) = participants([cnn(0)], head=("1", "4"))
    assert [named.last_layers(count) for count in range(3)] == [(), ("1", "4"), ("0", "1", "4")]


def test_what_all_may_see_is_preprocessed_once():
    own, shared = clinic(preprocess=StandardScaler()), SharedData(X, np.array(Y))
    own.join(0, shared)
    assert own.own_test(shared) is own.own_test(shared)
    assert own.public is own.public
    assert torch.equal(own.public.x, own.data.x)
    before = own.public
    own.join(1, shared)
    assert own.public is not before


def test_all_samples_are_prepared_whatever_the_round_and_none_is_seen_before_its_time():
    x = np.arange(12.0).reshape(6, 2)
    member = clinic(
        data=(x, ["cat"] * 4 + ["dog"] * 2),
        preprocess=StandardScaler(),
        window=Window(size=2, step=1),
        plan={"class_weight": "balanced"},
    )
    member.join(0, None)
    assert len(member.thing("data")) == 6
    assert abs(float(member.thing("data").x[:2].mean())) < 1e-9, "fitted in the first window"
    member.round = 4
    assert member.data.columns["weight"].tolist() == [0.75, 1.5]


def test_with_other_data_nothing_is_held_back_again():
    """What it chooses settings by is given apart, whatever share it held back of its own data."""
    me = Participant("clinic", mlp(0), made_data(12, 0), labels=range(3), validation=0.25)
    me.join(0, None)
    assert (len(me.data), len(me.validation)) == (9, 3)
    twin = me.holding(me.data, me.validation)
    twin.join(0, None)
    assert torch.equal(twin.data.x, me.data.x)
    assert torch.equal(twin.validation.x, me.validation.x)
    alone = me.holding(me.data, None)
    alone.join(0, None)
    assert (len(alone.data), alone.validation) == (9, None)
    assert (len(me.data), len(me.validation)) == (9, 3)
