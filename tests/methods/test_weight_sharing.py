"""What FedAvg and its relatives tell at joining, and how they start."""

from __future__ import annotations

import pytest
import torch

import potluck
from potluck.core.errors import PayloadError
from potluck.core.payload import Payload
from potluck.federation.method import exchange
from potluck.federation.server import Server
from potluck.methods import FedAvg
from potluck.methods.weight_sharing import Merge, schema_of
from tests.tables import cnn, made_data, mlp, participants

SERVER = Server(0, {"a": 1.0})


def greeting(**layout):
    return Payload(facts={"samples": 3, "layout": layout})


def check(payload):
    FedAvg().answered_by("greet")[1](SERVER, "a").check(payload)


@pytest.mark.parametrize(
    "entry", [["float32"], ["int64", 0], ["bfloat16", 2, 3], ["float64", 2**40 - 1], ["bool"] + [1] * 8]
)
def test_an_entry_has_a_type_and_a_shape(entry):
    check(greeting(a=entry))


@pytest.mark.parametrize(
    "entry",
    [
        [],
        ["complex64", 1],
        [3],
        ["float32", -1],
        ["float32", 2**40],
        ["float32", "2"],
        ["float32", 2, "x"],
        ["bool"] + [1] * 9,
        "float32",
    ],
)
def test_any_other_entry_is_refused(entry):
    with pytest.raises(PayloadError, match=r"^fact 'layout' is "):
        check(greeting(a=entry))


@pytest.mark.parametrize("samples", [0, -1, 1.5, "3", None])
def test_everyone_has_at_least_one_sample(samples):
    with pytest.raises(PayloadError, match=r"^fact 'samples' is "):
        check(Payload(facts={"samples": samples, "layout": {}}))


def test_if_the_weights_to_start_from_are_refused_nobody_can_start():
    people = participants([mlp(0), mlp(1)])
    people[0].load({"1.weight": torch.full((8, 36), float("nan"), dtype=torch.float64)})
    with pytest.raises(potluck.RequirementsError, match=r"^p0 was to send the weights to start from, but they were"):
        potluck.Federation(people, FedAvg(), test=made_data(10, 3), engine="serial").run(1)


def test_who_does_not_give_the_first_weights_may_be_refused():
    """Whoever sends nothing at the start, being second, is not waited for."""
    people = participants([mlp(0), mlp(1)])
    people[1].load({"1.weight": torch.full((8, 36), float("nan"), dtype=torch.float64)})
    rows = potluck.Federation(people, FedAvg(), engine="serial").run(1).rows()
    assert [row["refused"] for row in rows] == [None, None], "it starts from the first one's"


class HalfWay(FedAvg):
    """The server goes half of the way to the mean, as far as something is trained."""

    tells_buffers = True

    @exchange(lambda self, server, sender: schema_of(server.state["layouts"][sender]))
    def weights(self, server, answers):
        merge, senders = Merge(self, server), []
        for sender, payload in answers:
            merge.add(sender, payload.tensors)
            senders.append(sender)
        old, means, trained = server.state["global"], merge.means(), self.parameters(server)
        server.state["global"] = {key: (old[key] + mean) / 2 if key in trained else mean for key, mean in means.items()}
        return self.replies(server, senders)


def names(server):
    return sorted(key.rpartition(" ")[0] for key in HalfWay().parameters(server))


def joined(*models):
    people = participants(list(models))
    federation = potluck.Federation(people, HalfWay(), engine="serial")
    federation.run(1)
    return federation.server


def test_the_server_knows_parameters_from_buffers_where_a_method_asks():
    assert names(joined(cnn(0), cnn(1))) == ["0.weight", "1.bias", "1.weight", "4.bias", "4.weight"]


def test_what_anybody_trains_is_a_parameter():
    first, second = mlp(0), mlp(1)
    first[1].bias.requires_grad_(False)
    second[1].requires_grad_(False)
    assert names(joined(first, second)) == ["1.weight", "3.bias", "3.weight"], "nobody trains the first bias"


def test_a_step_of_the_servers_own_leaves_buffers_to_the_mean():
    people = participants([cnn(0), cnn(0)])
    start = {name: entry.clone() for name, entry in people[0].weights().items()}
    plain = participants([cnn(0), cnn(0)])
    potluck.Federation(plain, FedAvg(), engine="serial").run(1)
    potluck.Federation(people, HalfWay(), engine="serial").run(1)
    mean, found = plain[0].weights(), people[0].weights()
    torch.testing.assert_close(found["1.running_mean"], mean["1.running_mean"])
    torch.testing.assert_close(found["4.weight"], (start["4.weight"] + mean["4.weight"]) / 2)


def test_buffers_are_not_told_unless_asked_for():
    with pytest.raises(PayloadError, match=r"^fact 'buffers' was not asked for"):
        check(Payload(facts={"samples": 3, "layout": {}, "buffers": []}))
