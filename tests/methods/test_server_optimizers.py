from __future__ import annotations

import torch

from potluck.federation.server import Server
from potluck.methods import FedAdagrad, FedAdam, FedAvg, FedYogi
from tests.methods.plain import begun
from tests.tables import cnn, weights_agree


def test_running_statistics_take_the_mean():
    ours, _ = begun(FedAdam(), [cnn(0), cnn(1)])
    theirs, _ = begun(FedAvg(), [cnn(0), cnn(1)])
    ours.run(1)
    theirs.run(1)
    mine, other = (f.participants["p0"].weights() for f in (ours, theirs))
    for name in ("1.running_mean", "1.running_var", "1.num_batches_tracked"):
        torch.testing.assert_close(mine[name], other[name], rtol=0, atol=0)
    assert not torch.allclose(mine["1.weight"], other["1.weight"])


def test_entries_that_nobody_sent_stay():
    server = Server(seed=0, participant_weights={})
    old = {"x": torch.ones(1), "y": torch.ones(1)}
    server.state = {"global": old, "parameters": ["x", "y"]}
    FedYogi().step(server, {"x": torch.zeros(1)})
    assert server.state["global"]["y"].item() == 1
    assert server.state["second"].keys() == {"x"}
    assert old["x"].item() == 1, "what was there is replaced, not written into"


def test_the_moments_last_and_participants_meet_again():
    for method in (FedAdagrad(server_lr=0.01), FedYogi(server_lr=0.01, aggregation="layerwise")):
        federation, _ = begun(method, [cnn(i) for i in range(3)])
        federation.run(2)
        people = list(federation.participants.values())
        weights_agree(people[:1], people[1:2], 0)
        assert federation.server.state["first"].keys() == federation.server.state["second"].keys()
        assert len(federation.server.state["first"]) == 5
