from __future__ import annotations

import pytest
import torch
from sklearn.tree import DecisionTreeClassifier
from torch.func import functional_call, grad, vmap

import potluck
from potluck.core.errors import SettingsError
from potluck.models import CLASSES, INPUT_SHAPE, MODELS, build, describe, makes_models
from potluck.models.densenet import DEPTHS as DENSENETS
from potluck.models.resnet import DEPTHS as RESNETS
from potluck.models.resnet import Bottleneck
from tests.tables import made_data


def test_the_zoo_has_every_model_of_the_papers():
    expected = {"mlp", "random_mlp", "cnn", "random_cnn", *(f"cofed{number}" for number in range(1, 11))}
    expected |= {f"resnet{depth}" for depth in (10, 14, 18, 22, 26, 34, 50, 101, 152)}
    expected |= {f"densenet{depth}" for depth in (121, 161, 169, 201)}
    assert expected <= set(MODELS)
    assert "ResNet-18" in MODELS


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32)])
@pytest.mark.parametrize("name", ["mlp", "random_mlp", "cnn", "random_cnn", "cofed3", "cofed10"])
def test_small_models_read_every_shape(name, shape):
    assert build(name, shape, 4)(torch.zeros(2, *shape)).shape == (2, 4)


def test_settings_go_to_the_builder():
    assert build("cnn", (1, 8, 8), 3, channels=[5, 6]).conv2.out_channels == 6
    assert build("resnet10", (1, 8, 8), 3, stem="small").conv1.kernel_size == (3, 3)
    narrow = build("resnet10", (1, 32, 32), 3, width=8)
    assert [narrow.conv1.out_channels, narrow.fc.in_features] == [8, 64]


def test_a_callable_elsewhere_gets_what_it_takes():
    assert build("potluck.models.cnn:cnn", (1, 8, 8), 3, channels=[5]).conv1.out_channels == 5
    tree = build("sklearn.tree:DecisionTreeClassifier", (1, 8, 8), 3, max_depth=2)
    assert isinstance(tree, DecisionTreeClassifier)
    assert tree.max_depth == 2


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("resnet19", {}, "There is no model 'resnet19'. Did you mean 'resnet1"),
        ("cnn", {"chanels": [3]}, "'cnn' has no setting 'chanels'. Did you mean 'channels'?"),
        ("resnet18", {"depth": 50}, "'resnet18' has no setting 'depth'"),
        ("resnet18", {"width": 0}, r"width = \[0\]; expected whole numbers above 0"),
    ],
)
def test_unknown_names_and_settings_are_told(name, settings, message):
    with pytest.raises(SettingsError, match=message):
        build(name, (3, 32, 32), 10, **settings)


def test_describe_lists_the_zoo_with_sizes():
    rows = {row["name"]: row for row in describe()}
    assert (INPUT_SHAPE, CLASSES) == ((3, 32, 32), 10)
    assert rows.keys() == set(MODELS)
    assert rows["resnet18"] | {"about": ""} == {
        "name": "resnet18",
        "family": "resnet",
        "parameters": 11_181_642,
        "about": "",
    }
    assert rows["random_cnn"]["parameters"] is None
    assert all(row["about"].endswith(".") for row in rows.values())


def test_a_participant_builds_one_under_the_seed_of_the_federation():
    def weights(seed):
        party = potluck.Participant("a", "potluck.models:random_cnn", made_data(20, 0, dtype="float32"))
        party.join(seed, None)
        return party.weights()

    first, again = weights(3), weights(3)
    assert all(torch.equal(entry, again[name]) for name, entry in first.items())
    assert len({tuple(entry.shape for entry in weights(seed).values()) for seed in range(6)}) > 1


@pytest.fixture
def small_depths(monkeypatch):
    """ResNets and DenseNets with one block of each kind in a stage."""
    monkeypatch.setitem(RESNETS, 14, (Bottleneck, (1, 1, 1, 1)))
    monkeypatch.setitem(DENSENETS, 121, (8, 4, (1, 1, 1, 1)))


@pytest.mark.usefixtures("small_depths")
@pytest.mark.parametrize("name", ["mlp", "cofed2", "resnet10", "resnet14", "densenet121"])
def test_engines_can_stack_them_in_training_mode(name):
    """Gradients of two stacked copies are those of each alone, and so are the running statistics."""
    torch.manual_seed(0)
    shape = (3, 32, 32) if name.startswith("densenet") else (3, 8, 8)
    modules = [build(name, shape, 4).double().train() for _ in range(2)]
    x = torch.randn(2, 3, *shape, dtype=torch.float64)

    def loss(parameters, buffers, x):
        written = {name: buffer.clone() for name, buffer in buffers.items()}
        return functional_call(modules[0], {**parameters, **written}, (x,)).square().sum(), written

    def stacked(entries):
        return {name: torch.stack([dict(entry)[name].detach() for entry in entries]) for name in dict(entries[0])}

    parameters = stacked([dict(module.named_parameters()) for module in modules])
    buffers = stacked([dict(module.named_buffers()) for module in modules])
    gradients, written = vmap(grad(loss, has_aux=True))(parameters, buffers, x)
    for index, module in enumerate(modules):
        module(x[index]).square().sum().backward()
        for path, parameter in module.named_parameters():
            torch.testing.assert_close(gradients[path][index], parameter.grad, rtol=1e-6, atol=1e-8)
        for path, buffer in module.named_buffers():
            torch.testing.assert_close(written[path][index], buffer)


def test_what_makes_models_and_what_is_one():
    assert all(makes_models(builder) for builder in ("cnn", torch.nn.Linear, lambda: None))
    assert not any(makes_models(model) for model in (torch.nn.Linear(1, 1), DecisionTreeClassifier(), 3))
