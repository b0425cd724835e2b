"""What an owner is shown before it agrees."""

from __future__ import annotations

from potluck.flower.consent import consent_text
from potluck.methods import METHODS, CoFED, FedAvg
from tests.flower.fakes import invitation


def test_every_method_says_what_it_sends():
    for name in METHODS:
        method = METHODS[name]
        text = consent_text(invitation(method()), method, own_public=True)
        assert "the method does not say what" not in text, name
        assert set(method.exchanges()) == set(method.described_exchanges())


def test_weights_stay_only_where_they_do():
    assert "and so do its weights" in consent_text(invitation(CoFED()), CoFED, own_public=False)
    assert "so do its weights" not in consent_text(invitation(FedAvg()), FedAvg, own_public=False)
