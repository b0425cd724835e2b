"""One weight at a server that steps towards means: for numbers worked out by hand."""

from __future__ import annotations

import torch

from potluck.federation.server import Server


def stepped(method, *means, x=0.0):
    """What x is after each round whose mean is given."""
    server = Server(seed=0, participant_weights={})
    server.state = {"global": {"x": torch.tensor([x], dtype=torch.float64)}, "parameters": ["x"]}
    found = []
    for server.round, mean in enumerate(means, start=1):
        method.step(server, {"x": torch.tensor([mean], dtype=torch.float64)})
        found.append(server.state["global"]["x"].item())
    return found, server.state["second"]["x"].item()


def after(method, *changes):
    """What x is after rounds with these changes, and v."""
    x, means = 0.0, []
    for change in changes:
        means.append(x + change)
        found, v = stepped(method, *means)
        x = found[-1]
    return found, v
