"""Whatever one participant sends costs at most that one its round: by name, with a reason, and the others go on."""

from __future__ import annotations

import pytest
import torch

import potluck
from potluck.core.payload import Payload
from potluck.core.schema import Schema, TensorSpec
from potluck.flower.engine import Rules
from potluck.flower.protocol import Advance, Message
from potluck.methods import FD, MHAT, CoFED, DraftFed, FedAvg, FedIN, PerHeFed
from tests.flower.fakes import FakeGrid, client_of, invitation, on_serial, over_flower, people, served
from tests.flower.liars import Liar, instead
from tests.tables import PLAN, agree

RULES = Rules(answer_timeout=5, min_participants=2)
METHODS = {
    "FedAvg": (FedAvg(), "weights"),
    "FedIN": (FedIN(pairs=6), "update"),
    "CoFED": (CoFED(update_batch_size=16), "votes"),
    "FD": (FD(), "probabilities"),
    "MHAT": (MHAT(server_plan=PLAN), "probabilities"),
    "DraftFed": (DraftFed(samples=20), "drafts"),
    "PerHeFed": (PerHeFed(intra=0.5), "share"),
}


def lied_to(method, lie, folder, **settings):
    """A federation whose p1 lies."""
    federation, grid = over_flower(method, folder, rules=RULES, **settings)
    grid.clients[101] = Liar(grid.clients[101], lie)
    return federation


def of(rows, name):
    return [row for row in rows if row["participant"] == name]


@pytest.mark.parametrize("name", METHODS)
def test_what_is_sent_twice_counts_once(name, tmp_path):
    """Else the server would merge the liar alone: the result is that of a round in which it was sent once."""
    method, last = METHODS[name]
    rows = lied_to(method, instead("end", last), tmp_path).run(2).rows()
    honest = on_serial(method).rows()
    assert [row["refused"] for row in of(rows, "p1")] == [f"{last!r} came twice, or too late"] * 2
    assert [row["refused"] for row in rows if row["participant"] != "p1"].count(None) == len(rows) - 2
    first = [row for row in rows if row["round"] == 1 and row["participant"] != "p1"]
    agree(first, [row for row in honest if row["round"] == 1 and row["participant"] != "p1"], 1e-12)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("early", ["of a round", "the end"])
def test_whoever_leaves_joining_early_does_not_join(name, early, tmp_path):
    method, last = METHODS[name]
    first = method.exchanges()[0]
    federation = lied_to(method, instead(first, "end" if early == "the end" else last), tmp_path)
    rows = federation.run(2).rows()
    why = f"it ended before {first!r}" if early == "the end" else f"{last!r} belongs to a round and came in joining"
    assert of(rows, "p1")[0]["refused"] == why
    assert [row["refused"] for row in rows if row["participant"] != "p1"].count(None) == len(rows) - 2
    assert all(row["took_part"] for row in rows if row["participant"] != "p1")


@pytest.mark.parametrize(
    ("exchange", "why"),
    [
        ("nonsense", "'nonsense' is no exchange of the method"),
        ("greet", "'greet' belongs to joining and came in a round"),
        ("__init__", "'__init__' is no exchange of the method"),
        ("we\u200bights", "cannot be read"),
        ("weights\x1b[2J", "cannot be read"),
        ("fetch\n", "cannot be read"),
    ],
)
def test_an_exchange_that_is_not_due_costs_its_sender_the_round(exchange, why, tmp_path):
    rows = lied_to(FedAvg(), instead("weights", exchange), tmp_path).run(2).rows()
    assert all(why in row["refused"] for row in of(rows, "p1"))
    assert all(row["refused"] is None for row in rows if row["participant"] != "p1")


class Fragile(FedAvg):
    """Its server's half cannot take a negative number, which its contract lets pass, and has no room for it."""

    def round(self, me):
        yield potluck.Exchange("tell", Payload({"x": torch.tensor(-1.0 if me.name == "p1" and me.round == 1 else 1.0)}))
        me.state["round"] = me.round

    @potluck.exchange(lambda self, server, sender: Schema({"x": TensorSpec(())}))
    def tell(self, server, answers):
        server.state["told"] = {}
        for sender, payload in answers:
            server.state["told"][sender] = 1 // int(payload["x"] + 1)
        return Payload()

    @potluck.exchange(lambda self, server, sender: Schema(), optional=True)
    def weights(self, server, answers):
        return Payload()


class Overflowing(Fragile):
    """What its server's half makes of a negative number is infinite."""

    @potluck.exchange(lambda self, server, sender: Schema({"x": TensorSpec(())}))
    def tell(self, server, answers):
        return Payload({"x": torch.stack([1 / (payload["x"] + 1) for _, payload in answers])})


@pytest.mark.parametrize("kind", [Fragile, Overflowing])
def test_a_merge_that_fails_changes_nobody(kind, tmp_path):
    method, named = kind(), f"{__name__}:{kind.__name__}"
    own = people(FedAvg())
    grid = FakeGrid(client_of(p, tmp_path, allow_imports=(named,)) for p in own)
    invite = invitation(method, method=named)
    federation = served(grid, method, [p.name for p in own], invite=invite, rules=RULES)
    rows = federation.run(2).rows()
    why = "the result cannot be sent: tensor 'x' holds NaN" if kind is Overflowing else "(ZeroDivisionError)"
    assert all(row["refused"].startswith("tell: nothing was merged, for anybody") for row in rows[:3])
    assert all(why in row["refused"] for row in rows[:3])
    assert [row["refused"] for row in rows[3:]] == [None] * 3
    assert "told" not in federation.server.state or set(federation.server.state["told"]) == {"p0", "p1", "p2"}


def test_in_a_simulation_a_failing_merge_is_a_mistake_and_an_infinite_one_is_not(tmp_path):
    with pytest.raises(ZeroDivisionError):
        potluck.Federation(people(FedAvg()), Fragile(), engine="serial").run(1)
    rows = potluck.Federation(people(FedAvg()), Overflowing(), engine="serial").run(2).rows()
    assert [row["refused"] is None for row in rows] == [False] * 3 + [True] * 3


def told_otherwise(exchange, payload):
    """Sends another payload in one exchange."""
    return instead(exchange, exchange, payload.to_bytes())


LAYOUT = {"w": ["float32", 2]}


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (Payload(facts={"samples": 3, "layout": LAYOUT}), "its model differs from the others'"),
        (Payload(facts={"samples": 3, "layout": {"w": ["float32", 2**39]}}), "expected entries of at most"),
        (Payload(facts={"samples": 10**400, "layout": LAYOUT}), "fact 'samples' is"),
        (Payload(facts={"samples": 2**41, "layout": LAYOUT}), "fact 'samples' is"),
        (Payload(facts={"samples": 3, "layout": {"\x1b[2J": ["float32", 2]}}), "expected printable names"),
    ],
)
def test_the_odd_one_at_joining_is_refused_and_the_others_join(payload, why, tmp_path):
    """Also where it is the first by name."""
    federation, grid = over_flower(FedAvg(), tmp_path, rules=RULES)
    grid.clients[100] = Liar(grid.clients[100], told_otherwise("greet", payload))
    rows = federation.run(1).rows()
    assert why in rows[0]["refused"]
    assert [row["refused"] for row in rows[1:]] == [None, None]
    assert all(row["took_part"] for row in rows[1:])


@pytest.mark.parametrize("what", ["not a number", "nothing"])
def test_whoever_fails_to_give_the_first_weights_is_replaced(what, tmp_path):
    federation, grid = over_flower(FedAvg(), tmp_path, rules=RULES)
    honest = {name: torch.full_like(entry, float("nan")) for name, entry in first_weights().items()}
    payload = Payload() if what == "nothing" else Payload(honest)
    grid.clients[100] = Liar(grid.clients[100], told_otherwise("start", payload))
    rows = federation.run(2).rows()
    assert all(rows[0]["refused"].startswith("start: ") for _ in rows[:1])
    assert [row["refused"] for row in rows if row["participant"] != "p0"] == [None] * 4
    alone = potluck.Federation(people(FedAvg())[1:], FedAvg(), seed=3, engine="serial").run(2).rows()
    found = [row for row in rows if row["participant"] != "p0"]
    agree([{**row, "bytes_up": 0, "bytes_down": 0} for row in found], zeroed(alone), 1e-12)


def first_weights():
    own = people(FedAvg())[0]
    potluck.Federation([own], FedAvg(), seed=3, engine="serial")
    return {name: entry for name, entry in own.weights().items() if entry.is_floating_point()}


def zeroed(rows):
    return [{**row, "bytes_up": 0, "bytes_down": 0} for row in rows]


def test_labels_of_ones_own_cost_nobody_else_anything(tmp_path):
    lie = told_otherwise("labels", Payload(facts={"labels": [0, 1]}))
    rows = lied_to(FD(), lie, tmp_path).run(1).rows()
    assert [row["refused"] for row in rows] == [None, "its labels are [0, 1]; expected [0, 1, 2]", None]


def test_metrics_that_cannot_be_are_left_out_and_named(tmp_path):
    def lie(liar, asked, honest):
        if honest.head["kind"] != "end" or not honest.head["metrics"]:
            return honest
        told = {**honest.head["metrics"], "accuracy": 1e11, "loss": -3.0}
        return Message({**honest.head, "metrics": told}, honest.body)

    said = []
    rows = lied_to(FedAvg(), lie, tmp_path, report=said.append).run(1).rows()
    liar = next(row for row in rows if row["participant"] == "p1")
    assert (liar["accuracy"], liar["loss"]) == (None, None)
    assert liar["macro_f1"] is not None
    assert "p1 tells accuracy 1e+11, which cannot be; it is left out" in said
    assert all(row["accuracy"] <= 1 for row in rows if row["participant"] != "p1")


def test_nobody_outweighs_the_others_by_its_word(tmp_path):
    method = FedAvg(max_samples=30)
    federation, grid = over_flower(method, tmp_path, rules=RULES)
    layout = Payload.from_bytes(joining(tmp_path).body).facts["layout"]
    grid.clients[101] = Liar(
        grid.clients[101], told_otherwise("greet", Payload(facts={"samples": 2**40, "layout": layout}))
    )
    federation.run(1)
    counted = {name: method.weight(federation.server, name) for name in ("p0", "p1", "p2")}
    assert counted == {"p0": 20, "p1": 30, "p2": 30}
    assert FedAvg().weight(federation.server, "p1") == 2**40


def joining(folder):
    """What p1 sends first, when it is honest."""
    other = client_of(people(FedAvg())[1], folder / "other")
    other.answer(invitation(FedAvg()).message())
    return other.answer(Advance(phase="join", round=0, step=0).message())
