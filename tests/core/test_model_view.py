from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from potluck import ModelError, ModelView
from potluck.core.model_view import HeldTensors, copied, copy_holding, input_of, tapped

X = torch.tensor([[1.0, 2.0], [3.0, -4.0]])


@pytest.fixture
def module():
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    return nn.Sequential(body, nn.BatchNorm1d(3), nn.Linear(3, 2)).eval()


@pytest.fixture
def others(module):
    """Tensors to put in the place of the module's own: twice as large."""
    return {name: 2 * tensor for name, tensor in [*module.named_parameters(), *module.named_buffers()]}


@pytest.fixture
def twin(module, others):
    """The same module with the other tensors in it for good."""
    made = nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), nn.BatchNorm1d(3), nn.Linear(3, 2)).eval()
    made.load_state_dict(others)
    return made


def test_a_net_is_its_module(module):
    assert torch.equal(ModelView(module)(X), module(X))


def test_a_net_with_other_tensors_is_another_network(module, others, twin):
    before = module(X)
    assert torch.equal(ModelView(module, others)(X), twin(X))
    assert torch.equal(module(X), before)


@pytest.mark.parametrize(("name", "width"), [("0", 2), ("0.0", 2), ("1", 3), ("2", 3)])
def test_a_part_is_one_submodule(module, others, twin, name, width):
    x = torch.ones(2, width)
    assert torch.equal(ModelView(module).part(name, x), module.get_submodule(name)(x))
    assert torch.equal(ModelView(module, others).part(name, x), twin.get_submodule(name)(x))


def test_parts_in_a_row_are_the_whole(module, others):
    for net in (ModelView(module), ModelView(module, others)):
        assert torch.equal(net.part(["0.0", "0.1", "1", "2"], X), net(X))
        assert torch.equal(net.part([], X), X)


def test_a_part_with_a_shared_weight_uses_the_other_tensors_too():
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    module[1].weight = module[0].weight
    zeros = {name: torch.zeros_like(tensor) for name, tensor in module.named_parameters()}
    assert torch.equal(ModelView(module, zeros).part("1", X), torch.zeros(2, 2))


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("replaced", [True, False])
def test_a_part_may_leave_running_statistics_alone(running, replaced):
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    tensors = {name: tensor.clone() for name, tensor in module.state_dict().items()} if replaced else None
    seen = tensors if tensors is not None else module.state_dict()
    before = {name: tensor.clone() for name, tensor in seen.items()}
    found = ModelView(module, tensors).part(["0", "1"], X, running=running)
    torch.testing.assert_close(found, ModelView(module, before).part(["0", "1"], X))
    kept = torch.equal(seen["1.running_mean"], torch.zeros(2)) and int(seen["1.num_batches_tracked"]) == 0
    assert kept is not running


def test_taps_show_inner_outputs_beside_the_logits(module, others, twin):
    for net, own in ((ModelView(module), module), (ModelView(module, others), twin)):
        logits, taken = net.taps(X, at=["0.0", "1"])
        assert torch.equal(logits, own(X))
        assert list(taken) == ["0.0", "1"]
        assert torch.equal(taken["0.0"], own[0][0](X))
        assert torch.equal(taken["1"], own[1](own[0](X)))


def test_gradients_flow_through_taps(module):
    ModelView(module).taps(X, at=["0"])[1]["0"].sum().backward()
    assert module[0][0].weight.grad.abs().sum() > 0
    assert module[2].weight.grad is None


def hooks(module):
    return sum(len(part._forward_hooks) for part in module.modules())


def test_taps_leave_nothing_behind(module):
    ModelView(module).taps(X, at=["0", "2"])
    with pytest.raises(RuntimeError):
        ModelView(module).taps(torch.ones(2, 9), at=["0"])
    with pytest.raises(ModelError), tapped(module, ["0", "nowhere"]):
        pass
    assert hooks(module) == 0


@pytest.mark.parametrize("ask", [lambda net: net.part("0.00", X), lambda net: net.taps(X, at=["0.00"])])
def test_an_unknown_layer_is_named_with_the_nearest(module, ask):
    with pytest.raises(ModelError, match=r"no layer '0\.00'\. Did you mean '0\.0'\? Known: 0, 0\.0, 0\.1, 1, 2\."):
        ask(ModelView(module))


def test_parameters_are_the_trainable_ones(module, others):
    module[0][0].weight.requires_grad_(False)
    names = {"0.0.bias", "1.weight", "1.bias", "2.weight", "2.bias"}
    own, replaced = ModelView(module).parameters, ModelView(module, others).parameters
    assert set(own) == set(replaced) == names
    assert own["2.bias"] is module[2].bias
    assert replaced["2.bias"] is others["2.bias"]


def test_a_tap_shows_what_the_layer_put_out_even_if_the_next_one_writes_over_it():
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True))
    x = torch.randn(5, 3)
    _, taken = ModelView(module).taps(x, at=["0"])
    torch.testing.assert_close(taken["0"], module[0](x))
    assert (taken["0"] < 0).any()


def test_what_goes_into_a_layer_can_be_tapped(module, others, twin):
    for net, own in ((ModelView(module), module), (ModelView(module, others), twin)):
        _, taken = net.taps(X, at=["1", input_of("2"), input_of("0.1"), input_of("")])
        torch.testing.assert_close(taken[input_of("2")], taken["1"], rtol=0, atol=0)
        torch.testing.assert_close(taken[input_of("0.1")], own[0][0](X))
        assert torch.equal(taken[input_of("")], X)
    with pytest.raises(ModelError, match=r"no layer '3'"):
        ModelView(module).taps(X, at=[input_of("3")])


def test_an_input_is_shown_as_it_came_even_if_the_layer_writes_over_it():
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True))
    x = torch.randn(5, 3)
    _, taken = ModelView(module).taps(x, at=[input_of("1")])
    torch.testing.assert_close(taken[input_of("1")], module[0](x))


class Recurrent(nn.Module):
    """A layer that puts out several tensors, and one that is given its input by keyword."""

    def __init__(self):
        super().__init__()
        self.cells, self.fc = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(input=self.cells(x)[0][:, -1])


def test_of_several_tensors_the_first_is_tapped_and_without_one_it_is_an_error():
    module, x = Recurrent(), torch.randn(5, 6, 3)
    _, taken = ModelView(module).taps(x, at=["cells", input_of("cells")])
    torch.testing.assert_close(taken["cells"], module.cells(x)[0])
    assert torch.equal(taken[input_of("cells")], x)
    with pytest.raises(ModelError, match="No tensor passes at 'input of fc' by position"):
        ModelView(module).taps(x, at=[input_of("fc")])


def test_a_layer_that_never_runs_has_no_input():
    module = nn.Sequential(nn.Linear(2, 2))
    module.spare = nn.Identity()
    module.forward = lambda x: module[0](x)
    with pytest.raises(ModelError, match="did not run its layer 'spare'"):
        ModelView(module).taps(X, at=[input_of("spare")])


def test_a_copy_may_hold_some_parameters_together_with_the_original(module):
    twin = copy_holding(module, ["2.weight"])
    assert twin[2].weight.data_ptr() == module[2].weight.data_ptr()
    assert not twin[2].weight.requires_grad
    assert module[2].weight.requires_grad
    assert twin[2].bias.data_ptr() != module[2].bias.data_ptr()
    assert torch.equal(twin(X), module(X))


def test_tensors_that_are_not_replaced_are_the_modules_own(module, others, twin):
    some = {name: tensor for name, tensor in others.items() if name.startswith("0.")}
    view = ModelView(module, some)
    assert torch.equal(view(X), module[2](module[1](twin[0](X))))
    assert torch.equal(view.part(["0.0", "0.1"], X), twin[0](X))
    assert view.parameters["2.bias"] is module[2].bias


# Where a module's tensors are


class OfItsOwn(nn.Module):
    """Tells its state in a way of its own."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("seen", torch.zeros(1), persistent=False)

    def state_dict(self, *args, **settings):
        return {"renamed": self.weight.detach()}


def tied():
    first = nn.Linear(3, 3)
    return nn.Sequential(first, nn.ReLU(), first, nn.BatchNorm1d(3, affine=False))


def with_buffers():
    module = nn.Linear(2, 2)
    module.register_buffer("kept", torch.ones(1))
    module.register_buffer("left out", torch.zeros(1), persistent=False)
    module.register_buffer("none", None)
    return nn.Sequential(module)


@pytest.mark.parametrize("make", [tied, OfItsOwn, with_buffers])
def test_tensors_are_told_as_torch_tells_them(make):
    module = make()
    held = HeldTensors(module)
    for found, expected in (
        (held.parameters, dict(module.named_parameters())),
        (held.all, {**dict(module.named_parameters()), **dict(module.named_buffers())}),
        (held.state, module.state_dict()),
    ):
        assert list(found) == list(expected)
        assert all(found[name].data_ptr() == expected[name].data_ptr() for name in expected)


def test_a_state_that_a_hook_changes_is_asked_for_anew():
    module = with_buffers()
    module.register_state_dict_post_hook(lambda module, state, prefix, local: state.pop("0.kept") and None)
    assert "0.kept" not in HeldTensors(module).state


def exchange_a_layer(module):
    module[0] = nn.Linear(2, 2)


def exchange_a_parameter(module):
    module[0].weight = nn.Parameter(torch.zeros(2, 2))


def tie(module):
    module[0].register_parameter("more", module[0].weight)


def set_what_was_none(module):
    module[0].none = torch.ones(1)


def rename(module):
    weight = module[0].weight
    del module[0]._parameters["weight"], module[0]._parameters["bias"]
    module[0]._parameters.update({"weights": weight})


def add_to_an_empty_layer(module):
    module.register_buffer("new", torch.ones(1))


@pytest.mark.parametrize(
    "change", [exchange_a_layer, exchange_a_parameter, tie, set_what_was_none, rename, add_to_an_empty_layer]
)
def test_what_is_exchanged_in_a_module_is_seen(change):
    module = with_buffers()
    held = HeldTensors(module)
    with torch.no_grad():
        module[0].weight.add_(1)
        module[0].weight.data = torch.ones(2, 2)
    assert held.are_of(module)
    assert not held.are_of(with_buffers())
    change(module)
    assert not held.are_of(module)


# Copies


class Odd(nn.Module):
    """Holds what is not plain: itself, lists of layers, a nested table, a tensor that is no parameter, a function."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.tied = self.first
        self.outside = [nn.Linear(1, 1), {"deep": [1, [2]]}]
        self.table = {("a", 1): {"b": {1, 2}}}
        self.plain = torch.arange(3)
        self.pair = (self.plain, "text")
        self.rule = torch.relu
        self.again = {"me": self}
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self.register_buffer("kept", torch.ones(2).double(), persistent=False)
        self.register_forward_hook(str)


class OwnCopy(nn.Module):
    def __deepcopy__(self, memo):
        return "a copy of its own"


def test_a_copy_is_one_by_deepcopy():
    module = nn.Sequential(Odd(), nn.BatchNorm1d(3)).eval()
    mine, usual = copied(module), copy.deepcopy(module)
    assert [type(part) for part in mine.modules()] == [type(part) for part in usual.modules()]
    assert [list(vars(part)) for part in mine.modules()] == [list(vars(part)) for part in usual.modules()]
    for (name, found), (other, expected) in zip(mine.named_parameters(), usual.named_parameters(), strict=True):
        assert name == other
        assert torch.equal(found, expected)
        assert found.requires_grad == expected.requires_grad
    own, odd = {id(part) for part in module.modules()}, mine[0]
    assert own.isdisjoint(id(part) for part in mine.modules())
    pointers = {tensor.data_ptr() for tensor in (*module.parameters(), *module.buffers())}
    assert pointers.isdisjoint(tensor.data_ptr() for tensor in (*mine.parameters(), *mine.buffers()))
    assert odd.tied is odd.first
    assert odd.again["me"] is odd
    assert odd.pair[0] is odd.plain
    assert odd.plain is not module[0].plain
    assert torch.equal(odd.plain, torch.arange(3))
    assert odd.outside[0] is not module[0].outside[0]
    assert odd.outside[1] is not module[0].outside[1]
    assert odd.table == {("a", 1): {"b": {1, 2}}}
    assert odd.table[("a", 1)]["b"] is not module[0].table[("a", 1)]["b"]
    assert odd.rule is torch.relu
    assert len(odd._forward_hooks) == 1
    assert not mine[1].training
    assert odd.kept.dtype == torch.float64
    assert "kept" not in odd.state_dict()


def test_a_class_may_copy_itself_in_a_way_of_its_own():
    assert copied(OwnCopy()) == "a copy of its own"
