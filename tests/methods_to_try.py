"""Methods that ask for everything an engine can do, and data for them: what every engine must agree on.

Each method has a smaller test of the same kind in ``tests/integration/test_every_method.py``.
"""

from __future__ import annotations

from potluck.methods import FD, MHAT, CoFED, DraftFed, FedAvg, FedIN, Local, PerHeFed
from tests.tables import PLAN, made_data

PUBLIC = made_data(50, 90)
TEST = made_data(60, 91)


METHODS_TO_TRY = [
    Local(),
    FedAvg(),
    FedAvg(batchnorm="local", weighting="uniform"),
    FedAvg(aggregation="layerwise"),
    FD(),
    CoFED(update_batch_size=16),
    DraftFed(samples=40, draft_batch_size=16),
    DraftFed(lambda1=0, pad_norm="count", frozen_norms=False),
    MHAT(server_plan=PLAN),
    FedIN(pairs=6),
    FedIN(pairs=6, statistics="local"),
    FedIN(pairs=6, alleviation="exact", noise=0.8, aggregation="same-architecture"),
    PerHeFed(intra=0.5, offsets="random"),
]
