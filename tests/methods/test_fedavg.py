from __future__ import annotations

import copy

import pytest
import torch

import potluck
from potluck.core.architecture import layout_of
from potluck.core.payload import Payload
from potluck.methods import FedAvg
from tests.methods.plain import begun, data_of, descended, lines, same
from tests.tables import PLAN, agree, cnn, made_data, mlp, participants


def start(method, **settings):
    people = participants([cnn(i) for i in range(3)], **settings)
    return people, potluck.Federation(people, method, test=made_data(20, 9), seed=1)


def state(person):
    return person.weights()


def test_all_start_from_the_weights_of_the_first_by_name():
    people, federation = start(FedAvg())
    first = state(people[0])
    federation.run(0)
    for person in people:
        torch.testing.assert_close(state(person), first, rtol=0, atol=0)


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_the_round_is_the_weighted_mean_of_local_training(weighting):
    people, federation = start(FedAvg(weighting=weighting))
    people[1].weight = federation.server.participant_weights["p1"] = 2.0
    federation.run(0)
    # The same local training, alone: FedAvg's own first request is its only Fit, so the draws are the same.
    alone = copy.deepcopy(people)
    potluck.Federation(alone, potluck.methods.Local(), seed=1).run(1)
    federation.run(1)
    sizes = [len(p.data) if weighting == "samples" else 1 for p in people]
    counts = [sizes[0], 2 * sizes[1], sizes[2]]
    for name, entry in state(people[0]).items():
        mean = sum(n * state(p)[name].double() for n, p in zip(counts, alone, strict=True)) / sum(counts)
        expected = mean if entry.is_floating_point() else mean.round()
        torch.testing.assert_close(entry.double(), expected, rtol=1e-12, atol=1e-12)


def test_a_round_by_hand():
    """From 1 they go to 2 and to 1.2, with one sample and with three."""
    assert lines(FedAvg()) == [[pytest.approx(1.4)]] * 2
    assert lines(FedAvg(weighting="uniform")) == [[pytest.approx(1.6)]] * 2


def test_batchnorm_may_stay_at_home():
    people, federation = start(FedAvg(batchnorm="local"))
    federation.run(1)
    one, other = state(people[0]), state(people[1])
    torch.testing.assert_close(one["0.weight"], other["0.weight"])
    assert not torch.equal(one["1.running_mean"], other["1.running_mean"])


def test_traffic_is_the_model_once_each_way():
    people, federation = start(FedAvg())
    rows = federation.run(2).rows()
    model = Payload(state(people[0])).size
    greeting = Payload(facts={"samples": len(people[1].data), "layout": layout_of(state(people[1]))}).size
    later = [row for row in rows if row["round"] == 2]
    assert {(row["bytes_up"], row["bytes_down"]) for row in later} == {(model, model)}
    follower = next(row for row in rows if row["participant"] == "p1" and row["round"] == 1)
    assert follower["bytes_up"] == greeting + Payload().size + model
    assert follower["bytes_down"] == Payload(facts={"send": []}).size + 2 * model


def test_who_sat_out_fetches_the_global_model_first():
    people = participants([cnn(i) for i in range(5)])
    federation = potluck.Federation(people, FedAvg(), participation=0.4, seed=2)
    rows = federation.run(6).rows()
    model = Payload(state(people[0])).size
    took = {}
    for row in rows:
        stale = row["took_part"] and took.get(row["participant"], 0) < row["round"] - 1
        if row["round"] > 1 and row["took_part"]:
            assert row["bytes_down"] == (2 if stale else 1) * model
        if row["took_part"]:
            took[row["participant"]] = row["round"]
    present = [row["participant"] for row in rows if row["round"] == 6 and row["took_part"]]
    torch.testing.assert_close(
        state(federation.participants[present[0]]), state(federation.participants[present[1]]), rtol=0, atol=0
    )


def test_different_architectures_are_refused_with_names():
    with pytest.raises(potluck.RequirementsError, match="differ from p0's: p1"):
        potluck.Federation(participants([cnn(0), mlp(1)]), FedAvg())


def test_what_can_be_averaged_is_one_question():
    """What is admitted before the run is not refused when participants tell the server what they have."""
    single, double = mlp(1, dtype=torch.float32), mlp(0)
    expected = (
        r"differ from p0's: p1; p1's 1\.weight is float32 of shape \(8, 36\); expected float64 of shape \(8, 36\)"
    )
    with pytest.raises(potluck.RequirementsError, match=expected):
        potluck.Federation(participants([double, single]), FedAvg())
    potluck.Federation(participants([double, single]), FedAvg(aggregation="layerwise")).run(1)


def test_norms_that_stay_at_home_may_differ():
    def people():
        plain = cnn(1)
        plain[1] = torch.nn.BatchNorm2d(4, affine=False).double()
        return participants([cnn(0), plain])

    with pytest.raises(potluck.RequirementsError, match=r"p1's 1\.weight is missing; expected float64 of shape \(4,\)"):
        potluck.Federation(people(), FedAvg())
    federation = potluck.Federation(people(), FedAvg(batchnorm="local"))
    federation.run(1)
    one, other = (state(person) for person in federation.participants.values())
    torch.testing.assert_close(one["0.weight"], other["0.weight"], rtol=0, atol=0)


def test_different_label_spaces_are_refused_with_advice():
    odd = potluck.Participant("odd", cnn(1, classes=2), made_data(10, 1, [0, 1]))
    with pytest.raises(potluck.RequirementsError, match="give all of them the same `labels`"):
        potluck.Federation([*participants([cnn(0)]), odd], FedAvg())


def test_together_is_better_than_alone():
    def accuracy(method):
        people = participants([cnn(i) for i in range(5)], sizes=[6] * 5, plan=PLAN.replace(lr=0.02))
        return potluck.Federation(people, method, test=made_data(300, 77), seed=0).run(8).final.accuracy

    assert accuracy(FedAvg()) > accuracy(potluck.methods.Local()) + 0.03


def test_networks_of_one_architecture_have_one_layout():
    federation = potluck.Federation(participants([mlp(i) for i in range(4)]), FedAvg(), test=made_data(20, 6))
    federation.run(1)
    assert len({id(layout) for layout in federation.server.state["layouts"].values()}) == 1


def test_layouts_read_from_a_checkpoint_become_one_again(tmp_path):
    def table():
        return potluck.Federation(participants([mlp(i) for i in range(4)]), FedAvg(), test=made_data(20, 6))

    table().run(1, run_dir=tmp_path)
    resumed = table()
    resumed.run(2, run_dir=tmp_path, resume=True)
    assert len({id(layout) for layout in resumed.server.state["layouts"].values()}) == 1


class Registered(torch.nn.Module):
    """A network whose two layers are registered in one order or the other; what it computes is the same."""

    def __init__(self, names, seed):
        super().__init__()
        torch.manual_seed(seed)
        layers = {"first": torch.nn.Linear(36, 3).double(), "second": torch.nn.Linear(3, 3).double()}
        for name in names:
            self.add_module(name, layers[name])

    def forward(self, x):
        return self.second(self.first(x.flatten(1)))


@pytest.mark.parametrize("aggregation", ["whole", "layerwise", "same-architecture"])
def test_entries_are_averaged_by_name_in_whatever_order_they_are_registered(aggregation):
    def table(*orders):
        people = participants([Registered(names, seed) for seed, names in enumerate(orders)])
        return potluck.Federation(people, FedAvg(aggregation=aggregation), test=made_data(20, 9), seed=1)

    forward, backward = ("first", "second"), ("second", "first")
    mixed, alike = table(forward, backward, backward), table(forward, forward, forward)
    agree(alike.run(2).rows(), mixed.run(2).rows(), 1e-12)
    for one, other in zip(mixed.participants.values(), alike.participants.values(), strict=True):
        ours, theirs = one.weights(), other.weights()
        assert ours.keys() == theirs.keys()
        for name, entry in theirs.items():
            torch.testing.assert_close(ours[name], entry, rtol=1e-12, atol=1e-12)


def test_fine_tuned_copies_answer_and_the_global_model_is_reported():
    """The global model is plain FedAvg's; each copy is what plain training makes of it."""
    test = made_data(20, 9)
    federation, _ = begun(FedAvg(fine_tune=3), [cnn(i) for i in range(3)], test=test)
    others, _ = begun(FedAvg(), [cnn(i) for i in range(3)], test=test)
    federation.run(2)
    others.run(2)
    rows, plain = federation.history.rows(), others.history.rows()
    assert [r["loss"] for r in rows if "model" in r] == [r["loss"] for r in plain]
    assert [r["loss"] for r in rows if "model" not in r] != [r["loss"] for r in plain]
    for person, other in zip(federation.participants.values(), others.participants.values(), strict=True):
        same(person.weights(), other.weights(), 0)
        same(person.models["tuned"].weights(), descended(person.model, data_of(person), steps=3).state_dict())


def test_running_statistics_alone_may_stay_at_home():
    people, federation = start(FedAvg(batchnorm="local statistics"))
    federation.run(1)
    one, other = state(people[0]), state(people[1])
    torch.testing.assert_close(one["1.weight"], other["1.weight"], rtol=0, atol=0)
    assert not torch.equal(one["1.running_mean"], other["1.running_mean"])
    assert [name for name in one if name not in federation.server.state["layouts"]["p0"]] == [
        "1.running_mean",
        "1.running_var",
        "1.num_batches_tracked",
    ]
