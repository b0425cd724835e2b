from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import nn

from potluck.core.errors import ModelError, SettingsError
from potluck.core.model_view import ModelView, input_of
from potluck.learners.structure import Stages, convolutions, draft_point, feature_width, find_head, find_stages
from potluck.models import cnn, densenet, lora, mlp, resnet, transformer
from potluck.models.densenet import DEPTHS

IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _small_densenet(monkeypatch):
    """DenseNet121 with two layers in each block."""
    monkeypatch.setitem(DEPTHS, 121, (8, 4, (2, 2, 2, 2)))


def block(before, after):
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU())


class Own(nn.Module):
    """A user's module: its children, and what its forward makes of them."""

    def __init__(self, forward, **children):
        super().__init__()
        self.way = forward
        for name, child in children.items():
            self.add_module(name, child)

    def forward(self, x):
        return self.way(self, x)


class TestConvolutions:
    def test_shortcuts_are_not_counted(self):
        network = resnet(18, (3, 32, 32), 10)
        found = convolutions(network)
        assert len(found) == 17
        assert found[:2] == ["conv1", "layer1.0.conv1"]
        assert found[-1] == "layer4.1.conv2"
        assert len(convolutions(network, count_shortcuts=True)) == 20

    def test_definition_order_in_a_densenet(self):
        found = convolutions(densenet(121, (3, 32, 32), 10))
        assert found[:3] == [
            "features.conv0",
            "features.denseblock1.denselayer1.conv1",
            "features.denseblock1.denselayer1.conv2",
        ]
        assert "features.transition1.conv" in found

    @pytest.mark.parametrize("name", ["shortcut", "skip", "identity", "downsample"])
    def test_a_shortcut_may_be_the_convolution_itself(self, name):
        network = nn.Sequential(OrderedDict({"conv": nn.Conv1d(1, 1, 3), name: nn.Conv1d(1, 1, 1)}))
        assert convolutions(network) == ["conv"]

    def test_none_is_an_error_that_says_what_was_looked_for(self):
        with pytest.raises(ModelError, match=r"no convolution: looked for Conv1d and Conv2d modules\. Name the layers"):
            convolutions(mlp((4,), 2))
        with pytest.raises(ModelError, match="outside of shortcuts"):
            convolutions(nn.Sequential(OrderedDict(skip=nn.Conv2d(1, 1, 1))))


class TestDraftPoint:
    def test_of_a_resnet_are_its_batch_norms(self):
        network = resnet(10, (3, 32, 32), 10)
        assert draft_point(network, "conv1", IMAGES) == "bn1"
        assert draft_point(network, "layer4.0.conv2", IMAGES) == "layer4.0.bn2"
        assert draft_point(network, "layer2.0.downsample.0", IMAGES) == "layer2.0.downsample.1"

    def test_of_a_densenet_is_a_batch_norm_only_where_it_reads_nothing_else(self):
        """The last convolution's output goes on together with its block's input."""
        network = densenet(121, (3, 32, 32), 10)
        assert draft_point(network, "features.conv0", IMAGES) == "features.norm0"
        layer = "features.denseblock4.denselayer2"
        assert draft_point(network, f"{layer}.conv1", IMAGES) == f"{layer}.norm2"
        assert draft_point(network, f"{layer}.conv2", IMAGES) == f"{layer}.conv2"
        assert draft_point(network, "features.transition1.conv", IMAGES) == "features.transition1.conv"

    def test_of_a_plain_cnn_is_the_convolution(self):
        assert draft_point(cnn((3, 32, 32), 10), "conv2", IMAGES) == "conv2"

    def test_goes_by_what_runs_and_not_by_names(self):
        network = Own(
            lambda own, x: own.first(own.bn2(own.conv1(x))),
            first=nn.BatchNorm2d(4),
            conv1=nn.Conv2d(3, 4, 3),
            bn1=nn.BatchNorm2d(4),
            bn2=nn.BatchNorm2d(4),
        )
        assert draft_point(network, "conv1", IMAGES) == "bn2"

    def test_an_activation_in_place_stands_between(self):
        network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace=True), nn.BatchNorm2d(4))
        assert draft_point(network, "0", IMAGES) == "0"

    def test_the_network_stays_as_it_is(self):
        network = resnet(10, (3, 32, 32), 10).train()
        network.bn1.eval()
        before = {name: entry.clone() for name, entry in network.state_dict().items()}
        draft_point(network, "conv1", IMAGES)
        find_stages(network, IMAGES)
        assert all(torch.equal(entry, before[name]) for name, entry in network.state_dict().items())
        assert [name for name, layer in network.named_modules() if not layer.training] == ["bn1"]
        assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in network.modules())

    def test_errors_say_what_is_wrong(self):
        network = Own(lambda own, x: own.used(x), used=nn.Conv2d(3, 4, 3), unused=nn.Conv2d(3, 4, 3))
        with pytest.raises(ModelError, match="does not use its layer 'unused'; name another"):
            draft_point(network, "unused", IMAGES)
        with pytest.raises(ModelError, match=r"The model has no layer 'usd'\. Did you mean 'used'"):
            draft_point(network, "usd", IMAGES)
        with pytest.raises(ModelError, match=r"cannot read inputs of shape \(2, 3, 32, 32\)"):
            draft_point(network, "used", IMAGES[None])


LAYERS = ("layer1", "layer2", "layer3", "layer4")
DENSE_STAGES = (
    *("denseblock1", "transition1", "denseblock2", "transition2", "denseblock3", "transition3"),
    *("denseblock4", "norm5"),
)
CASES = {
    "ResNet": (
        lambda: resnet(10, (3, 32, 32), 10),
        Stages(("conv1", "bn1", "relu", "maxpool"), LAYERS, ("avgpool", "flatten", "fc")),
    ),
    "ResNet with the small stem": (
        lambda: resnet(10, (3, 32, 32), 10, stem="small"),
        Stages(("conv1", "bn1", "relu"), LAYERS, ("avgpool", "flatten", "fc")),
    ),
    "DenseNet": (
        lambda: densenet(121, (3, 32, 32), 10),
        Stages(
            tuple(f"features.{name}" for name in ("conv0", "norm0", "relu0", "pool0")),
            tuple(f"features.{name}" for name in DENSE_STAGES),
            ("relu", "avgpool", "flatten", "classifier"),
        ),
    ),
    "plain CNN": (
        lambda: cnn((3, 32, 32), 10, channels=(4, 5, 6)),
        Stages(("conv1", "relu1", "pool1"), ("conv2", "relu2", "pool2", "conv3", "relu3", "pool3"), ("flatten", "fc")),
    ),
    "CNN of blocks with two linear layers": (
        lambda: nn.Sequential(
            block(3, 4),
            block(4, 4),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(16, 8),
            nn.ReLU(),
            nn.Linear(8, 2),
        ),
        Stages(("0",), ("1",), ("2", "3", "4", "5", "6")),
    ),
    "wrapped CNN with a stem of two convolutions": (
        lambda: Own(
            lambda own, x: own.head(own.pool(own.body(x))),
            body=nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), block(4, 4), nn.Conv2d(4, 4, 1)),
            pool=nn.MaxPool2d(2),
            head=nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)),
        ),
        Stages(("body.0", "body.1", "body.2"), ("body.3", "body.4"), ("pool", "head")),
    ),
    "list of blocks with a norm behind it": (
        lambda: Own(
            lambda own, x: own.fc(own.flatten(own.pool(own.act(own.norm(own.blocks[1](own.blocks[0](own.stem(x)))))))),
            unused=None,
            stem=nn.Conv2d(3, 4, 3),
            blocks=nn.ModuleList([block(4, 4), block(4, 4)]),
            norm=nn.GroupNorm(2, 4),
            act=nn.ReLU(),
            pool=nn.AvgPool2d(15),
            flatten=nn.Flatten(),
            fc=nn.Linear(16, 2),
        ),
        Stages(("stem",), ("blocks.0", "blocks.1", "norm", "act"), ("pool", "flatten", "fc")),
    ),
}


class TestParts:
    @pytest.mark.parametrize("case", CASES)
    def test_are_found_and_equal_the_whole_in_a_row(self, case):
        make, expected = CASES[case]
        network = make()
        found = find_stages(network, IMAGES)
        assert found == expected
        net = ModelView(network.eval())
        features = net.part(found.intermediate, net.part(found.extractor, IMAGES))
        torch.testing.assert_close(net.part(found.classifier, features), network(IMAGES))

    def test_all_resnets_have_inner_features_of_one_shape(self):
        """FedIN, section 4: 64×8×8 values go in and 512 come out, for 32×32 images."""
        for depth in (10, 14):
            network = resnet(depth, (3, 32, 32), 10).eval()
            found, net = find_stages(network, IMAGES), ModelView(network)
            going_in = net.part(found.extractor, IMAGES)
            assert going_in.shape == (2, 64, 8, 8)
            assert net.part(found.intermediate, going_in).shape == (2, 512, 1, 1)

    def test_a_layer_used_twice_keeps_its_first_name(self):
        relu = nn.ReLU()
        network = nn.Sequential(
            nn.Conv2d(3, 4, 3), relu, nn.Conv2d(4, 4, 3), relu, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(4, 2)
        )
        assert find_stages(network, IMAGES) == Stages(("0", "1"), ("2", "1"), ("4", "5", "6"))

    def test_can_be_named(self):
        network = nn.Sequential(nn.Flatten(), nn.Linear(3072, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 2))
        named = {"extractor": ["0", "1"], "intermediate": ["2", "3"], "classifier": "4"}
        assert find_stages(network, IMAGES, stages=named) == Stages(("0", "1"), ("2", "3"), ("4",))
        with pytest.raises(ModelError, match="is not its stages in a row: 0, 1, 3, 4 do not give its output"):
            find_stages(network, IMAGES, stages={**named, "intermediate": ["3"]})
        with pytest.raises(ModelError, match="no layer '9'"):
            find_stages(network, IMAGES, stages={**named, "classifier": ["9"]})
        with pytest.raises(SettingsError, match="expected layers for each of extractor, intermediate, classifier"):
            find_stages(network, IMAGES, stages={"extractor": ["0"], "classifier": ["4"]})
        with pytest.raises(SettingsError, match="expected layers for each"):
            find_stages(network, IMAGES, stages={**named, "intermediate": []})

    def test_steps_that_are_no_modules_are_an_error(self):
        network = Own(
            lambda own, x: own.fc(own.second(own.first(x)).mean((2, 3))),
            first=block(3, 4),
            second=block(4, 4),
            fc=nn.Linear(4, 2),
        )
        with pytest.raises(ModelError, match=r"Make modules \(nn.Flatten, nn.ReLU, …\) .* or name them: stages="):
            find_stages(network, IMAGES)

    @pytest.mark.parametrize(
        ("network", "message"),
        [
            (mlp((3, 32, 32), 2), "looked for Conv1d and Conv2d"),
            (cnn((3, 32, 32), 2, channels=(4,)), "no intermediate layers: looked for two or more steps .* name them"),
            (
                nn.Sequential(block(3, 4), block(4, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
                "no classifier: looked for a Linear layer after the last convolution, in 1, 2, 3.*name them",
            ),
        ],
    )
    def test_what_is_not_there_is_told(self, network, message):
        with pytest.raises(ModelError, match=message):
            find_stages(network, IMAGES)


class Tokens(nn.Module):
    """What a vision transformer has beside its layers, and a head that stands first but runs last."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)
        self.token = nn.Parameter(torch.zeros(4))
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        x = self.norm(x + self.token)
        return self.head(self.attention(x, x, x)[0].mean(dim=1))


class TestHead:
    @pytest.mark.parametrize(
        ("network", "example", "head", "body"),
        [
            (nn.Sequential(mlp((6,), 3), nn.Softmax(1)), torch.ones(2, 6), "0.5", ["0.1", "0.3"]),
            (resnet(18, (3, 32, 32), 10), IMAGES, "fc", None),
            (Tokens(), torch.ones(2, 3, 4), "head", ["token", "attention.in_proj_weight", "attention.in_proj_bias"]),
        ],
    )
    def test_is_the_last_layer_with_parameters_that_runs(self, network, example, head, body):
        found = find_head(network, example)
        parametrised = {name.rpartition(".")[0] for name, _ in network.named_parameters()}
        assert found.head == (head,)
        assert head not in found.body
        assert set(found.body) >= set(body or parametrised - {head})

    def test_of_a_transformer(self):
        found = find_head(transformer((6,), 3, width=8, layers=1), torch.ones(2, 6, dtype=torch.int64))
        assert found.head == ("head",)
        assert found.body[:3] == ("tokens", "positions", "blocks.0.norm1")
        assert {"blocks.0.attention.query", "norm"} <= set(found.body)

    def test_a_layer_with_an_adapter_is_one(self):
        base = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        adapted = lora(base, rank=1, targets=["0", "2"])
        assert find_head(adapted, torch.ones(2, 4)) == find_head(base, torch.ones(2, 4))

    def test_a_layer_whose_weights_are_computed_is_one(self):
        layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 2))
        found = find_head(nn.Sequential(nn.Linear(4, 4), layer), torch.ones(2, 4))
        assert (found.head, found.body) == (("1",), ("0",))

    @pytest.mark.parametrize(
        ("named", "head", "body"),
        [
            ("2", ("2",), ("0.0", "1")),
            (["1", "2"], ("1", "2"), ("0.0",)),
            ("2.weight", ("2.weight",), ("0.0", "1", "2.bias")),
            ("0", ("0",), ("1", "2")),
        ],
    )
    def test_can_be_named(self, named, head, body):
        network = nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), nn.BatchNorm1d(3), nn.Linear(3, 2))
        found = find_head(network, torch.ones(2, 2), named)
        assert (found.head, found.body) == (head, body)

    def test_a_weight_that_layers_share_is_the_firsts(self):
        network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2, bias=False))
        network[2].weight = network[0].weight
        assert find_head(network, torch.ones(2, 2)).head == ("1",)

    @pytest.mark.parametrize("named", [[], 3, [3]])
    def test_names_are_names(self, named):
        with pytest.raises(ModelError, match="expected the name of a layer, or a list of such names"):
            find_head(nn.Sequential(nn.Linear(2, 2)), torch.ones(2, 2), named)

    def test_what_is_not_there_is_told(self):
        with pytest.raises(ModelError, match=r"no layer 'fc' with parameters, for a head\. Known: 0\."):
            find_head(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.ones(2, 2), "fc")
        with pytest.raises(ModelError, match=r"Sequential has no head: .*Participant\(head="):
            find_head(nn.Sequential(nn.ReLU()), torch.ones(2, 2))


def test_the_width_of_a_feature_is_what_stands_there_for_one_sample():
    network, example = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Flatten(), nn.Linear(18, 3)), torch.zeros(2, 1, 3, 3)
    assert feature_width(network, input_of("2"), example) == 18
    assert feature_width(network, "0", example) == 18
    assert feature_width(network, "2", example) == 3
