"""Rounds of FedAvg on one of Potluck's engines."""

from __future__ import annotations

import time

import torch
from shared import Shared, arguments, write

import potluck
from potluck.engines import keep_freed_memory


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--engine", required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    shared = Shared.read(options.folder)
    settings = shared.settings
    plan = potluck.Plan(optimizer=settings["optimizer"], lr=settings["lr"], batch_size=settings["batch_size"])
    participants = [
        potluck.Participant(f"p{index:03d}", shared.model(), (x, y), plan=plan, labels=range(10))
        for index, (x, y) in enumerate(zip(shared.x, shared.y, strict=True))
    ]
    federation = potluck.Federation(participants, potluck.methods.FedAvg(), engine=options.engine, device="cpu")
    federation.run(0)
    seconds = []
    for _ in range(options.rounds):
        began = time.perf_counter()
        federation.run(1)
        seconds.append(time.perf_counter() - began)
    write(options.out, seconds, participants[0].weights())


if __name__ == "__main__":
    main()
