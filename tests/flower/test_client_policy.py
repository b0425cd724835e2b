"""A server cannot overreach: what was agreed to is done once, as its owner allows, whatever it asks for."""

from __future__ import annotations

import pytest

import potluck
from potluck.core.payload import Payload
from potluck.flower.consent import Consent
from potluck.flower.policy import Policy
from potluck.flower.protocol import Advance, Evaluate, PublicData
from potluck.flower.public_data import to_payload
from potluck.methods import CoFED, DraftFed, FedAvg, Local
from tests.flower.fakes import client_of, invitation, shared
from tests.flower.things import mlp
from tests.tables import PLAN, made_data


def participant():
    return potluck.Participant("p0", mlp, made_data(20, 0), plan=PLAN, labels=range(3), test=made_data(10, 9))


def invited(folder, method, terms=(), **settings):
    found = client_of(participant(), folder, **settings)
    answer = found.answer(invitation(method, **dict(terms)).message())
    return found, answer.head


def play(client, number, phase="round"):
    return client.answer(Advance(phase=phase, round=number, step=0).message()).head


def test_inviting_again_makes_no_more_rounds(tmp_path, caplog):
    """Each new invitation let the server play all rounds anew: 200 trainings for one that was agreed to."""
    trained = 0
    for course in range(20):
        client, _ = invited(tmp_path, FedAvg(), {"rounds": 1})
        join_with(client, {name: entry * 0 + course for name, entry in client.participant.weights().items()})
        trained += play(client, 1)["kind"] == "exchange"
    assert trained == 11
    assert "allows 11 trainings in this federation, which are done" in caplog.text


def test_nothing_comes_with_the_beginning_of_a_phase(tmp_path, caplog):
    """Else a server had a phase played again, from the same state, as often as it likes."""
    client, _ = invited(tmp_path, Local())
    assert client.answer(Advance(phase="join", round=0, step=0).message(b"another course")).head["kind"] == "failed"
    assert "join 0 is to begin with a reply, and nothing was sent yet" in caplog.text
    assert client._ledger.spent.joinings == 0
    assert play(client, 0, "join")["kind"] == "end"


def test_a_round_is_evaluated_once_and_none_before_the_first(tmp_path):
    client, _ = invited(tmp_path, FedAvg(), {"rounds": 3})
    client.answer(Advance(phase="join", round=0, step=0).message())
    weights = {name: entry * 0 for name, entry in client.participant.weights().items()}
    assert client.answer(Evaluate(round=0).message()).head["kind"] == "failed"
    assert client.answer(Evaluate(round=4).message()).head["kind"] == "failed"
    client.answer(Advance(phase="join", round=0, step=1).message(Payload(facts={"send": []}).to_bytes()))
    client.answer(Advance(phase="join", round=0, step=1).message(Payload(facts={"send": []}).to_bytes()))
    client.answer(Advance(phase="join", round=0, step=2).message(Payload(weights).to_bytes()))
    first = client.answer(Evaluate(round=1).message()).head
    assert first["kind"] == "metrics"
    other = {name: entry + 1 for name, entry in weights.items()}
    client.answer(Advance(phase="join", round=0, step=2).message(Payload(other).to_bytes()))
    assert client.answer(Evaluate(round=1).message()).head["metrics"] == first["metrics"]


def join_with(client, weights):
    """Joins, with weights of the server's to start from."""
    client.answer(Advance(phase="join", round=0, step=0).message())
    client.answer(Advance(phase="join", round=0, step=1).message(Payload(facts={"send": []}).to_bytes()))
    client.answer(Advance(phase="join", round=0, step=2).message(Payload(weights).to_bytes()))


def test_joining_again_or_asking_of_later_rounds_measures_nothing_new(tmp_path):
    """Else the loss on weights of the server's choosing would be told again and again, without any training."""
    client, _ = invited(tmp_path, FedAvg(), {"rounds": 50})
    told = []
    for number in range(1, 20):
        weights = {name: entry * 0 + number for name, entry in client.participant.weights().items()}
        join_with(client, weights)
        told.append(client.answer(Evaluate(round=number).message()).head["metrics"]["loss"])
    assert len(set(told)) == 1
    client, _ = invited(tmp_path, FedAvg(), {"rounds": 50})
    client.answer(Advance(phase="round", round=1, step=0).message())
    first = client.answer(Evaluate(round=9).message()).head["metrics"]
    assert client._store.newest_state(9) == 1, "a half that was cut off in round 1 belongs to round 1"
    for number in (9, 10, 11):
        assert client.answer(Evaluate(round=number).message()).head["metrics"] == first


def test_joining_that_has_not_ended_is_not_measured(tmp_path, caplog):
    client, _ = invited(tmp_path, FedAvg())
    client.answer(Advance(phase="join", round=0, step=0).message())
    assert client.answer(Evaluate(round=1).message()).head["kind"] == "failed"
    assert "joining has not ended" in caplog.text
    assert "Traceback" not in caplog.text, "what a server did wrong is a sentence"


def test_a_federation_that_cannot_be_prepared_leaves_nothing_of_another_to_work_on(tmp_path):
    """Asked again, it was accepted, and worked with the first one's state and budget."""
    client, head = invited(tmp_path, Local())
    assert head["kind"] == "accepted"
    unfit = invitation(DraftFed(), federation="f" * 16)  # a perceptron has no convolutions
    for _ in range(3):
        assert client.answer(unfit.message()).head["kind"] == "declined"
        assert play(client, 0, "join")["kind"] == "failed"
    assert client.answer(invitation(Local()).message()).head["kind"] == "accepted"
    assert play(client, 0, "join")["kind"] == "end"


def test_public_data_that_the_policy_does_not_allow_are_not_stored(tmp_path, caplog):
    public = made_data(12, 5)[0]
    client, head = invited(tmp_path, CoFED(), {"public": public}, policy=Policy(receive_public=False))
    assert head["kind"] == "declined"
    client, head = invited(tmp_path, CoFED(), {"public": public})
    client._policy = Policy(receive_public=False)
    assert client.answer(PublicData().message(to_payload(shared(public)).to_bytes())).head["kind"] == "failed"
    assert "does not allow public data from the server" in caplog.text
    assert not list((tmp_path / "p0").glob("public-*"))


def test_what_leaves_again_counts_again(tmp_path, caplog):
    client, _ = invited(tmp_path, FedAvg())
    size = len(client.answer(Advance(phase="join", round=0, step=0).message()).body)
    client, _ = invited(tmp_path, FedAvg(), policy=Policy(max_bytes=3 * size))
    kinds = [play(client, 0, "join")["kind"] for _ in range(4)]
    assert kinds == ["exchange", "exchange", "failed", "failed"]


def test_metrics_leave_as_the_policy_says(tmp_path):
    for number, metrics in enumerate(("exact", "rounded", "none")):
        client, _ = invited(tmp_path / metrics, Local(), policy=Policy(metrics=metrics))
        play(client, 0, "join")
        found = play(client, 1)["metrics"]["loss"]
        assert (found is None) == (number == 2)
        assert number == 2 or (round(found, 2) == found) == (number == 1)


@pytest.mark.parametrize(
    ("policy", "method", "why"),
    [
        ({"methods": ["FedAvg"]}, CoFED(), "does not allow the method 'CoFED'"),
        ({"leaves": ["statistics"]}, FedAvg(), "that weights leave in 'start'"),
        ({"max_rounds": 3}, Local(), "9 rounds; it allows 3"),
    ],
)
def test_terms_beyond_the_policy_are_declined_before_the_owner_is_asked(policy, method, why, tmp_path):
    asked = []
    _, head = invited(tmp_path, method, policy=Policy(**policy), consent=lambda *terms: asked.append(terms))
    assert head["kind"] == "declined"
    assert why in head["reason"]
    assert asked == []


def test_bytes_beyond_the_policy_do_not_leave(tmp_path, caplog):
    client, head = invited(tmp_path, FedAvg(), policy=Policy(max_bytes=100))
    assert head["kind"] == "accepted"
    assert play(client, 0, "join")["kind"] == "failed"
    assert "allows 100 bytes in this federation" in caplog.text


def test_only_so_many_federations_may_store_something(tmp_path):
    for number in range(4):
        _, head = invited(tmp_path, Local(), {"federation": f"{number:016x}"}, policy=Policy(max_federations=3))
        assert head["kind"] == ("accepted" if number < 3 else "declined")
    assert "3 federations are stored here already" in head["reason"]
    _, head = invited(tmp_path, Local(), {"federation": f"{1:016x}"}, policy=Policy(max_federations=3))
    assert head["kind"] == "accepted", "those that are known go on"


def test_only_so_many_public_data_are_stored(tmp_path):
    """A server of one federation may announce other public data each time that it invites."""
    for number in range(4):
        public = made_data(12, number)[0]
        client, head = invited(tmp_path, CoFED(), {"public": public}, policy=Policy(max_federations=3))
        assert head["kind"] == ("accepted" if number < 3 else "declined")
        client.answer(PublicData().message(to_payload(shared(public)).to_bytes()))
    assert "3 servers' public data are stored here already" in head["reason"]
    assert len(list((tmp_path / "p0").glob("public-*"))) == 3
    _, head = invited(tmp_path, CoFED(), {"public": made_data(12, 1)[0]}, policy=Policy(max_federations=3))
    assert head["kind"] == "accepted", "those that are here are used again"


def ask_to_start(client, times):
    """Asks for first weights again and again; the kinds of the answers."""
    again = Payload(facts={"send": ["0.weight"]}).to_bytes()
    client.answer(Advance(phase="join", round=0, step=0).message())
    return [client.answer(Advance(phase="join", round=0, step=1 + n).message(again)).head["kind"] for n in range(times)]


def test_first_weights_are_not_asked_for_without_end(tmp_path, caplog):
    client, _ = invited(tmp_path, FedAvg())
    kinds = ask_to_start(client, 102)
    assert kinds == ["exchange"] * 100 + ["failed"] * 2
    assert "asks more than 100 times for weights to start from" in caplog.text


def test_a_phase_does_not_go_on_without_end(tmp_path, caplog):
    client, _ = invited(tmp_path, FedAvg(), policy=Policy(max_messages=5))
    assert ask_to_start(client, 6) == ["exchange"] * 4 + ["failed"] * 2
    assert "does not allow that one phase goes on for more than 5 messages (`max_messages`)" in caplog.text


def test_a_reply_that_is_refused_costs_nothing_of_what_was_stored(tmp_path):
    """Nor does a round that is asked for whose beginning is not here any more."""
    client, _ = invited(tmp_path, FedAvg())
    weights = {name: entry * 0 for name, entry in client.participant.weights().items()}
    join_with(client, weights)
    asked = [Advance(phase="round", round=number, step=step) for number in (1, 2, 3) for step in (0, 1)]
    told = [client.answer(each.message(Payload(weights).to_bytes() if each.step else b"")) for each in asked]
    assert [each.head["kind"] for each in told] == ["exchange", "end"] * 3
    kept = client._store.newest_state(9)
    for number in (1, 2):
        client, _ = invited(tmp_path, FedAvg())
        refused = client.answer(Advance(phase="round", round=number, step=1).message(b"damaged"))
        assert refused.head["kind"] == "failed"
        assert play(client, 1)["kind"] == "failed"
        assert client._store.newest_state(9) == kept == 3
    client, _ = invited(tmp_path, FedAvg())
    for each, expected in zip(asked[2:], told[2:], strict=True):
        assert client.answer(each.message(Payload(weights).to_bytes() if each.step else b"")) == expected


def test_consent_is_for_this_server_this_federation_and_this_text(tmp_path):
    asked = []

    def consent(server):
        return Consent(tmp_path / "c.json", lambda text, agreed: asked.append(agreed), own_public=False, server=server)

    for server, terms in [("a", {}), ("a", {}), ("b", {}), ("a", {"federation": "f" * 16}), ("a", {"rounds": 3})]:
        consent(server)(invitation(Local(), **terms), Local)
    assert asked == [False, True, False, False, False]


def test_a_dry_run_shows_the_terms_and_goes_away(tmp_path):
    shown = []
    client, head = invited(tmp_path, Local(), dry_run=True, consent=lambda *terms: shown.append(terms))
    assert (head["kind"], head["reason"]) == ("declined", "its owner looks at the terms")
    assert len(shown) == 1
    assert client.is_done
    client, head = invited(tmp_path, Local(), dry_run=True, policy=Policy(max_rounds=1))
    assert "9 rounds; it allows 1" in head["reason"]
    assert not list((tmp_path / "p0").glob("0*"))
