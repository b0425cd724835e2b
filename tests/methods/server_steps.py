"""Servers that step towards means: of one weight, for numbers worked out by hand, and of whole networks."""

from __future__ import annotations

import torch

from potluck.federation.server import Server
from tests.methods.plain import begun, data_of, descended, mean, same
from tests.tables import mlp


def stepped(method, *means, x=0.0):
    """What x is after each round whose mean is given."""
    server = Server(seed=0, participant_weights={})
    server.state = {"global": {"x": torch.tensor([x], dtype=torch.float64)}, "parameters": ["x"]}
    found = []
    for server.round, value in enumerate(means, start=1):
        method.step(server, {"x": torch.tensor([value], dtype=torch.float64)})
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


def is_played_in_plain_pytorch(method, next_v, beta1=0.9):
    """Two rounds of a method with a rate of 0.02 are those of algorithm 2, whose step from v to the next v is given."""
    federation, models = begun(method, [mlp(i) for i in range(3)])
    people = list(federation.participants.values())
    x = {name: entry.clone() for name, entry in models[0].state_dict().items()}
    m = {name: torch.zeros_like(entry) for name, entry in x.items()}
    v = {name: torch.full_like(entry, 1e-6) for name, entry in x.items()}
    for _ in range(2):
        models[0].load_state_dict(x)
        trained = [descended(models[0], data_of(p)).state_dict() for p in people]
        average = mean(trained, [len(p.data) for p in people])
        for name in x:
            delta = average[name] - x[name]
            m[name] = beta1 * m[name] + (1 - beta1) * delta
            v[name] = next_v(v[name], delta)
            x[name] = x[name] + 0.02 * m[name] / (v[name].sqrt() + 1e-3)
    federation.run(2)
    same(people[2].weights(), x)
