"""What replies must look like, as participants check them."""

from __future__ import annotations

import pytest
import torch

from potluck.core.errors import PayloadError
from potluck.core.payload import Payload
from potluck.core.schema import Schema
from potluck.federation.method import Method, exchange
from potluck.federation.replies import as_sent, check_reply, nothing, reply_contract
from potluck.methods import METHODS

SENT = Schema.of({"x": torch.zeros(2)})


class Said(Method):
    @exchange(lambda self, server, sender: Schema(), reply=lambda self, me, sent: Schema(facts={"n": int}))
    def ask(self, server, answers):
        return Payload(facts={"n": 1})

    @exchange(lambda self, server, sender: Schema())
    def tell(self, server, answers):
        return Payload()


class Overriding(Said):
    @exchange(lambda self, server, sender: Schema())
    def ask(self, server, answers):
        return super().ask(server, answers)

    @exchange(lambda self, server, sender: Schema(), reply=as_sent)
    def tell(self, server, answers):
        return Payload()


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ({"x": torch.tensor([1.0, -1.0])}, None),
        ({"bn.running_var": torch.tensor([0.5])}, None),
        ({"x": torch.tensor([float("nan")])}, "NaN or infinity"),
        ({"x": torch.tensor([1e30])}, "expected at most"),
        ({"bn.running_var": torch.tensor([-0.5])}, "expected at least 0"),
    ],
)
def test_a_reply_of_which_nothing_is_said_has_lawful_numbers(reply, why):
    if why is None:
        check_reply(Said(), "tell", None, SENT, Payload(reply))
    else:
        with pytest.raises(PayloadError, match=why):
            check_reply(Said(), "tell", None, SENT, Payload(reply))


@pytest.mark.parametrize("method", [Said(), Overriding()])
def test_a_reply_is_as_the_method_says_or_the_one_that_it_derives_from(method):
    check_reply(method, "ask", None, SENT, Payload(facts={"n": 1}))
    with pytest.raises(PayloadError, match="'n' is missing"):
        check_reply(method, "ask", None, SENT, Payload())


def test_a_reply_may_be_like_what_was_sent_or_say_nothing():
    check_reply(Overriding(), "tell", None, SENT, Payload({"x": torch.ones(2)}))
    for odd in ({"x": torch.ones(3)}, {"x": torch.ones(2).double()}, {}, {"x": torch.ones(2), "y": torch.ones(2)}):
        with pytest.raises(PayloadError):
            check_reply(Overriding(), "tell", None, SENT, Payload(odd))
    nothing(None, None, SENT).check(Payload())
    with pytest.raises(PayloadError, match="was not asked for"):
        nothing(None, None, SENT).check(Payload({"x": torch.ones(2)}))


@pytest.mark.parametrize("name", METHODS)
def test_every_exchange_of_potlucks_own_says_what_its_replies_look_like(name):
    method = METHODS[name]
    assert [exchange for exchange in method.exchanges() if reply_contract(method, exchange) is None] == []
