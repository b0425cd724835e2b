"""FedRolex by the numbers worked by hand, then whole, against a plain re-computation."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import potluck
from potluck.core.payload import Payload
from potluck.federation.server import Server
from potluck.methods import FedAvg, FedRolex
from potluck.methods.fedrolex import positions
from potluck.models import build, cnn
from tests.tables import SHAPE, made_data, participants, weights_agree

PLAIN = potluck.Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=1000)
TEST = made_data(60, 91)


def narrow(rate, seed=0):
    torch.manual_seed(seed)
    return build("mlp", SHAPE, 3, hidden=(8, 6), rate=rate).double()


@pytest.mark.parametrize(("round", "window"), [(0, {0, 1, 2}), (1, {1, 2, 3}), (3, {3, 4, 0}), (7, {2, 3, 4})])
def test_windows_roll(round, window):
    assert set(positions(3, 5, round).tolist()) == window


def test_the_window_of_the_code_rolls_the_other_way():
    assert positions(3, 5, -1).tolist() == [4, 0, 1]


def test_flattened_features_roll_by_channels():
    assert positions(4, 6, 1, block=2).tolist() == [2, 3, 4, 5]
    assert positions(4, 6, 2, block=2).tolist() == [4, 5, 0, 1]


def test_positions_are_averaged_over_those_who_hold_them():
    """Round 3 of the paper is Potluck's fourth."""
    layouts = {"A": 3, "B": 1, "C": 5}
    method, server = FedRolex(), Server(0, dict.fromkeys(layouts, 1.0))
    told = {"samples": 1, "head": [], "labels": [0], "owned": [True], "statistics": []}
    method.greet(
        server,
        iter((name, Payload(facts={**told, "layout": {"w": ["float32", n]}})) for name, n in layouts.items()),
    )
    server.state["global"], server.round = {"w": torch.full((5,), 10.0)}, 4
    sent = {"A": Payload({"w": torch.tensor([1.0, 2.0, 3.0])}), "B": Payload({"w": torch.tensor([5.0])})}
    replies = method.weights(server, iter(sent.items()))
    assert server.state["global"]["w"].tolist() == [3, 10, 10, 3, 2]
    assert replies["A"]["w"].tolist() == [3, 2, 3]
    assert FedRolex(left_with="next").reply(server, "A")["w"].tolist() == [2, 3, 10]  # {4, 0, 1}


def test_two_rounds_are_what_the_paper_says():
    people = participants([narrow(1.0, 0), narrow(0.5, 1)], plan=PLAIN)
    whole = {name: entry.clone() for name, entry in people[0].weights().items()}
    data = [tuple(map(torch.from_numpy, made_data(n, i))) for i, n in enumerate((24, 31))]
    potluck.Federation(people, FedRolex(), seed=1).run(2)

    def windows(j):
        first, second = ([(j + i) % 8 for i in range(4)], [(j + i) % 6 for i in range(3)])
        return [([*range(8)], [*range(6)]), (first, second)]

    every, classes = list(range(36)), [0, 1, 2]
    for j in range(2):
        total, count = ({name: torch.zeros_like(entry) for name, entry in whole.items()} for _ in range(2))
        for (x, y), (a, b) in zip(data, windows(j), strict=True):
            cuts = {"1": (a, every), "3": (b, a), "5": (classes, b)}
            w = {f"{k}.weight": whole[f"{k}.weight"][o][:, i].requires_grad_() for k, (o, i) in cuts.items()}
            v = {f"{k}.bias": whole[f"{k}.bias"][o].requires_grad_() for k, (o, _) in cuts.items()}
            z = torch.tanh(x.flatten(1) @ w["1.weight"].T + v["1.bias"])
            z = torch.tanh(z @ w["3.weight"].T + v["3.bias"])
            F.cross_entropy(z @ w["5.weight"].T + v["5.bias"], y).backward()
            for k, (o, i) in cuts.items():
                for row, place in enumerate(o):
                    total[f"{k}.bias"][place] += (v[f"{k}.bias"] - 0.1 * v[f"{k}.bias"].grad).detach()[row]
                    count[f"{k}.bias"][place] += 1
                    new = (w[f"{k}.weight"] - 0.1 * w[f"{k}.weight"].grad).detach()
                    total[f"{k}.weight"][place, i] += new[row]
                    count[f"{k}.weight"][place, i] += 1
        whole = {name: torch.where(count[name] > 0, total[name] / count[name], whole[name]) for name in whole}
    torch.testing.assert_close(people[0].weights(), whole, rtol=0, atol=1e-12)
    first, second = windows(1)[1]
    mine = people[1].weights()
    torch.testing.assert_close(mine["3.weight"], whole["3.weight"][second][:, first], rtol=0, atol=1e-12)
    torch.testing.assert_close(mine["5.weight"], whole["5.weight"][:, second], rtol=0, atol=1e-12)


def test_a_window_is_the_whole_without_the_other_channels():
    """Through flattening, too: the narrow network puts out what the wide one does with all other features at 0."""
    wide, small = (cnn(SHAPE, 3, (4, 6), rate=rate).double() for rate in (1.0, 0.5))
    people = participants([wide, small], plan=PLAIN.replace(epochs=0))
    federation = potluck.Federation(people, FedRolex(), seed=1)
    federation.run(4)  # the narrow one has the window of the fourth round: from channel 3 on
    inputs = torch.from_numpy(TEST[0])
    with torch.no_grad():
        first = wide.pool1(wide.conv1(inputs).relu())
        first[:, [1, 2]] = 0
        second = wide.pool2(wide.conv2(first).relu())
        second[:, [0, 1, 2]] = 0
        torch.testing.assert_close(small(inputs), wide.fc(second.flatten(1)), rtol=0, atol=1e-12)


def test_residual_networks_roll_as_one():
    """Channels that are added up lie in one window: the narrow network is the whole one without the other channels."""
    wide, small = (build("resnet10", (1, 8, 8), 3, width=2, stem="small", rate=rate).double() for rate in (1.0, 0.5))
    x = torch.randn(4, 1, 8, 8, dtype=torch.float64).numpy()
    people = [
        potluck.Participant(name, net, (x, [0, 1, 2, 0]), plan=PLAIN.replace(epochs=0), labels=range(3))
        for name, net in (("a", wide), ("b", small))
    ]
    potluck.Federation(people, FedRolex(), seed=1).run(3)
    kept = {2: [0], 4: [2, 3], 8: [2, 3, 4, 5], 16: list(range(2, 10))}  # the third round's

    def without_others(layer, _, output):
        gone = [channel for channel in range(output.shape[1]) if channel not in kept[output.shape[1]]]
        return output.index_fill(1, torch.tensor(gone), 0.0)

    for layer in wide.modules():
        if isinstance(layer, nn.Conv2d | nn.BatchNorm2d):
            layer.register_forward_hook(without_others)
    with torch.no_grad():
        torch.testing.assert_close(small.eval()(torch.from_numpy(x)), wide.eval()(torch.from_numpy(x)))


def test_with_equal_networks_it_is_fedavg():
    ours, fedavg = (participants([narrow(1.0, i) for i in range(3)]) for _ in range(2))
    potluck.Federation(ours, FedRolex(weighting="samples"), test=TEST, seed=1).run(3)
    potluck.Federation(fedavg, FedAvg(), test=TEST, seed=1).run(3)
    weights_agree(ours, fedavg, 1e-12)


def test_who_sat_out_takes_the_window_of_this_round():
    people = participants([narrow(rate, i) for i, rate in enumerate((1.0, 0.5, 0.5))], plan=PLAIN.replace(epochs=0))
    federation = potluck.Federation(
        people, FedRolex(), seed=1, participation=lambda round, names, _: names[: 1 + round]
    )
    federation.run(2)
    whole = federation.server.state["global"]["1.bias"]
    for person in people[1:]:
        torch.testing.assert_close(person.weights()["1.bias"], whole[1:5])


def test_one_download_is_enough_for_who_is_left_with_the_next_window():
    def down(**settings):
        people = participants([narrow(1.0, 0), narrow(0.5, 1)], plan=PLAIN)
        rows = potluck.Federation(people, FedRolex(**settings), seed=1).run(3).rows()
        return [row["bytes_down"] for row in rows if row["round"] == 3], people

    (wide, small), people = down(left_with="next")
    own = [Payload(person.weights(), {"rolls": False}).size for person in people]
    assert [wide, small] == own
    (wide, small), _ = down()
    assert wide == own[0]
    assert small == Payload(people[1].weights(), {"rolls": True}).size + Payload(people[1].weights()).size


def test_both_ways_train_the_same_whole_network():
    def whole(**settings):
        people = participants([narrow(1.0, 0), narrow(0.5, 1)], plan=PLAIN)
        potluck.Federation(people, FedRolex(**settings), seed=1).run(3)
        return people[0].weights()

    torch.testing.assert_close(whole(), whole(left_with="next"), rtol=0, atol=1e-12)


def test_the_server_s_whole_network_is_reported():
    people = participants([cnn(SHAPE, 3, (4,), rate=0.5).double() for _ in range(3)])
    federation = potluck.Federation(people, FedRolex(model=partial(cnn, channels=(4,))), test=TEST, seed=1)
    rows = federation.run(2).rows()
    assert [row["round"] for row in rows if row.get("model") == "global"] == [1, 2]
