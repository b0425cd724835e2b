"""What replies must look like where weights are shared: lawful ones pass, and nothing else."""

from __future__ import annotations

import pytest
import torch

import potluck
from potluck.core.errors import PayloadError
from potluck.core.payload import Payload
from potluck.core.schema import Schema
from potluck.federation.replies import check_reply
from potluck.methods import SCAFFOLD, FedAvg, FedIN, FedKD, LotteryFL
from potluck.methods.low_rank import compressed
from potluck.methods.pruning import KEPT, packed
from potluck.methods.scaffold import CONTROL
from potluck.methods.tensor_groups import under
from tests.tables import PLAN, deep_cnn, made_data, mlp


def joined(method, model=None, **settings):
    me = potluck.Participant("p0", model or mlp(0), made_data(20, 0), plan=PLAN, labels=range(3), **settings)
    me.join(3, None, method)
    return me


def accepts(method, me, name, payload, sent=None):
    sent = Schema.of({"x": torch.zeros(1)}) if sent is None else sent
    try:
        check_reply(method, name, me, sent, payload)
    except PayloadError:
        return False
    return True


@pytest.mark.parametrize("name", ["fetch", "weights", "start"])
def test_values_of_all_entries_that_one_shares_and_of_no_others(name):
    method, me = FedAvg(), joined(FedAvg())
    own = me.weights()
    first = next(iter(own))
    assert accepts(method, me, name, Payload(own))
    assert not accepts(method, me, name, Payload({**own, "more": torch.zeros(2)}))
    assert not accepts(method, me, name, Payload({n: e for n, e in own.items() if n != first}))
    assert not accepts(method, me, name, Payload({**own, first: own[first][:1]}))
    assert not accepts(method, me, name, Payload({**own, first: own[first].float()}))
    assert not accepts(method, me, name, Payload(own, {"more": 1}))


def test_first_values_are_asked_for_by_name():
    method, me = FedAvg(), joined(FedAvg())
    for name in ("greet", "start"):
        assert accepts(method, me, name, Payload(facts={"send": ["a"]}))
        for odd in (5, [5], [["a"]], "a", None):
            assert not accepts(method, me, name, Payload(facts={"send": odd}))
        assert not accepts(method, me, name, Payload(me.weights(), {"send": []}))
    assert not accepts(method, me, "greet", Payload(me.weights()))


def test_scaffold_sends_control_variates_of_what_is_trained():
    method, me = SCAFFOLD(optimizers="any"), joined(SCAFFOLD(optimizers="any"))
    own = me.weights()
    me.state["c"] = own
    control = under(CONTROL, own)
    assert not accepts(method, me, "weights", Payload(own))
    assert accepts(method, me, "weights", Payload({**own, **control}))
    assert not accepts(method, me, "weights", Payload({**own, **control, **under(CONTROL, {"x": torch.zeros(1)})}))


def test_pairs_of_features_are_of_ones_own_shape_and_only_so_many():
    method = FedIN(pairs=4)
    me = joined(method, deep_cnn(0))
    me.state["shapes"] = [[4, 6, 6], [4, 6, 6]]
    own = me.weights()

    def pairs(count, channels=4):
        return {name: torch.zeros(count, channels, 6, 6) for name in ("features/in", "features/out")}

    names = sorted(method.pair_schema(me.state["shapes"]))
    sent = [dict(zip(names, pairs(*size).values(), strict=True)) for size in ((4,), (5,), (4, 9))]
    assert accepts(method, me, "update", Payload(own))
    assert [accepts(method, me, "update", Payload({**own, **each})) for each in sent] == [True, False, False]


def test_factors_of_a_change_have_one_rank():
    method = FedKD(rounds=3)
    me = joined(method)
    student = method.shared(me)
    lawful = compressed(student, 1.0)
    assert accepts(method, me, "weights", Payload(lawful))
    assert accepts(method, me, "fetch", Payload(student), Schema())
    odd = next(name for name, part in lawful.items() if name not in student and part.ndim == 1)
    assert not accepts(method, me, "weights", Payload({**lawful, odd: lawful[odd][:1]}))


def test_of_what_was_pruned_comes_what_is_kept_or_the_whole():
    method = LotteryFL()
    me = joined(method, validation=0.25)
    own = me.weights()
    name = method.prunable(me)[0]
    mask = torch.zeros(own[name].shape, dtype=torch.bool)
    mask[0] = True
    kept = {**own, name: own[name][mask], f"{KEPT}{name}": packed(mask)}
    assert accepts(method, me, "weights", Payload(own))
    assert accepts(method, me, "weights", Payload(kept))
    assert not accepts(method, me, "weights", Payload({**kept, name: own[name][mask][:-1]}))
    assert not accepts(method, me, "weights", Payload({**own, name: own[name][mask]}))
