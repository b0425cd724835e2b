"""Adapters: what they add, what is trained, and how they are stored."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import potluck
from potluck.core.errors import ModelError
from potluck.models import adapted_layers, build, lora, merged, save_adapters


def base(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(48, 6), nn.Linear(6, 2))


def filled(module):
    """The same network with adapters that add something."""
    torch.manual_seed(1)
    for layer in adapted_layers(module).values():
        nn.init.normal_(layer.lora_B["default"].weight)
    return module


def test_it_begins_as_the_network_it_is_put_into_which_stays_as_it_is():
    plain, x = base(), torch.randn(4, 1, 4, 4)
    adapted = lora(plain, 2)
    torch.testing.assert_close(adapted(x), plain(x), rtol=0, atol=0)
    assert all(parameter.requires_grad for parameter in plain.parameters())


def test_adapters_and_the_last_layer_are_trained_and_nothing_else():
    trained = {name for name, parameter in lora(base(), 2).named_parameters() if parameter.requires_grad}
    assert trained == {
        *(f"{layer}.lora_{part}.default.weight" for layer in ("0", "3") for part in "AB"),
        "4.weight",
        "4.bias",
    }
    everything = lora(base(), 2, targets=["0", "3", "4"])
    assert not any(name.startswith("4.base") and p.requires_grad for name, p in everything.named_parameters())


def test_by_hand():
    """W = [[1, 0], [0, 1]], A = [2, 3], B = [1, 4]ᵀ, α/r = 2: x = (1, 1) gives (1, 1) + 2 · 5 · (1, 4)."""
    layer = nn.Linear(2, 2, bias=False)
    layer.weight.data = torch.eye(2)
    module = lora(nn.Sequential(layer), 1, targets=["0"], alpha=2)
    adapter = module[0]
    adapter.lora_A["default"].weight.data = torch.tensor([[2.0, 3.0]])
    adapter.lora_B["default"].weight.data = torch.tensor([[1.0], [4.0]])
    assert module(torch.ones(1, 2)).tolist() == [[11.0, 41.0]]
    assert adapter.update().tolist() == [[4.0, 6.0], [16.0, 24.0]]


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("train", [True, False])
def test_torchs_own_transformer_takes_weights_from_its_layers_adapters_included(norm_first, train):
    """In evaluation it does so for all of its layers, in training for the last of its attention."""
    torch.manual_seed(0)
    block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=norm_first)
    adapted = filled(
        lora(nn.Sequential(nn.TransformerEncoder(block, 2, enable_nested_tensor=False), nn.Linear(8, 2)), 2)
    )
    x = torch.randn(3, 5, 8)
    with torch.set_grad_enabled(train):
        torch.testing.assert_close(adapted.train(train)(x), merged(adapted).train(train)(x), rtol=1e-4, atol=1e-5)
    if train:
        adapted(x).square().sum().backward()
        assert all(p.grad.abs().sum() > 0 for p in adapted.parameters() if p.requires_grad)


def test_what_adapters_add_can_be_put_into_the_weights():
    adapted, x = filled(lora(base(), 2, alpha=3)), torch.randn(4, 1, 4, 4)
    plain = merged(adapted)
    assert list(plain.state_dict()) == list(base().state_dict())
    torch.testing.assert_close(plain(x), adapted(x))
    assert not torch.allclose(plain(x), base()(x))


def test_full_rank_can_be_any_change():
    """With B the identity and A any matrix, a layer takes any other weights."""
    other = nn.Linear(4, 4)
    module = lora(nn.Sequential(nn.Linear(4, 4)), 4, targets=["0"])
    adapter = module[0]
    adapter.lora_B["default"].weight.data = torch.eye(4)
    adapter.lora_A["default"].weight.data = (other.weight - adapter.base_layer.weight).detach()
    torch.testing.assert_close(merged(module)[0].weight, other.weight)


def test_targets_are_paths_or_their_last_parts():
    model = build("transformer", (8,), 3, width=8, heads=2)
    found = adapted_layers(lora(model, 2, targets=["query", "blocks.1.outer"]))
    assert list(found) == ["blocks.0.attention.query", "blocks.1.attention.query", "blocks.1.outer"]
    with pytest.raises(ModelError, match="no linear layer or convolution 'qeury'"):
        lora(model, 2, targets=["qeury"])
    with pytest.raises(ModelError, match="has no linear layer or convolution to put an adapter beside"):
        lora(nn.Embedding(3, 4), 2)
    with pytest.raises(ModelError, match="but the last one, '0', which is trained whole"):
        lora(nn.Sequential(nn.Linear(3, 4)), 2)


def test_files_are_named_as_peft_names_them(tmp_path):
    adapted = filled(lora(base(), 2, alpha=4))
    save_adapters(adapted, tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (config["peft_type"], config["r"], config["lora_alpha"]) == ("LORA", 2, 4)
    assert config["target_modules"] == ["0", "3"]
    tensors = load_file(tmp_path / "adapter_model.safetensors")
    assert sorted(tensors) == [f"base_model.model.{layer}.lora_{part}.weight" for layer in ("0", "3") for part in "AB"]
    with pytest.raises(ModelError, match="has no adapters"):
        save_adapters(base(), tmp_path)


def test_peft_loads_them(tmp_path):
    peft = pytest.importorskip("peft", reason="PEFT is not installed")

    adapted, x = filled(lora(base(), 2, alpha=4)), torch.randn(4, 1, 4, 4)
    loaded = peft.PeftModel.from_pretrained(base(), str(save_adapters(adapted, tmp_path)))
    torch.testing.assert_close(loaded(x), adapted(x))


def test_serial_and_batched_train_adapters_alike_and_leave_the_base():
    random = np.random.default_rng(0)
    data = [(random.normal(size=(12, 1, 4, 4)), random.integers(2, size=12)) for _ in range(3)]

    def play(engine):
        people = [
            potluck.Participant(
                f"p{number}",
                lora(base(number).double(), 2),
                own,
                labels=range(2),
                test=own,
                plan=potluck.Plan(lr=0.05, batch_size=4),
            )
            for number, own in enumerate(data)
        ]
        history = potluck.Federation(people, potluck.methods.Local(), engine=engine).run(2)
        for number, one in enumerate(people):
            assert torch.equal(one.model[3].base_layer.weight, base(number).double()[3].weight)
            assert one.model[3].lora_B["default"].weight.abs().max() > 0
        return history

    for one, other in zip(play("serial").rows(), play("batched").rows(), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-9)


def test_in_a_run_file_it_is_a_model_of_another_model():
    made = build("lora", (1, 6, 6), 3, base="mlp", rank=2, settings={"hidden": [8]})
    assert list(adapted_layers(made)) == ["1"]
    with pytest.raises(ModelError, match="makes a DecisionTreeClassifier"):
        build("lora", (1, 6, 6), 3, base="sklearn.tree:DecisionTreeClassifier", rank=2)


def test_networks_made_of_one_base_may_hold_it_once():
    module = base()
    one, other = (lora(module, 2, share_base=True) for _ in range(2))
    for name, parameter in one.named_parameters():
        twin = other.get_parameter(name)
        assert (parameter.data_ptr() == twin.data_ptr()) is not parameter.requires_grad
    assert one[0].base_layer.weight.data_ptr() == module[0].weight.data_ptr()
    assert one[4].weight.data_ptr() != module[4].weight.data_ptr()
    assert all(parameter.requires_grad for parameter in module.parameters())
    torch.testing.assert_close(one(x := torch.randn(4, 1, 4, 4)), module(x), rtol=0, atol=0)
    assert lora(module, 2)[0].base_layer.weight.data_ptr() != module[0].weight.data_ptr()
