"""Every experiment sets its table and plays a round on tiny data."""

import numpy as np
import pytest
import torch

import potluck
from evidence import cofed_adult, cofed_cifar, draftfed_cifar, fedin_cifar, mhat_mnist, perhefed_cifar, proximal, whose
from evidence.experiment import Result, play
from evidence.images import narrow
from potluck.methods import CoFED, DraftFed, FedIN, Local, PerHeFed

QUICK = potluck.Plan(epochs=1, batch_size=16)


def played(setup, tmp_path):
    result = Result(tmp_path / "results", tmp_path / "runs", "tiny", "setting", 0)
    assert play(setup, result, tmp_path / "runs")
    rounds = result.content["rounds"]
    assert [row["round"] for row in rounds] == list(range(1, setup.rounds + 1))
    assert 0 <= rounds[-1]["worst"] <= rounds[-1]["accuracy"] <= 1
    assert not any(row["refused"] for row in rounds)
    return result.content


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("name", ["local", "fd", "mhat"])
def test_mhat(data, tmp_path, name, labelled):
    method = mhat_mnist.methods(2)[name]
    setup = mhat_mnist.table(data, 0, method, labelled, participants=2, rounds=2, public=20, private=30)
    assert setup.federation.server.public.labelled is labelled
    assert [len(p.data) for p in setup.federation.participants.values()] == [30, 30]
    content = played(setup, tmp_path)
    assert (content["rounds"][-1]["bytes_up"] > 0) is (name != "local")


def test_participants_of_mhat_share_no_image(data):
    setup = mhat_mnist.table(data, 1, Local(), True, participants=4, public=60, private=60)
    own = [p.data.x for p in setup.federation.participants.values()]
    images = np.concatenate([x.numpy().reshape(len(x), -1) for x in [*own, setup.federation.server.public.x]])
    assert len(np.unique(images, axis=0)) == len(images) == 300


def test_participants_of_mhat_may_have_networks_of_their_own(data):
    setup = mhat_mnist.table(data, 0, Local(), True, participants=4, public=20, private=30, mixed=True)
    assert len({person.network.architecture for person in setup.federation.participants.values()}) > 1


def test_each_choice_of_figure_3_differs_in_one_setting():
    first = mhat_mnist.SETTINGS["choice-first"].keywords["method"].model_dump()
    for name, value in (("e1-10", "first_epochs"), ("e2-5", "server_plan"), ("t-5", "temperature")):
        other = mhat_mnist.SETTINGS[f"choice-{name}"].keywords["method"].model_dump()
        assert [key for key in first if first[key] != other[key]] == [value]


class TestAdult:
    def test_permuted_rows_have_the_columns_of_real_ones_and_no_row_of_them(self, data):
        census = cofed_adult.adult(data.folder)
        rows = cofed_adult.permuted(census, len(census.x), 0)
        np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(census.x, axis=0))
        assert not np.array_equal(rows, census.x)
        for group in census.groups:
            np.testing.assert_array_equal(rows[:, group].sum(axis=1), 1)

    def test_the_authors_kinds_take_part(self, data, tmp_path):
        setup = cofed_adult.table(
            data,
            0,
            cofed_adult.cofed(),
            rows=cofed_adult.permuted,
            kinds=cofed_adult.THEIRS,
            each=1,
            samples=40,
            public=60,
        )
        assert setup.about["rows"] == "permuted"
        assert set(played(setup, tmp_path)["participants"]) == {"tree-00", "svm-00", "additive-00", "network-00"}

    def test_the_files_become_a_table(self, data):
        census = cofed_adult.adult(data.folder)
        assert (len(census.x), len(census.x_test)) == (400, 100)
        for group in census.groups:
            np.testing.assert_array_equal(census.x[:, group].sum(axis=1), 1)
        assert set(census.y) == set(census.y_test) == {0, 1}
        assert census.y[census.x[:, 0] > 80].all()
        assert cofed_adult.adult(data.folder, weight=True).x.shape[1] == census.x.shape[1] + 1

    @pytest.mark.parametrize("method", [Local(), cofed_adult.cofed()])
    def test_all_four_kinds_take_part(self, data, tmp_path, method):
        setup = cofed_adult.table(data, 0, method, each=1, samples=40, public=60)
        assert setup.federation.server.public.x.min() == 0
        assert setup.federation.server.public.x.max() == 1
        content = played(setup, tmp_path)
        assert set(content["participants"]) == {"tree-00", "svm-00", "additive-00", "network-00"}

    def test_validation_rows_are_nobodys(self, data):
        setup = cofed_adult.table(data, 0, Local(), each=1, samples=40, public=60, validating=True)
        assert len(setup.test[1]) == 400 - 4 * 40


@pytest.mark.parametrize("method", [Local(), CoFED(alpha=0.3, update_epochs=1)])
def test_cofed_cifar(data, tmp_path, method):
    setup = cofed_cifar.table(
        data, 0, method, (1, 2), participants=3, samples_per_class=5, plans=potluck.grid(QUICK, lr=[1e-3, 1e-2])
    )
    content = played(setup, tmp_path)
    assert len(content["participants"]) == 3
    assert ("received" in content) is isinstance(method, CoFED)


class TestFedin:
    def table(self, data, method, **more):
        small = {"each": 2, "rounds": 2, "participation": 0.5, "depths": (10, 14), "plan": QUICK, "alpha": None}
        return fedin_cifar.table(data, 0, method, **(small | more))

    @pytest.mark.parametrize("method", [fedin_cifar.FEDAVG, FedIN(noise=0.8)])
    def test_the_newest_weights_are_measured(self, data, tmp_path, method):
        assert set(played(self.table(data, method, images=40), tmp_path)["participants"]) == {"resnet10", "resnet14"}

    def test_measuring_changes_nobody(self, data):
        federation = self.table(data, fedin_cifar.FEDAVG, images=40).federation
        federation.run(1)
        before = {name: p.weights() for name, p in federation.participants.items()}
        whose.newest(federation)
        for name, person in federation.participants.items():
            assert all(entry.equal(before[name][key]) for key, entry in person.weights().items())

    def test_networks_can_be_measured_as_training_left_them(self, data):
        """Those of whoever took part; their mean is what the server has. Nothing else changes."""
        noted = self.table(data, fedin_cifar.TRAINED["fedavg"], images=40)
        plain = self.table(data, fedin_cifar.FEDAVG, images=40)
        for setup in (noted, plain):
            setup.federation.run(1)
        own = noted.whose(noted.federation)
        assert len(own) == 2
        mean = sum(person.weights()["conv1.weight"] for person in own.values()) / 2
        (newest, *_) = plain.whose(plain.federation).values()
        assert torch.allclose(mean, newest.weights()["conv1.weight"], atol=1e-6)
        assert not any(person.weights()["conv1.weight"].equal(mean) for person in own.values())

    @pytest.mark.parametrize("name", ["fedavg", "fedin"])
    def test_statistics_can_stay_with_their_participant(self, data, name):
        """Whoever took part is measured: its parameters are the mean, its statistics are its own."""
        setup = self.table(data, fedin_cifar.PARAMETERS[name], images=40, depths=(10,), each=4)
        setup.federation.run(1)
        first, second = setup.whose(setup.federation).values()
        own, other = first.weights(), second.weights()
        assert own["conv1.weight"].equal(other["conv1.weight"])
        assert own["bn1.weight"].equal(other["bn1.weight"])
        assert not own["bn1.running_mean"].equal(other["bn1.running_mean"])

    def test_local_can_do_with_some_of_the_participants(self, data):
        everybody = self.table(data, Local()).federation.participants
        some = self.table(data, Local(), dealt=1).federation.participants
        assert list(some) == ["resnet10-000", "resnet14-002"]
        assert all(some[name].data.x.equal(everybody[name].data.x) for name in some)


@pytest.mark.parametrize("public", [None, "svhn"])
def test_draftfed(data, tmp_path, public):
    method = DraftFed(samples=8, draft_epochs=1)
    small = {"rounds": 1, "depths": {10: 1, 14: 1}, "samples": 8, "plan": QUICK}
    setup = draftfed_cifar.table(data, 0, method, public=public, images=48, **small)
    assert sum(len(p.data) for p in setup.federation.participants.values()) == 40
    played(setup, tmp_path)


@pytest.mark.parametrize("same", [True, False])
def test_perhefed(data, tmp_path, same):
    small = {"participants": 2, "images": 40, "rounds": 1, "depth": 10, "plan": QUICK}
    setup = perhefed_cifar.table(data, 0, PerHeFed(inter=0.5), same_half=same, same_start=same, **small)
    first, second = setup.federation.participants.values()
    assert first.weights()["conv1.weight"].equal(second.weights()["conv1.weight"]) is same
    setup.federation.run(1)
    assert (list(first.state["shared"]) == list(second.state["shared"])) is same


class TestNarrow:
    """What a CPU can do: Fashion-MNIST and ResNets with an eighth of the filters."""

    @pytest.mark.parametrize("depth", [10, 26])
    def test_a_network_is_a_resnet_with_an_eighth_of_the_filters(self, depth):
        wide, thin = potluck.models.resnet(depth, (3, 32, 32), 10), narrow(depth, (3, 32, 32), 10)
        for (name, entry), (other, same) in zip(wide.state_dict().items(), thin.state_dict().items(), strict=True):
            assert name == other
            for length, short in zip(entry.shape, same.shape, strict=True):
                assert short in (length, length // 8)
        assert thin.fc.weight.shape == (10, 64)

    @pytest.mark.parametrize("method", [Local(), fedin_cifar.FEDAVG, FedIN()])
    def test_fedin(self, data, tmp_path, method):
        small = fedin_cifar.NARROW | {"rounds": 2, "each": 1, "depths": (10, 14), "images": 40, "plan": QUICK}
        played(fedin_cifar.table(data, 0, method, alpha=None, **small), tmp_path)

    def test_draftfed(self, data, tmp_path):
        small = {"rounds": 1, "depths": {10: 1, 14: 1}, "samples": 8, "plan": QUICK, "images": 48}
        setup = draftfed_cifar.table(data, 0, DraftFed(samples=8), **(draftfed_cifar.NARROW | small))
        played(setup, tmp_path)

    def test_perhefed_is_measured_after_training(self, data):
        small = {"participants": 2, "images": 40, "rounds": 1, "plan": QUICK}
        setup = perhefed_cifar.table(data, 0, perhefed_cifar.ALL, trained=True, **(perhefed_cifar.NARROW | small))
        setup.federation.run(1)
        before = {name: p.weights() for name, p in setup.federation.participants.items()}
        ahead = setup.whose(setup.federation)
        for name, person in setup.federation.participants.items():
            assert all(entry.equal(before[name][key]) for key, entry in person.weights().items())
            assert not ahead[name].weights()["conv1.weight"].equal(before[name]["conv1.weight"])


def test_prox_weighs_nothing_before_the_first_step_and_more_in_wider_networks(data):
    thin, wide = (proximal.weighed(data["cifar10"], np.arange(32), width, 0) for width in (4, 16))
    assert len(thin) == len(wide) == 10
    assert thin[0]["cross-entropy"] > 1
    assert thin[0]["proximal loss"] == thin[0]["ratio of gradients"] == 0
    assert 0 < 4 * thin[-1]["proximal loss"] < wide[-1]["proximal loss"]
    assert proximal.mean_over([{"a": 1.0}, {"a": 2.0}, {"a": 4.0}], range(2, 4)) == {"a": 3.0}
