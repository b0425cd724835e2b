"""Methods that look into networks, from public imports alone: serial and batched agree."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import potluck
from potluck import Exchange, Fit, Group, Needs, Payload, Schema, Tap, exchange, input_of
from tests.tables import PLAN, agree, cnn, mlp, participants, weights_agree


def played(method, models, engine, rounds=2, **settings):
    """A federation that has played."""
    federation = potluck.Federation(participants(models, **settings), method, seed=3, engine=engine)
    federation.run(rounds)
    return federation


def played_on_both(method, models, **settings):
    """The federation on the serial engine, once the batched engine was seen to agree with it within 1e-9."""
    serial, stacked = (played(method, [make() for make in models], e, **settings) for e in ("serial", "batched"))
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


def test_gradients_flow_through_what_goes_into_a_layer():
    serial = played_on_both(ThroughTheHead(), [partial(mlp, seed) for seed in range(2)], plan=PLAN.replace(epochs=1))
    plain = played(potluck.methods.Local(), [mlp(0), mlp(1)], "serial", plan=PLAN.replace(epochs=1))
    weights_agree(serial.participants.values(), plain.participants.values(), 1e-9)
