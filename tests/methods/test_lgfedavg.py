from __future__ import annotations

import pytest
import torch

from potluck.core.payload import Payload
from potluck.methods import METHODS, LGFedAvg
from tests.methods.plain import begun, data_of, descended
from tests.tables import headed_cnn, mlp


@pytest.mark.parametrize(("weighting", "expected"), [("samples", 4.0), ("uniform", 3.0)])
def test_the_mean_head_by_hand(weighting, expected):
    """Heads of 1 (of one sample) and 5 (of three)."""
    method = LGFedAvg(weighting=weighting)
    federation, _ = begun(method, [mlp(0), mlp(1)])
    server = federation.server
    server.state["samples"] = {"p0": 1, "p1": 3}
    like = method.entries(server, "p0")
    heads = {"p0": 1.0, "p1": 5.0}
    answers = [
        (sender, Payload({name: torch.full_like(entry, value) for name, entry in like.items()}))
        for sender, value in heads.items()
    ]
    for reply in method.weights(server, iter(answers)).values():
        assert all((entry == expected).all() for entry in reply.tensors.values())


def test_a_round_in_plain_pytorch():
    """All begin with the first one's head; extractors of any architecture stay, heads take the mean by samples."""
    federation, models = begun(METHODS["lg-fedavg"](), [mlp(0), headed_cnn(1), mlp(2)])
    people = list(federation.participants.values())
    heads = [list(model.modules())[-1] for model in models]
    assert all(torch.equal(head.weight, heads[0].weight) for head in heads)
    trained = [descended(m, data_of(p)) for m, p in zip(models, people, strict=True)]
    federation.run(1)
    n = [len(p.data) for p in people]
    for name in ("weight", "bias"):
        own = [list(model.modules())[-1].state_dict()[name] for model in trained]
        mean = sum(w * entry for w, entry in zip(n, own, strict=True)) / sum(n)
        for person, model in zip(people, trained, strict=True):
            *extractor, last_weight, last_bias = person.weights().values()
            torch.testing.assert_close(last_weight if name == "weight" else last_bias, mean)
            for entry, expected in zip(extractor, model.state_dict().values(), strict=False):
                torch.testing.assert_close(entry, expected)


def test_only_heads_travel():
    federation, _ = begun(LGFedAvg(), [mlp(0), headed_cnn(1)])
    federation.run(2)
    head = Payload({"weight": torch.zeros(3, 8, dtype=torch.float64), "bias": torch.zeros(3, dtype=torch.float64)}).size
    rows = [row for row in federation.history.rows() if row["round"] == 2]
    assert {(row["bytes_up"], row["bytes_down"]) for row in rows} == {(head, head)}
