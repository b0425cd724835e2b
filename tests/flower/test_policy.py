"""What a participant's owner allows, whatever the server asks for."""

from __future__ import annotations

import pytest

import potluck
from potluck.core.errors import SettingsError
from potluck.core.model_spec import OWN
from potluck.engines import pick_device
from potluck.engines.base import own_model
from potluck.flower.policy import Policy, PolicyError
from potluck.methods import METHODS, CoFED, DraftFed, FedAvg, FedIN
from tests.flower.fakes import PUBLIC, invitation
from tests.flower.things import mlp
from tests.tables import PLAN, made_data


def refused(policy, method, own_public=False, **terms):
    public = PUBLIC if method.needs.public != "nothing" else None
    asked = invitation(method, public=public, **{"min_participants": 2, **terms})
    try:
        Policy(**policy).check_invitation(asked, type(method), own_public)
    except PolicyError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("policy", "method", "why"),
    [
        ({}, FedIN(), None),
        ({"methods": ["CoFED"]}, FedAvg(), "does not allow the method 'FedAvg'; it allows CoFED"),
        ({"methods": ["CoFED"]}, CoFED(), None),
        ({"exchanges": ["labels", "votes"]}, CoFED(), None),
        ({"exchanges": ["labels"]}, CoFED(), "does not allow the exchange 'votes'"),
        ({"leaves": ["predictions", "statistics"]}, CoFED(), None),
        ({"leaves": ["predictions", "statistics"]}, DraftFed(), "that features leave in 'drafts'"),
        ({"leaves": ["weights", "statistics"]}, FedAvg(), None),
        ({"leaves": ["weights", "statistics"]}, FedIN(), "that features leave in 'update'"),
        ({"leaves": []}, CoFED(), "that statistics leave in 'labels'; it allows nothing"),
        ({"max_rounds": 8}, FedAvg(), "9 rounds; it allows 8"),
        ({"min_others": 1}, FedAvg(), None),
        ({"min_others": 2}, FedAvg(), "a merge with 1 others; it wants 2"),
        ({"receive_public": False}, CoFED(), "public data from the server"),
        ({"receive_public": False}, FedAvg(), None),
        ({"codecs": ["noise"]}, FedAvg(), "what is sent in 'greet' without the codec 'noise'"),
    ],
)
def test_what_is_not_allowed_is_declined_in_a_sentence(policy, method, why):
    found = refused(policy, method)
    assert (found is None) if why is None else (why in found)


def test_a_copy_of_ones_own_is_not_received():
    assert refused({"receive_public": False}, CoFED(), own_public=True) is None


@pytest.mark.parametrize(
    ("channel", "allowed"),
    [
        ({"up": [{"name": "clip"}, {"name": "noise"}]}, True),
        ({"up": [{"name": "clip"}]}, False),
        ({"up": [{"name": "clip"}, {"name": "noise"}], "exchanges": {"weights": {"up": []}}}, False),
        ({"up": [{"name": "clip"}, {"name": "noise"}], "exchanges": {"weights": {"down": []}}}, True),
        ({"down": [{"name": "clip"}, {"name": "noise"}]}, False),
    ],
)
def test_codecs_are_required_of_all_that_leaves(channel, allowed):
    assert (refused({"codecs": ["clip", "noise"]}, FedAvg(), channel=channel) is None) == allowed


def test_every_method_says_what_leaves():
    for name in METHODS:
        assert set(METHODS[name].leaves) >= set(METHODS[name].exchanges()), name


@pytest.mark.parametrize(
    ("metrics", "shown"),
    [("exact", {"accuracy": 0.12345, "loss": None}), ("rounded", {"accuracy": 0.12, "loss": None})],
)
def test_metrics_leave_as_the_owner_wants(metrics, shown):
    exact = {"accuracy": 0.12345, "loss": None}
    assert Policy(metrics=metrics).shown(exact) == shown
    assert Policy(metrics="none").shown(exact) == {"accuracy": None, "loss": None}


def test_settings_are_checked():
    for wrong in ({"metrics": "all"}, {"leaves": ["data"]}, {"max_rounds": -1}, {"nonsense": 1}):
        with pytest.raises((SettingsError, ValueError)):
            Policy(**wrong)


def person(**settings):
    found = potluck.Participant("p0", mlp, made_data(20, 0), plan=PLAN, labels=range(3), **settings)
    found.join(0, None)
    return found


@pytest.mark.parametrize("metrics", ["exact", "rounded", "none"])
def test_metrics_are_those_of_the_model_as_far_as_they_may_leave(metrics):
    test = made_data(30, 9)
    me = person(test=test)
    found = Policy(metrics=metrics).scores(me, {OWN: own_model, "again": own_model}, pick_device("cpu"))
    right = float((me.predict(test[0]) == test[1]).mean())
    expected = {"exact": right, "rounded": round(right, 2), "none": None}[metrics]
    assert found[OWN]["accuracy"] == found["again"]["accuracy"] == expected


def test_without_test_data_there_is_nothing_to_tell():
    assert set(Policy().scores(person(), {OWN: own_model}, pick_device("cpu"))[OWN].values()) == {None}
