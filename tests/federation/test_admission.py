"""Who is admitted: names, models, inputs, and what a method needs."""

from __future__ import annotations

import copy
import re
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from potluck import DataError, Federation, Participant, RequirementsError
from potluck.core.errors import SettingsError
from potluck.core.samples import SharedData
from potluck.federation.admission import Admission, published
from potluck.methods import CoFED, FedAvg, Local
from tests.tables import PLAN, cnn, made_data, mlp, participants


def flat(rows, seed, **settings):
    """A participant whose inputs are plain rows."""
    x, y = made_data(rows, seed)
    return Participant(f"flat{seed}", DecisionTreeClassifier(), (x.reshape(rows, -1), y), labels=range(3), **settings)


def as_bytes(x):
    return (np.clip(x, 0, 1) * 255).astype("uint8")


def tree(name, x, y, **settings):
    return Participant(name, DecisionTreeClassifier(), (x, y), **settings)


@pytest.mark.parametrize("odd", ["validation", "test", "published test"])
def test_what_a_model_is_tried_on_looks_like_what_it_was_trained_on(odd):
    x, y = made_data(20, 0)
    wide = np.repeat(x, 2, axis=2), y
    settings = {} if odd == "published test" else {odd: wide}
    what = odd.removeprefix("published ")
    expected = rf"^The {what} data of b has inputs of shape \(1, 12, 6\), its training data of shape \(1, 6, 6\);"
    with pytest.raises(DataError, match=expected):
        Federation([tree("b", x, y, **settings)], Local(), test=wide if odd == "published test" else None)


def test_weights_that_nobody_uses_are_told(caplog):
    x, y = made_data(20, 0)
    flat, weight = x.reshape(20, -1), np.ones(20)
    models = {"a": KNeighborsClassifier(), "b": DecisionTreeClassifier(), "c": mlp(0).float()}
    Federation(
        [Participant(name, model, (flat.astype("float32"), y, weight)) for name, model in models.items()], Local()
    )
    assert caplog.messages == [
        "a: the fit of KNeighborsClassifier takes no sample_weight, so all its samples count the same"
    ]


def test_inputs_may_differ_where_the_method_needs_no_one_kind():
    x, y = made_data(20, 0)
    people = [tree("a", x, y), tree("b", x[:, :, :3], y), tree("c", as_bytes(x), y)]
    assert len(Federation(people, Local()).run(1).rows()) == 3
    expected = r"public data has inputs of shape \(1, 6, 6\), b of shape \(1, 3, 6\); they are unlike at b, c\. Convert"
    with pytest.raises(RequirementsError, match=expected):
        Federation(people, CoFED(), public=x)
    assert len(Federation(people, Local(), public=x[:, :, 1:]).participants) == 3, "which nobody reads"


def test_averaged_models_read_inputs_of_one_kind():
    x, y = made_data(20, 0)

    def network():
        return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4, 3)).double()

    people = [
        Participant("a", network(), (x, y), plan=PLAN),
        Participant("b", network(), (x[:, :, :3], y), plan=PLAN),
        Participant("c", network(), (as_bytes(x), y), plan=PLAN),
    ]
    assert len(Federation(people, FedAvg(aggregation="layerwise")).participants) == 3
    with pytest.raises(RequirementsError, match=r"a has inputs of shape \(1, 6, 6\), b of .*; they are unlike at b, c"):
        Federation(people, FedAvg())


def test_types_of_numbers_may_differ():
    x, y = made_data(20, 0)
    people = [Participant(t, DecisionTreeClassifier(), (x.astype(t), y)) for t in ("float32", "float64", "int64")]
    assert len(Federation(people, Local()).participants) == 3


def test_one_model_object_has_one_owner():
    module = mlp(0)
    with pytest.raises(SettingsError, match=r"^p0 and p1 bring the same model object"):
        Federation(participants([module, module]), Local())
    Federation(participants([module, copy.deepcopy(module)]), Local())
    builder = partial(mlp, 0)
    Federation(participants([builder, builder]), Local())  # a function that makes models may be everybody's


def test_equal_architectures_are_inspected_once(monkeypatch):
    from potluck.learners.network import Network

    probed = []
    probe = Network.probe
    monkeypatch.setattr(Network, "probe", lambda self, *args: probed.append(self) or probe(self, *args))
    Federation(participants([mlp(0), cnn(1), mlp(2), mlp(3)]), Local())
    assert len(probed) == 2


def test_whoever_does_not_fit_is_named_among_those_who_do():
    people = [*participants([mlp(0), cnn(1)]), flat(10, 5)]
    x = made_data(20, 0)[0]
    with pytest.raises(RequirementsError, match="no torch modules: flat5"):
        Federation(people, FedAvg())
    with pytest.raises(RequirementsError, match=r"FedAvg does not fit this federation:\n- .* differ from p0's: p1; p1"):
        Federation(participants([mlp(0), cnn(1), mlp(2)]), FedAvg(), public=x)


def test_one_of_each_kind_decides_and_all_are_named():
    """Of many that are alike, one is looked at; if it does not fit, the error names all of them."""
    people = participants([cnn(0), mlp(1), mlp(2), cnn(3), mlp(4)])
    with pytest.raises(RequirementsError, match="differ from p0's: p1, p2, p4;"):
        Federation(people, FedAvg())


def test_plans_and_label_spaces_make_kinds_of_their_own():
    x, y = made_data(20, 0)
    people = [Participant("a", mlp(0), (x, y), labels=range(3), plan=PLAN)]
    people.append(Participant("b", mlp(1, classes=4), (x, y), labels=range(4), plan=PLAN))
    with pytest.raises(RequirementsError, match=re.escape("differ from a's [0, 1, 2]: b; give all of them the same")):
        Federation(people, FedAvg(aggregation="layerwise"))


def test_public_data_may_be_given_in_any_form():
    x, y = made_data(6, 0)
    dataset = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    assert published(None) is None
    shown = SharedData(torch.from_numpy(x))
    assert published(shown) is shown
    inputs = published(x)
    assert inputs is not None
    assert inputs.y is None
    assert inputs.x.equal(torch.from_numpy(x))
    for given in ((x, y), dataset):
        found = published(given)
        assert found is not None
        assert found.x.equal(torch.from_numpy(x))
        assert list(found.y) == y.tolist()


def test_whether_public_data_have_labels_is_seen():
    class Labelled(CoFED):
        needs = CoFED.needs.__class__(public="labels")

    x, y = made_data(20, 0)
    Federation(participants([mlp(0), mlp(1)]), Labelled(), public=(x, y))
    with pytest.raises(RequirementsError, match="it needs labels on the public data"):
        Federation(participants([mlp(0), mlp(1)]), Labelled(), public=x)
    with pytest.raises(RequirementsError, match="it needs public data, and there is none"):
        Federation(participants([mlp(0), mlp(1)]), CoFED())


def noisy(x):
    return x.double() + torch.rand_like(x.double())


def test_a_prediction_that_would_differ_each_time_is_refused_where_one_is_asked_for():
    """Whoever is tested is asked for predictions; whoever is not may draw as it likes."""
    people = [Participant("a", mlp(0), made_data(20, 0), plan=PLAN.replace(transform=noisy), labels=range(3))]
    assert Federation(people, Local()).test_of(people[0]) is None
    with pytest.raises(SettingsError, match=r"^a: the plan's transform .*noisy draws random numbers"):
        Federation(people, Local(), test=made_data(10, 1))


def test_public_data_that_somebody_cannot_read_is_told_before_training():
    x, _ = made_data(20, 0)
    gaps = np.full_like(x, np.nan)
    with pytest.raises(DataError, match="public data: 20 of 20 samples hold NaN"):
        Federation(participants([mlp(0), mlp(1)]), CoFED(), public=gaps)
    assert Federation(participants([mlp(0)]), Local(), public=gaps).participants, "which nobody reads"


class Elsewhere(Participant):
    """Taken for one on another machine."""

    is_local = False


def test_those_on_other_machines_are_of_different_kinds_too():
    """Of each kind one is looked at: of what their inputs are like, and of their tasks."""
    x, y = made_data(12, 0)
    admission = Admission()
    for name, inputs, targets, task in (("a", x, y, None), ("b", x[..., :3], y, None), ("c", x, y * 1.0, "regression")):
        admission.admit(Elsewhere(name, mlp(0), (inputs, targets), task=task), lambda participant: None)
    with pytest.raises(RequirementsError) as caught:
        admission.check_fit(FedAvg(), None)
    told = str(caught.value)
    assert "b" in told
    assert "c" in told
    Admission().check_fit(Local(), None)
