"""Rounds of FedAvg in Flower's simulation, on Ray with one CPU for each client. No evaluation.

Ray's workers must find this folder: it is to be on PYTHONPATH.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from flower_client import app as client_app
from flwr.app import ArrayRecord, ConfigRecord, Context, Message
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from shared import Shared, arguments, write


class TimedFedAvg(FedAvg):
    """FedAvg that notes when each round begins, and fails if a client does."""

    def __init__(self, clients: int) -> None:
        super().__init__(fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients)
        self.clients = clients
        self.times: list[float] = []

    def configure_train(self, *args: Any, **kwargs: Any) -> Iterable[Message]:
        self.times.append(time.perf_counter())
        return super().configure_train(*args, **kwargs)

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        answers = list(replies)
        failed = [reply.error.reason for reply in answers if reply.has_error()]
        if failed or len(answers) != self.clients:
            raise RuntimeError(f"{len(answers)} of {self.clients} clients answered, {len(failed)} failed: {failed[:1]}")
        return super().aggregate_train(server_round, answers)


def server_app(options: Namespace, clients: int) -> ServerApp:
    """A server that runs the rounds, and writes when they began and ended."""
    app = ServerApp()

    @app.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy = TimedFedAvg(clients)
        found = strategy.start(
            grid,
            ArrayRecord(Shared.read(options.folder).start),
            num_rounds=options.rounds,
            train_config=ConfigRecord({"folder": str(options.folder), "loader": options.loader}),
        )
        times = [*strategy.times, time.perf_counter()]
        seconds = [end - begin for begin, end in pairwise(times)]
        write(options.out, seconds, found.arrays.to_torch_state_dict())

    return app


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--cores", type=int, required=True)
    parser.add_argument("--loader", action="store_true")
    options = parser.parse_args()
    clients = len(np.load(options.folder / "y.npy"))
    run_simulation(
        server_app(options, clients),
        client_app,
        num_supernodes=clients,
        backend_config={
            "init_args": {"num_cpus": options.cores, "include_dashboard": False},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )


if __name__ == "__main__":
    main()
