"""Losses between answers, and soft labels for estimators, by numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import potluck
from potluck import Participant, Samples
from potluck.methods import FD, CoFED, FedDistill, FedMD
from potluck.methods.distillation import answers_of, as_probabilities, fit_labels, hardened, kl
from tests.tables import agree, cnn, made_data, mlp, participants

X = torch.tensor([[0.0], [1.0], [2.0]])


def test_kl_worked_by_hand():
    """Target (.75, .25), answer (.5, .5): .75·ln 1.5 + .25·ln .5 = .130812, and only the answer is moved."""
    target = torch.tensor([[math.log(3), 0.0]], requires_grad=True)
    logits = torch.zeros(1, 2, requires_grad=True)
    distance = kl(target, logits)
    assert distance.tolist() == [pytest.approx(0.130812, abs=1e-6)]
    distance.sum().backward()
    torch.testing.assert_close(logits.grad, torch.tensor([[-0.25, 0.25]]))
    assert target.grad is None


def test_a_temperature_divides_both():
    target, logits = torch.randn(4, 3), torch.randn(4, 3)
    torch.testing.assert_close(kl(target, logits, 2.0), kl(target / 2, logits / 2))


def test_a_temperature_flattens_what_travels():
    logits = torch.tensor([[2 * math.log(3), 0.0]], dtype=torch.float64)
    torch.testing.assert_close(as_probabilities(logits, 2.0), torch.tensor([[0.75, 0.25]]))


def test_soft_labels_become_weighted_copies_or_the_likeliest():
    soft = Samples({"x": X, "soft": torch.tensor([[1.0, 0.0], [0.25, 0.75], [0.5, 0.5]])})
    copies = hardened(soft, weighted=True)
    assert copies.x.squeeze(1).tolist() == [0, 1, 1, 2, 2]
    assert copies.y.tolist() == [0, 0, 1, 0, 1]
    assert copies.columns["weight"].tolist() == [1, 0.25, 0.75, 0.5, 0.5]
    assert hardened(soft, weighted=False).y.tolist() == [0, 1, 0]


def test_samples_that_count_more_count_more_softly_too():
    soft = Samples({"x": X[:1], "soft": torch.tensor([[0.25, 0.75]]), "weight": torch.tensor([4.0])})
    assert hardened(soft, weighted=True).columns["weight"].tolist() == [1.0, 3.0]


def test_samples_without_a_label_are_left_out():
    assert hardened(Samples({"x": X, "y": torch.tensor([1, -1, 0])}), weighted=True).y.tolist() == [1, 0]


def test_an_estimator_that_minimises_cross_entropy_learns_soft_labels_as_they_are():
    """Logistic regression without a penalty on one input: it finds the soft label itself."""
    me = Participant("a", LogisticRegression(C=1e9, tol=1e-10, max_iter=1000), (X[:2], [0, 1]))
    soft = torch.tensor([[0.7, 0.3], [0.2, 0.8]])
    samples = fit_labels(me, Samples({"x": X[:2], "soft": soft})).on
    me.model.fit(samples.x.numpy(), samples.y.numpy(), sample_weight=samples.columns["weight"].numpy())
    torch.testing.assert_close(torch.from_numpy(me.model.predict_proba(X[:2].numpy())).float(), soft, atol=1e-4, rtol=0)


def test_an_estimators_logits_are_logarithms():
    me = Participant("a", DecisionTreeClassifier(), (X, [0, 0, 1]))
    asked = answers_of(me, me.data)
    assert not next(asked).logits
    with pytest.raises(StopIteration) as answer:
        asked.send(torch.tensor([[1.0, 0.0]]))
    assert answer.value.value.tolist() == [[0.0, pytest.approx(math.log(1e-6))]]


@pytest.mark.parametrize(
    "method",
    [FD(), FedMD(subset=40), FedMD(scores="probabilities", pretrain=False), FedDistill(), CoFED(update_batch_size=16)],
    ids=str,
)
def test_trees_neighbours_and_networks_learn_in_one_federation(method):
    """Answers alone travel, so a tree takes part, and so does an estimator that knows no sample weights."""
    public, test = made_data(60, 90), made_data(80, 91)

    def played(engine):
        models = [mlp(0), cnn(1, 3), DecisionTreeClassifier(max_depth=3), KNeighborsClassifier(), mlp(3)]
        people = participants(models, sizes=(24, 31, 17, 20, 28))
        return potluck.Federation(people, method, public=public, test=test, seed=3, engine=engine).run(2)

    history = played("serial")
    assert min(row["accuracy"] for row in history.final.rows) > 0.5
    assert all(row["refused"] is None for row in history.rows())
    agree(played("batched").rows(), history.rows(), 1e-9)


def test_a_tree_gains_by_what_the_networks_say():
    """Ten samples of its own, and 300 public inputs that two networks with 150 samples each answer.

    One seed, so a margin below what was measured: alone 77%, FedMD 85%, FD more.
    """
    public, test = made_data(300, 90), made_data(300, 91)

    def accuracy(method):
        people = participants([DecisionTreeClassifier(), mlp(1), mlp(2)], sizes=(10, 150, 150))
        history = potluck.Federation(people, method, public=public[0], test=test, seed=3).run(2)
        return history.final.rows[0]["accuracy"]

    alone = accuracy(potluck.methods.Local())
    assert accuracy(FD(temperature=1.0)) > alone + 0.05
    assert accuracy(FedMD(pretrain=False, scores="probabilities")) > alone + 0.05


def test_targets_agree_with_torchs_own_cross_entropy():
    """KL differs from cross-entropy to the soft label by the label's entropy alone, so gradients are the same."""
    target, logits = torch.randn(4, 3), torch.randn(4, 3, requires_grad=True)
    (ours,) = torch.autograd.grad(kl(target, logits).mean(), logits)
    (theirs,) = torch.autograd.grad(F.cross_entropy(logits, target.softmax(1)), logits)
    torch.testing.assert_close(ours, theirs)
