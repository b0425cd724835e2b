"""What FedAvg and its relatives tell at joining, and how they start."""

from __future__ import annotations

import time

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
    "entry", [["float32"], ["int64", 0], ["bfloat16", 2, 3], ["float64", 2**28], ["bool"] + [1] * 8]
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


@pytest.mark.parametrize("entry", [["float64", 2**28 + 1], ["float64", 2**39], ["float32", 2**20, 2**20]])
def test_a_layout_is_no_larger_than_a_payload_may_be(entry):
    with pytest.raises(PayloadError, match="expected entries of at most 2147483648 bytes"):
        check(greeting(a=entry))
    small = Server(0, {}, budget=800)
    FedAvg().greeting(small, "a").check(greeting(a=["float64", 100]))
    with pytest.raises(PayloadError, match="expected entries of at most 800 bytes"):
        FedAvg().greeting(small, "a").check(greeting(a=["float64", 100], b=["bool"]))


@pytest.mark.parametrize("name", ["__metadata__", "a\x1b[2J", "a\u200b"])
def test_an_entry_has_a_name_that_can_travel(name):
    with pytest.raises(PayloadError, match="expected printable names"):
        check(greeting(**{name: ["float32", 1]}))


def test_what_normalisation_layers_measure_is_not_negative():
    form = schema_of({"1.running_var": ["float32", 2], "1.num_batches_tracked": ["int64"], "1.bias": ["float32", 2]})
    good = {"1.running_var": torch.zeros(2), "1.num_batches_tracked": torch.tensor(0), "1.bias": -torch.ones(2)}
    form.check(Payload(good))
    for name in ("1.running_var", "1.num_batches_tracked"):
        with pytest.raises(PayloadError, match=f"tensor '{name}' holds -1; expected at least 0"):
            form.check(Payload({**good, name: good[name] - 1}))


def test_all_entries_of_a_layout_cost_as_much_as_its_length():
    """Each key holds the checksum of the whole layout, which is worked out once."""
    layout = {f"entry {number}": ["float32", 1] for number in range(20_000)}
    server = Server(0, {"a": 1.0})
    method = FedAvg(aggregation="same-architecture")
    began = time.perf_counter()
    method.greet(server, iter([("a", greeting(**layout))]))
    assert time.perf_counter() - began < 3, "it took minutes when the layout was read again for each of its entries"
    assert method.keys(server, "a")["entry 0"] == method.key(layout, "entry 0")


def test_instead_of_one_that_cannot_give_the_first_weights_the_next_one_is_asked():
    people = participants([mlp(0), mlp(1), mlp(2)], plan=potluck.Plan(epochs=0))
    people[0].load({"1.weight": torch.full((8, 36), float("nan"), dtype=torch.float64)})
    federation = potluck.Federation(people, FedAvg(), test=made_data(10, 3), engine="serial")
    rows = federation.run(2).rows()
    assert [row["refused"] for row in rows[:3]] == ["start: tensor '1.weight' holds NaN or infinity", None, None]
    assert [row["took_part"] for row in rows] == [False, True, True] * 2
    assert set(federation.server.state["layouts"]) == set(federation.server.state["samples"]) == {"p1", "p2"}
    for person in people[1:]:
        torch.testing.assert_close(person.weights()["1.weight"], mlp(1).state_dict()["1.weight"])
    alone = potluck.Federation(participants([mlp(1), mlp(2)], plan=potluck.Plan(epochs=0)), FedAvg(), engine="serial")
    honest = alone.run(1).rows()[1]
    assert rows[2]["bytes_up"] == honest["bytes_up"] + Payload().size, "it is asked for nothing, once more"


def test_what_nobody_can_give_any_more_is_left_out():
    """With layers of its own that one cannot be replaced: the others need nothing of it."""
    people = participants([cnn(0), mlp(1)], plan=potluck.Plan(epochs=0))
    people[0].load({"0.weight": torch.full((4, 1, 3, 3), float("nan"), dtype=torch.float64)})
    federation = potluck.Federation(people, FedAvg(aggregation="layerwise"), engine="serial")
    rows = federation.run(1).rows()
    assert [row["took_part"] for row in rows] == [False, True]
    assert set(federation.server.state["layouts"]) == {"p1"}


def told(server, **layouts):
    replies = FedAvg().greet(server, iter([(name, greeting(**layout)) for name, layout in layouts.items()]))
    return {name: reply.facts["send"] for name, reply in replies.items()}


def test_the_odd_model_is_refused_and_not_who_comes_second():
    server = Server(0, {})
    asked = told(server, a={"w": ["float32", 3]}, b={"w": ["float32", 2]}, c={"w": ["float32", 2]})
    why = "its model differs from the others': w is float32 of shape (3,); expected float32 of shape (2,)"
    assert server.refused == {"a": why}
    assert asked == {"b": ["w"], "c": []}
    assert set(server.state["layouts"]) == set(server.state["samples"]) == set(server.state["digests"]) == {"b", "c"}
    server.refused = {}
    server.state["global"] = {next(iter(FedAvg().keys(server, "b").values())): torch.zeros(2)}
    assert told(server, d={"w": ["float32", 3]}, e={"w": ["float32", 2]}, f={"w": ["float32", 3]}) == {"e": []}
    assert set(server.refused) == {"d", "f"}, "later the federation's model counts, not who is in the majority"
    with pytest.raises(potluck.RequirementsError, match=r"b differs from a: .* As many say the one as the other"):
        told(Server(0, {}), a={"w": ["float32", 3]}, b={"w": ["float32", 2]})


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
