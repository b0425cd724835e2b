"""Rounds of FedAvg in pfl-research's simulation. Under ``torchrun`` each process is a worker with a share of the users.

Users' tensors are preloaded and their batches are cut once. pfl does not shuffle a user's samples between rounds.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.internal.ops import get_ops
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from shared import Shared, arguments, write
from torch import Tensor, nn


class Model(nn.Module):
    """The model with what pfl asks of it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        self.train()
        return F.cross_entropy(self.inner(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        self.eval()
        return {"loss": Weighted(F.cross_entropy(self.inner(x), y, reduction="sum").item(), len(y))}


class Clock(TrainingProcessCallback):
    """When each round ended."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_train_begin(self, *, model: PyTorchModel) -> Metrics:
        self.times.append(time.perf_counter())
        return Metrics()

    def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Metrics]:
        self.times.append(time.perf_counter())
        return False, Metrics()


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    shared = Shared.read(options.folder)
    settings, users = shared.settings, range(len(shared.x))
    data = {user: PyTorchTensorDataset((shared.x[user], shared.y[user]), user_id=str(user)) for user in users}
    dataset = FederatedDataset(data.__getitem__, get_user_sampler("minimize_reuse", list(users)))
    module = Model(shared.model())
    model = PyTorchModel(module, shared.optimizer(), torch.optim.SGD(module.parameters(), lr=1.0))
    clock = Clock()
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=options.rounds,
            evaluation_frequency=options.rounds,  # pfl always evaluates in the first round, which is apart anyway
            train_cohort_size=len(users),
            val_cohort_size=0,
        ),
        SimulatedBackend(dataset, dataset),
        model,
        NNTrainHyperParams(
            local_num_epochs=1, local_learning_rate=settings["lr"], local_batch_size=settings["batch_size"]
        ),
        NNEvalHyperParams(local_batch_size=None),
        [clock],
    )
    if get_ops().distributed.global_rank == 0:
        seconds = [end - begin for begin, end in pairwise(clock.times)]
        write(options.out, seconds, module.inner.state_dict())


if __name__ == "__main__":
    main()
