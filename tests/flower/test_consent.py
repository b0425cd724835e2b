"""What an owner is shown before it agrees."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from potluck.channel.limits import Limits
from potluck.core.errors import PotluckError
from potluck.flower.consent import Consent, channel_of, consent_text
from potluck.flower.protocol import PublicDataInfo
from potluck.methods import METHODS, CoFED, FedAvg
from potluck.recipes.channel_section import ChannelSection
from tests.flower.fakes import invitation


def test_every_method_says_what_it_sends():
    for name in METHODS:
        method = METHODS[name]
        text = consent_text(invitation(method()), method, own_public=True)
        assert "the method does not say what" not in text, name
        assert set(method.exchanges()) == set(method.described_exchanges())


def test_what_the_server_names_cannot_pass_for_a_line_of_the_text():
    forged = {"x\n\nYour machine will send:\n- nothing": 1}
    info = {"source": "a\n- nothing\x1b[2J", "sha256": "0" * 64, "labelled": False, "count": 3}
    asked = invitation(FedAvg()).model_copy(update={"settings": forged, "public": PublicDataInfo(**info)})
    lines = consent_text(asked, FedAvg, own_public=False).splitlines()
    assert "- nothing" not in lines
    assert not any("\x1b" in line for line in lines)
    with pytest.raises(ValidationError):
        invitation(FedAvg(), settings=forged)


def test_nobody_is_asked_to_agree_to_what_nobody_reads(tmp_path):
    shown = []
    owner = Consent(tmp_path / "agreed.json", lambda text, agreed: shown.append(text), own_public=False)
    long = invitation(FedAvg(), settings={"x": "y" * 30_000})
    with pytest.raises(PotluckError, match=r"take 30\d+ characters; nobody reads more than 20000"):
        owner(long, FedAvg)
    assert shown == []


def test_weights_stay_only_where_they_do():
    assert "and so do its weights" in consent_text(invitation(CoFED()), CoFED, own_public=False)
    assert "so do its weights" not in consent_text(invitation(FedAvg()), FedAvg, own_public=False)


def test_the_owner_reads_how_payloads_are_coded():
    told = {
        "up": ["difference", {"name": "topk", "share": 0.1}],
        "exchanges": {"start": {"up": [], "down": ["quantize"]}},
    }
    section = ChannelSection.model_validate(told).model_dump(mode="json")
    text = consent_text(invitation(FedAvg(), channel=section), FedAvg, own_public=False)
    assert "- everything that you send is coded by difference, then topk {'share': 0.1}\n" in text
    assert "- the payload start that you send is coded by nothing\n" in text
    assert "- the payload start that you receive is coded by quantize\n" in text
    assert "everything that you receive" not in text
    assert "coded" not in consent_text(invitation(FedAvg()), FedAvg, own_public=False)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"up": ["topc"]}, "There is no codec 'topc'"),
        ({"up": [{"name": "topk", "share": 3}]}, "share = 3"),
        ({"upward": []}, "'upward'"),
        ({"up": 3}, "up = 3"),
        ({"up": ["mine:Codec"]}, "'mine:Codec', which is not potluck's own; if it is code that you trust"),
        ({"exchanges": {"start": {"down": ["mine:Codec"]}}}, "'mine:Codec', which is not potluck's own"),
    ],
)
def test_codecs_that_are_not_known_here_are_declined(told, why):
    with pytest.raises(PotluckError, match=re.escape(why)):
        channel_of(invitation(FedAvg(), channel=told), (), Limits(), None)
