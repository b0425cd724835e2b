"""CoFED by the votes worked by hand, then whole, against a plain re-computation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.tree import DecisionTreeClassifier

import potluck
from potluck.core.errors import PayloadError
from potluck.core.labels import UNLABELLED
from potluck.core.payload import Payload
from potluck.core.samples import Samples
from potluck.core.schema import Schema
from potluck.federation.replies import check_reply
from potluck.federation.server import Server
from potluck.methods.cofed import SILENT, CoFED, inverse_frequency, votes
from tests.tables import made_data, mlp, participants

SPACES = {"P1": ["a", "b"], "P2": ["a", "b"], "P3": ["b", "c"], "P4": ["a", "c"]}
VOTES = {"P1": "aaba", "P2": "abbb", "P3": "bbcc", "P4": "acca"}


def place(vote, space):
    """A letter as it travels; "-" abstains, "?" is of who has no labels."""
    return {"-": UNLABELLED, "?": SILENT}.get(vote) if vote in "-?" else space.index(vote)


def received(alpha, participant_weights=None, said=VOTES):
    """What each participant receives, as {label: rows counted from 1}."""
    weights = dict.fromkeys(SPACES, 1.0) | (participant_weights or {})
    server = Server(0, weights, Samples({"x": torch.zeros(4, 1)}), state={"labels": SPACES})
    answers = iter(
        (
            name,
            Payload({"votes": torch.tensor([place(v, SPACES[name]) for v in text]).int()}),
        )
        for name, text in said.items()
    )
    replies = CoFED(alpha=alpha).votes(server, answers)
    found = {}
    for name, reply in replies.items():
        found[name] = {}
        for row, label in zip(reply["rows"].tolist(), reply["labels"].tolist(), strict=True):
            found[name].setdefault(SPACES[name][label], []).append(row + 1)
    return found


def test_the_vote_worked_by_hand():
    """At α = ½: a:{1,4}, b:{2,3}, c:{3}; P3 would get b and c on sample 3, so it gets neither."""
    assert received(0.5) == {
        "P1": {"a": [1, 4], "b": [2, 3]},
        "P2": {"a": [1, 4], "b": [2, 3]},
        "P3": {"b": [2]},
        "P4": {"a": [1, 4], "c": [3]},
    }


def test_no_share_is_above_one():
    assert received(1.0) == {name: {} for name in SPACES}


def test_alpha_zero_asks_for_one_vote():
    """One vote for a and one for b on samples 1, 2 and 4 leave P1 with sample 3 alone."""
    assert received(0.0)["P1"] == {"b": [3]}
    assert received(0.0)["P4"] == {"a": [1], "c": [3]}


def test_a_share_equal_to_alpha_is_not_enough():
    """Sample 2: of the three who know a, P1 alone says a. 0.1 + 0.2 + 1/30 is a third with a float error."""
    for alpha in (1 / 3, 0.1 + 0.2 + 1 / 30):
        assert 2 not in received(alpha)["P4"].get("a", [])


def test_credible_participants_count_more():
    """c on sample 2: P4 alone of P3 and P4 says so; with three times P3's weight its share is 3/4."""
    assert 2 not in received(0.5)["P4"].get("c", [])
    assert 2 in received(0.5, {"P4": 3.0})["P4"]["c"]


def test_abstaining_still_counts_in_the_denominator():
    """P2 and P4 abstain on sample 1: a then has one vote of three who know it."""
    silent = VOTES | {"P2": "-bbb", "P4": "-cca"}
    assert 1 not in received(0.5, said=silent)["P4"].get("a", [])
    assert 1 in received(0.3, said=silent)["P4"]["a"]


def test_who_abstains_everywhere_still_counts():
    """P2 has labels, but is sure of none: a on sample 1 has two votes of three who know it."""
    silent = VOTES | {"P2": "----"}
    assert 1 in received(0.6, said=silent)["P4"]["a"]
    assert 1 not in received(0.7, said=silent)["P4"].get("a", [])


def test_who_has_no_labels_does_not_count():
    """Then only P1 and P4 know a, and both say so on sample 1."""
    found = received(0.9, said=VOTES | {"P2": "????"})
    assert 1 in found["P4"]["a"]
    assert 1 in found["P2"]["a"]


def test_margin_makes_a_participant_abstain():
    probabilities = torch.tensor([[0.6, 0.4], [0.7, 0.3], [0.5, 0.5]])
    assert votes(probabilities, 0.0).tolist() == [0, 0, 0]
    assert votes(probabilities, 0.3).tolist() == [UNLABELLED, 0, UNLABELLED]


def test_a_margin_of_one_label_never_abstains():
    assert votes(torch.ones(2, 1), 0.3).tolist() == [0, 0]


def test_rare_labels_weigh_more():
    weight = inverse_frequency(torch.tensor([0, 0, 0, 0, 2, 2]))
    assert weight.tolist() == [0.5, 0.5, 0.5, 0.5, 1.0, 1.0]


def people():
    """Three trees with three label spaces; a tree without randomness can be re-computed by hand."""
    spaces = {"north": [0, 1], "east": [1, 2], "west": [0, 1, 2]}
    return [
        potluck.Participant(
            name,
            DecisionTreeClassifier(random_state=1, max_depth=3),
            made_data(30, i, labels),
            labels=labels,
            weight=1 + i,
        )
        for i, (name, labels) in enumerate(spaces.items())
    ]


def test_whole_method_equals_a_plain_recomputation():
    public, alpha = made_data(60, 50)[0], 0.4
    table = people()
    history = potluck.Federation(table, CoFED(alpha=alpha), public=public, test=made_data(50, 51)).run(1)

    data = {f.name: (f.data.x.reshape(30, -1).numpy(), np.array(f.labels)[f.data.y.numpy()]) for f in people()}
    rows = public.reshape(60, -1)
    said = {p.name: DecisionTreeClassifier(random_state=1, max_depth=3).fit(*data[p.name]).predict(rows) for p in table}
    for person in table:
        extra, labels = [], []
        for row in range(60):
            passed = [
                k
                for k in person.labels
                if sum(p.weight for p in table if said[p.name][row] == k)
                > alpha * sum(p.weight for p in table if k in p.labels) + 1e-9
            ]
            if len(passed) == 1:
                extra.append(row)
                labels.append(passed[0])
        x, y = data[person.name]
        x, y = np.concatenate([x, rows[extra]]), np.concatenate([y, labels])
        counts = {k: (y == k).sum() for k in set(y.tolist())}
        weight = np.array([min(counts.values()) / counts[k] for k in y])
        tree = DecisionTreeClassifier(random_state=1, max_depth=3).fit(x, y, sample_weight=weight)
        np.testing.assert_array_equal(person.predict(rows), tree.predict(rows))
        row_of = next(row for row in history.rows() if row["participant"] == person.name)
        assert row_of["received"] == len(extra)


def test_traffic_is_the_votes_and_what_comes_back():
    table = people()
    history = potluck.Federation(table, CoFED(), public=made_data(60, 50)[0]).run(1)
    for row, person in zip(history.rows(), table, strict=True):
        greeting = Payload(facts={"labels": list(person.labels)})
        ballot = Payload({"votes": torch.zeros(60, dtype=torch.int32)})
        assert row["bytes_up"] == greeting.size + ballot.size
        empty = torch.zeros(row["received"], dtype=torch.int32)
        assert row["bytes_down"] == Payload().size + Payload({"rows": empty, "labels": empty}).size


def test_a_participant_without_classes_in_common_is_named():
    lonely = potluck.Participant("lonely", DecisionTreeClassifier(), made_data(10, 0, [7, 8]))
    with pytest.raises(potluck.RequirementsError, match="lonely has no class in common"):
        potluck.Federation([*people(), lonely], CoFED(), public=made_data(20, 1)[0])


def test_learning_from_the_others_beats_learning_alone():
    """Section 5.2's claim in small: little data each, much unlabelled public data."""

    def accuracy(method):
        scores = []
        for seed in range(3):
            table = [
                potluck.Participant(f"p{i}", DecisionTreeClassifier(max_depth=6), made_data(25, 100 * seed + i))
                for i in range(12)
            ]
            federation = potluck.Federation(
                table, method, public=made_data(400, 50 + seed)[0], test=made_data(300, 70 + seed), seed=seed
            )
            scores.append(federation.run(1).final.accuracy)
        return np.mean(scores)

    assert accuracy(CoFED(alpha=0.3)) > accuracy(potluck.methods.Local()) + 0.05


def test_a_weight_below_one_divides_the_votes_as_any_other():
    """Only P1 and P2 know b and say so on sample 2, with P3: three of three, whatever their weights sum to."""
    light = dict.fromkeys(SPACES, 0.2)
    assert received(0.5, light) == received(0.5)


def test_a_lead_that_equals_the_margin_is_too_small():
    assert votes(torch.tensor([[0.75, 0.25]]), 0.5).tolist() == [UNLABELLED]


@pytest.mark.parametrize(
    ("rows", "labels", "why"),
    [
        ([0, 2], [1, 2], None),
        ([], [], None),
        ([0, -1], [0, 0], "holds -1; expected at least 0"),
        ([0, 30], [0, 0], "holds 30; expected at most 29"),
        ([0, 1], [0, 3], "holds 3; expected at most 2"),
        ([0, 1], [0, 2**28], "expected at most 2"),
        ([0], [0, 1], "has 2 rows, 'rows' has 1"),
        ([3, 3], [0, 0], "names a row twice"),
        ([0] * 40, [0] * 40, "has 40 rows; expected 0 to 30"),
    ],
)
def test_a_reply_names_public_rows_once_and_ones_own_labels(rows, labels, why):
    me = potluck.Participant("a", mlp(0), made_data(20, 0), labels=range(3))
    potluck.Federation([me, *participants([mlp(1)])], CoFED(), public=made_data(30, 1)[0], engine="serial")
    reply = Payload({"rows": torch.tensor(rows).int(), "labels": torch.tensor(labels).int()})
    if why is None:
        check_reply(CoFED(), "votes", me, Schema(), reply)
    else:
        with pytest.raises(PayloadError, match=why):
            check_reply(CoFED(), "votes", me, Schema(), reply)
