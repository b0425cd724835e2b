"""FedProto (Tan et al., AAAI 2022) as somebody outside writes it, from public imports alone.

Its participants answer by the nearest prototype (equation 8), not by their own heads, whatever their architectures.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import nn

from potluck import (
    Exchange,
    Federation,
    Fit,
    Method,
    Needs,
    Participant,
    Payload,
    Plan,
    Predict,
    RequirementsError,
    Schema,
    Tap,
    TensorSpec,
    exchange,
)
from tests.flower.fakes import FakeGrid, client_of, invitation, served
from tests.tables import agree, made_data

CLASSES = 3


def distance_to_prototypes(features, y, prototypes, known):
    """The mean squared error to the prototype of each sample's class; a class without one adds nothing."""
    apart = (features - prototypes[y]).square().mean(dim=1)
    return torch.where(known[y], apart, torch.zeros_like(apart)).mean()


def proto_loss(model, batch, context):
    """L_S + λ · L_R (equation 7)."""
    logits, taken = model.taps(batch["x"], at=[context["at"]])
    features = taken[context["at"]].flatten(1)
    apart = distance_to_prototypes(features, batch["y"], context["prototypes"], context["known"])
    return F.cross_entropy(logits, batch["y"]) + context["weight"] * apart


def class_means(features, y, classes):
    """Each class's mean feature (equation 3), and which classes there are."""
    counts = y.bincount(minlength=classes)
    sums = features.new_zeros(classes, features.shape[1]).index_add(0, y, features)
    return sums / counts.clamp(min=1)[:, None], counts > 0


class FedProto(Method):
    """Participants share the mean feature of each class, and pull their features to everybody's means."""

    needs = Needs(torch_module=True, one_label_space=True)
    weight: float = Field(1.0, ge=0)
    features: str = "features"

    def join(self, me):
        example = yield Tap(me.data.take(torch.arange(1)), at=[self.features])
        width = example[self.features].flatten(1).shape[1]
        yield Exchange("hello", Payload(facts={"width": width, "classes": len(me.labels)}))
        me.state["prototypes"] = torch.zeros(len(me.labels), width, dtype=torch.float64)
        me.state["known"] = torch.zeros(len(me.labels), dtype=torch.bool)

    def round(self, me):
        yield Fit(proto_loss, context={**me.state, "weight": self.weight, "at": self.features})
        features = (yield Tap(me.data, at=[self.features]))[self.features]
        means, known = class_means(features.flatten(1).double(), me.data.y, len(me.labels))
        reply = yield Exchange("prototypes", Payload({"means": means, "known": known}))
        me.state.update(prototypes=reply["means"], known=reply["known"])

    def predict(self, me, inputs):
        """The nearest prototype; before there is one, one's own head."""
        if "known" not in me.state or not me.state["known"].any():
            return (yield Predict(inputs))
        features = (yield Tap(inputs, at=[self.features]))[self.features].flatten(1)
        distances = (features[:, None] - me.state["prototypes"]).square().sum(dim=2).sqrt()
        return (-distances).masked_fill(~me.state["known"], -torch.inf).softmax(dim=1)

    @exchange(lambda self, server, sender: Schema(facts={"width": PositiveInt, "classes": PositiveInt}), phase="join")
    def hello(self, server, answers):
        shapes = {(payload.facts["classes"], payload.facts["width"]) for _, payload in answers}
        if len(shapes) > 1:
            raise RequirementsError(f"FedProto compares features, which have several shapes: {sorted(shapes)}.")
        server.state["shape"] = list(shapes.pop())
        return Payload()

    def prototype_schema(self, server, sender):
        classes, width = server.state["shape"]
        return Schema(
            {"means": TensorSpec((classes, width), torch.float64), "known": TensorSpec((classes,), torch.bool)}
        )

    @exchange(prototype_schema)
    def prototypes(self, server, answers):
        """Each class's mean over the participants that have it (equation 6; unweighted, as in the authors' code)."""
        classes, width = server.state["shape"]
        total, count = torch.zeros(classes, width, dtype=torch.float64), torch.zeros(classes, dtype=torch.int64)
        for _, payload in answers:
            total, count = total + payload["means"] * payload["known"][:, None], count + payload["known"]
        return Payload({"means": total / count.clamp(min=1)[:, None], "known": count > 0})


# Numbers worked out by hand: A has (1, 0) and (3, 0) of class 0 and (0, 4) of class 1, B has (6, 0) of class 0.


def answered(means):
    """The server's reply to class means; None stands for a class that somebody lacks."""
    from potluck.federation.server import Server

    server = Server(seed=0, participant_weights={"A": 1.0, "B": 1.0})
    server.state["shape"] = [2, 2]
    payloads = []
    for name, rows in means.items():
        known = torch.tensor([row is not None for row in rows])
        table = torch.tensor([row or (0.0, 0.0) for row in rows], dtype=torch.float64)
        payloads.append((name, Payload({"means": table, "known": known})))
    return FedProto().prototypes(server, iter(payloads))


def test_the_means_of_a_participant():
    features = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    means, known = class_means(features, torch.tensor([0, 0, 1]), 3)
    assert means.tolist() == [[2.0, 0.0], [0.0, 4.0], [0.0, 0.0]]
    assert known.tolist() == [True, True, False]


def test_prototypes_are_unweighted_means_over_those_who_have_the_class():
    reply = answered({"A": [(2.0, 0.0), (0.0, 4.0)], "B": [(6.0, 0.0), None]})
    assert reply["means"].tolist() == [[4.0, 0.0], [0.0, 4.0]]
    assert reply["known"].tolist() == [True, True]
    assert answered({"A": [(2.0, 0.0), None], "B": [(6.0, 0.0), None]})["known"].tolist() == [True, False]


def test_a_class_without_a_prototype_adds_nothing():
    """(1, 0) is (3² + 0²)/2 = 4.5 away from (4, 0); class 1 has no prototype; the mean over both samples is 2.25."""
    features, y = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 1])
    prototypes, known = torch.tensor([[4.0, 0.0], [0.0, 0.0]]), torch.tensor([True, False])
    assert distance_to_prototypes(features, y, prototypes, known).item() == 2.25


class Doubled(nn.Module):
    """Its features are twice its inputs; its head says the opposite of what they mean."""

    def __init__(self):
        super().__init__()
        self.features = nn.Linear(2, 2, bias=False)
        self.head = nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            self.features.weight.copy_(2 * torch.eye(2))
            self.head.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))

    def forward(self, x):
        return self.head(self.features(x))


def test_a_participant_answers_by_the_nearest_prototype():
    """Of the prototypes (4, 0) and (0, 4), the feature (2, 0) is 2 and √20 away, the feature (0, 4) √32 and 0."""
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    me = Participant("A", Doubled(), (x, ["left", "right"]))
    federation = Federation([me], FedProto(), engine="serial")
    assert me.predict(x).tolist() == ["right", "left"], "by its own head: there are no prototypes yet"
    prototypes = torch.tensor([[4.0, 0.0], [0.0, 4.0]], dtype=torch.float64)
    me.state.update(prototypes=prototypes, known=torch.tensor([True, True]))
    assert me.predict(x).tolist() == ["left", "right"]
    expected = torch.tensor([[-2.0, -(20**0.5)], [-(32**0.5), 0.0]])
    np.testing.assert_allclose(me.predict_proba(x), expected.softmax(dim=1).numpy(), rtol=1e-6)
    me.state["known"] = torch.tensor([False, True])
    assert me.predict_proba(x).tolist() == [[0.0, 1.0], [0.0, 1.0]], "nobody has prototypes of the first class"
    assert federation.history.rounds == 0


# Federations.


def convolving(seed):
    torch.manual_seed(seed)
    extractor = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten())
    layers = OrderedDict(
        extractor=extractor, features=nn.Linear(108, 5), head=nn.Sequential(nn.ReLU(), nn.Linear(5, 3))
    )
    return nn.Sequential(layers).double()


def flat(seed, hidden=7):
    torch.manual_seed(seed)
    extractor = nn.Sequential(nn.Flatten(), nn.Linear(36, hidden), nn.Tanh())
    return nn.Sequential(OrderedDict(extractor=extractor, features=nn.Linear(hidden, 5), head=nn.Linear(5, 3))).double()


TEST = made_data(60, 91)
PLAN = Plan(optimizer="sgd", lr=0.05, momentum=0.9, epochs=2, batch_size=8)


def people(plan=PLAN, count=5, **settings):
    """Five participants of three architectures; the last two lack a class."""
    models = [convolving(0), convolving(1), flat(2), flat(3), flat(4, hidden=11)][:count]
    owned = [range(3), range(3), range(3), (0, 2), (1, 2)]
    return [
        Participant(f"p{i}", model, made_data(18 + 5 * i, i, owned[i]), plan=plan, labels=range(3), **settings)
        for i, model in enumerate(models)
    ]


def played(engine, rounds=3, **settings):
    federation = Federation(people(), FedProto(), test=TEST, seed=2, engine=engine, **settings)
    federation.run(rounds)
    return federation


@pytest.mark.parametrize("settings", [{}, {"participation": 0.6}], ids=["all", "some"])
def test_engines_agree(settings):
    ours, theirs = played("batched", **settings), played("serial", **settings)
    agree(ours.history.rows(), theirs.history.rows(), 1e-9)
    for name, me in ours.participants.items():
        np.testing.assert_allclose(me.predict_proba(TEST[0]), theirs.participants[name].predict_proba(TEST[0]), 1e-9)


def test_the_history_tells_how_often_the_nearest_prototype_is_right():
    federation = played("batched")
    rows = {row["participant"]: row for row in federation.history.final.rows}
    differ = 0
    for name, me in federation.participants.items():
        with torch.no_grad():
            features = me.model.extractor(torch.from_numpy(TEST[0]))
            features = me.model.features(features)
            head = me.model.head(features).argmax(1).numpy()
        nearest = torch.cdist(features, me.state["prototypes"]).argmin(1).numpy()
        assert rows[name]["accuracy"] == (nearest == TEST[1]).mean()
        np.testing.assert_array_equal(me.predict(TEST[0]), nearest)
        differ += int((nearest != head).sum())
    assert differ > 0, "the heads would have answered otherwise"


def test_a_round_equals_plain_pytorch():
    """Two rounds of one step each: the first without prototypes, the second with everybody's."""
    plan = Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=1000)
    federation = Federation(people(plan), FedProto(weight=0.5), seed=2, engine="serial")
    federation.run(2)
    plain = people(plan)
    prototypes, known = torch.zeros(3, 5, dtype=torch.float64), torch.zeros(3, dtype=torch.bool)
    for _ in range(2):
        found = []
        for person in plain:
            model, x, y = person.model, person.data.x, person.data.y
            model.train()
            features = model.features(model.extractor(x))
            apart = ((features - prototypes[y]) ** 2).mean(dim=1)[known[y]].sum() / len(y)
            loss = F.cross_entropy(model.head(features), y) + 0.5 * apart
            parameters = list(model.parameters())
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.data -= 0.1 * gradient
            model.eval()
            with torch.no_grad():
                features = model.features(model.extractor(x))
            found.append([features[y == label].mean(dim=0) for label in range(3)])
        means = [torch.stack([mine[k] for mine in found if not mine[k].isnan().any()]).mean(dim=0) for k in range(3)]
        prototypes, known = torch.stack(means), torch.ones(3, dtype=torch.bool)
    for person, me in zip(plain, federation.participants.values(), strict=True):
        torch.testing.assert_close(me.weights(), dict(person.model.state_dict()), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(me.state["prototypes"], prototypes, rtol=1e-9, atol=1e-9)


def test_a_resumed_run_answers_as_an_unbroken_one(tmp_path):
    def table():
        return Federation(people(), FedProto(), test=TEST, seed=2, engine="serial")

    unbroken = table()
    unbroken.run(3)
    table().run(2, run_dir=tmp_path)
    resumed = table()
    agree(resumed.run(3, run_dir=tmp_path, resume=True).rows(), unbroken.history.rows(), 0)
    finished = table()
    finished.run(3, run_dir=tmp_path, resume=True)
    for name, me in unbroken.participants.items():
        for other in (resumed, finished):
            np.testing.assert_array_equal(other.participants[name].predict_proba(TEST[0]), me.predict_proba(TEST[0]))


def test_over_a_network_participants_answer_in_the_same_way(tmp_path):
    name, method = f"{__name__}:FedProto", FedProto()
    clients = [client_of(me, tmp_path, allow_imports=(name,)) for me in people(count=3, test=TEST)]
    invite = invitation(method, method=name)
    over = served(FakeGrid(clients), method, ["p0", "p1", "p2"], invite=invite)
    here = Federation(people(count=3, test=TEST), FedProto(), seed=3, engine="serial")
    agree(over.run(2).rows(), here.run(2).rows(), 1e-9)
    for client, me in zip(clients, here.participants.values(), strict=True):
        np.testing.assert_allclose(client.participant.predict_proba(TEST[0]), me.predict_proba(TEST[0]), 1e-9)


def test_only_prototypes_travel():
    rows = Federation(people(), FedProto(), engine="serial").run(2).rows()
    both = Payload({"means": torch.zeros(3, 5, dtype=torch.float64), "known": torch.zeros(3, dtype=torch.bool)}).size
    assert {(row["bytes_up"], row["bytes_down"]) for row in rows if row["round"] == 2} == {(both, both)}
