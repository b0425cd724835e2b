"""Methods that look into networks, from public imports alone: serial and batched agree."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import pytest
import torch
from torch import nn

import potluck
from potluck import Exchange, Fit, Group, Needs, Payload, Schema, Tap, exchange, input_of
from potluck.models import lora, transformer
from tests.tables import PLAN, agree, cnn, mlp, participants, weights_agree


def played(method, models, engine, people=participants, rounds=2, **settings):
    """A federation that has played."""
    federation = potluck.Federation(people(models, **settings), method, seed=3, engine=engine)
    federation.run(rounds)
    return federation


def played_on_both(method, models, people=participants, **settings):
    """The federation on the serial engine, once the batched engine was seen to agree with it within 1e-9."""
    serial, stacked = (
        played(method, [make() for make in models], engine, people, **settings) for engine in ("serial", "batched")
    )
    agree(serial.history.rows(), stacked.history.rows(), 1e-9)
    weights_agree(serial.participants.values(), stacked.participants.values(), 1e-9)
    assert not stacked.engine.incidents
    return serial


def mean_of(answers):
    """The mean of each entry."""
    told = [payload.tensors for _, payload in sorted(answers)]
    return {name: sum(one[name] for one in told) / len(told) for name in told[0]}


class SharedBody(potluck.Method):
    """The body travels, the head stays; the head learns alone first, then both with rates of their own."""

    needs = Needs(torch_module=True, head=True)
    notes: ClassVar[dict[str, type]] = {"features": float}

    def round(self, me):
        yield Fit(only=me.head)
        yield Fit(groups=[Group(me.head, me.plan.replace(lr=0.2))])
        shared, own = me.network.entries_in(me.body), me.weights()
        me.load((yield Exchange("body", Payload({name: own[name] for name in shared}))).tensors)
        place = input_of(me.head[0])
        taken = yield Tap(me.data, at=[place, me.head[0]])
        return {"features": round(taken[place].square().mean().item(), 9)}

    @exchange(lambda self, server, sender: Schema(None))
    def body(self, server, answers):
        return Payload(mean_of(answers))


def through_the_head(model, batch, context):
    """Cross-entropy of the head, run on what was tapped before it, which gradients pass through."""
    logits, taken = model.taps(batch["x"], at=[input_of(context["head"])])
    again = model.part(context["head"], taken[input_of(context["head"])])
    return potluck.core.objectives.cross_entropy(lambda x: (logits + again) / 2, batch, context)


class ThroughTheHead(potluck.Method):
    """Training by way of what goes into the head."""

    needs = Needs(torch_module=True, head=True)

    def round(self, me):
        yield Fit(through_the_head, context={"head": me.head[0]})


def test_heads_and_bodies_of_any_network():
    for make in (mlp, cnn):
        played_on_both(SharedBody(), [partial(make, seed) for seed in range(3)])


def readers(models, **settings):
    """Participants with texts of token ids, some of them filled up."""
    made = []
    for i, (model, size) in enumerate(zip(models, (12, 17, 9), strict=True)):
        random = torch.Generator().manual_seed(i)
        ids = torch.randint(0, 9, (size, 5), generator=random)
        mask = (torch.arange(5) < torch.randint(1, 6, (size, 1), generator=random)).long()
        data = ({"ids": ids, "mask": mask}, ids[:, 0] % 3)
        made.append(potluck.Participant(f"p{i}", model, data, labels=range(3), plan=PLAN.replace(lr=0.02), **settings))
    return made


def text_model(seed):
    torch.manual_seed(seed)
    return transformer((5,), 3, vocabulary=9, width=8, heads=2, layers=1).double()


def test_a_transformer_shares_its_body_and_keeps_its_head():
    serial = played_on_both(SharedBody(), [partial(text_model, seed) for seed in range(3)], readers)
    one, other, _ = serial.participants.values()
    assert one.head == ("head",)
    for name, entry in one.weights().items():
        assert torch.equal(entry, other.weights()[name]) is not name.startswith("head.")
    named = played_on_both(
        SharedBody(), [partial(text_model, seed) for seed in range(3)], readers, head=["norm", "head"]
    )
    one, other, _ = named.participants.values()
    assert not torch.equal(one.weights()["norm.bias"], other.weights()["norm.bias"])


@pytest.mark.parametrize("method", ["FedPer", "FedRep", "LGFedAvg"])
def test_methods_share_a_part_of_a_transformer(method):
    """All but what they keep is alike afterwards."""
    serial = played_on_both(
        getattr(potluck.methods, method)(), [partial(text_model, seed) for seed in range(3)], readers
    )
    one, other, _ = serial.participants.values()
    alike = {name for name, entry in one.weights().items() if torch.equal(entry, other.weights()[name])}
    head = {"head.weight", "head.bias"}
    assert alike == (head if method == "LGFedAvg" else set(one.weights()) - head)


def test_gradients_flow_through_what_goes_into_a_layer():
    serial = played_on_both(ThroughTheHead(), [partial(mlp, seed) for seed in range(2)], plan=PLAN.replace(epochs=1))
    plain = played(potluck.methods.Local(), [mlp(0), mlp(1)], "serial", plan=PLAN.replace(epochs=1))
    weights_agree(serial.participants.values(), plain.participants.values(), 1e-9)


class SharedAdapters(potluck.Method):
    """FedIT: what is trained, adapters and head, is averaged; what is frozen stays where it is."""

    needs = Needs(torch_module=True, same_architecture=True)

    def round(self, me):
        yield Fit()
        own = me.weights()
        me.load((yield Exchange("adapters", Payload({n: own[n] for n in me.network.trained_entries()}))).tensors)

    @exchange(lambda self, server, sender: Schema(None))
    def adapters(self, server, answers):
        return Payload(mean_of(answers))


def adapted(base, share_base):
    """A network with adapters, which begin alike on any base."""
    torch.manual_seed(5)
    return lora(base, rank=2, share_base=share_base)


@pytest.mark.parametrize("plan", [PLAN, PLAN.replace(momentum=0.0)], ids=["momentum", "plain"])
@pytest.mark.parametrize("bases", ["one", "equal", "unequal"])
def test_adapters_on_frozen_bases(bases, plan, monkeypatch):
    base = cnn(7)
    made = {"one": [base] * 3, "equal": [cnn(7) for _ in range(3)], "unequal": [cnn(seed) for seed in range(3)]}[bases]
    held = stacks_hold(monkeypatch)
    serial = played_on_both(SharedAdapters(), [partial(adapted, one, bases == "one") for one in made], plan=plan)
    frozen = set(serial.participants["p0"].network.frozen())
    assert frozen == {"0.base_layer.weight", "1.weight", "1.bias"}
    assert set(held) == {frozenset(frozen if bases != "unequal" else {"1.weight", "1.bias"})}
    for person, brought in zip(serial.participants.values(), made, strict=True):
        assert torch.equal(person.weights()["0.base_layer.weight"], brought[0].weight)


class TorchTransformer(nn.Module):
    """Six tokens of six pixels through torch's own encoder."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.tokens = nn.Linear(6, 8)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 3)
        self.double()

    def forward(self, x):
        return self.head(self.encoder(self.tokens(x.flatten(1, 2))).mean(1))


def test_adapters_in_torchs_own_transformer():
    serial = played_on_both(SharedAdapters(), [lambda: adapted(TorchTransformer(7), False)] * 3)
    trained = serial.participants["p0"].network.trained_entries()
    assert "encoder.self_attn.out_proj.lora_B.default.weight" in trained


def test_a_checkpoint_holds_a_base_once_and_gives_it_back(tmp_path):
    base = mlp(7, hidden=500)

    def made(folder, rounds, resume=False):
        people = participants([adapted(base, True) for _ in range(5)])
        federation = potluck.Federation(people, SharedAdapters(), seed=3, engine="serial", device="cpu")
        federation.run(rounds, run_dir=folder, resume=resume)
        return federation

    whole = made(tmp_path / "whole", 2)
    made(tmp_path / "cut", 1)
    resumed = made(tmp_path / "cut", 2, resume=True)
    agree(resumed.history.rows(), whole.history.rows(), 0)
    weights_agree(resumed.participants.values(), whole.participants.values(), 0)
    held = {person.network.frozen()["1.base_layer.weight"].data_ptr() for person in resumed.participants.values()}
    assert held == {base[1].weight.data_ptr()}
    newest = sorted((tmp_path / "whole").rglob("round-*"))[-1]
    assert sum(file.stat().st_size for file in newest.iterdir()) < 3 * base[1].weight.nbytes


def test_a_frozen_linear_layer_before_others():
    """Plain SGD over a stack keeps linear layers' gradients in factors: not those of what is frozen."""

    def made(seed):
        network = mlp(seed)
        network[1].requires_grad_(False)
        return network

    for seeds in ((0, 1, 2), (0, 0, 0)):
        plan = PLAN.replace(momentum=0.0)
        played_on_both(potluck.methods.Local(), [partial(made, seed) for seed in seeds], plan=plan)


def stacks_hold(monkeypatch):
    """What each stack that is trained from now on holds once."""
    from potluck.engines.batched.trainer import Training

    held, load = [], Training.load
    monkeypatch.setattr(Training, "load", lambda self, jobs: (held.append(self.common), load(self, jobs))[1])
    return held
