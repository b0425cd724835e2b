from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.preprocessing import StandardScaler

from potluck import Classification, DataError, Samples, SettingsError
from potluck.core.samples import SharedData
from potluck.federation.model_inputs import ModelInputs, divided
from potluck.ingestion.user_data import read_inputs

FRAME = pd.DataFrame({"a": [0.0, 2.0, 4.0, 6.0]})
TASK = Classification(("no", "yes"))


def inputs(preprocess=None, network=True):
    found = ModelInputs("clinic", preprocess)
    found.begin(read_inputs(FRAME.iloc[:2], "clinic").with_targets(y=torch.tensor([0, 1])), TASK, 0)
    found.network = network
    return found


def test_a_network_reads_tensors_and_an_estimator_what_there_is():
    samples = read_inputs(FRAME, "clinic")
    assert inputs(network=False).read(samples) is samples
    assert inputs().read(samples).x.tolist() == [[0.0], [2.0], [4.0], [6.0]]
    assert inputs(StandardScaler()).read(samples).x.tolist() == [[-1.0], [1.0], [3.0], [5.0]]


def test_what_an_error_is_about_is_named():
    odd = read_inputs(pd.DataFrame({"a": ["x"]}), "clinic")
    with pytest.raises(DataError, match=r"^clinic \(test\): a torch module"):
        inputs().for_model(odd, "test")


def test_all_who_read_alike_share_one_copy_of_what_all_may_see():
    shared = SharedData(read_inputs(FRAME, "public data"), np.array(["no", "yes", "no", "maybe"]))
    one, other, tree = inputs(), inputs(), inputs(network=False)
    assert one.seen(shared, TASK) is other.seen(shared, TASK)
    assert tree.seen(shared, TASK) is shared.whole(TASK)
    assert len(one.seen(shared, TASK, known=True)) == 3
    assert one.seen(shared, Classification(("a", "b")), known=True) is None


def test_preprocessing_is_applied_to_what_all_may_see():
    shared = SharedData(read_inputs(FRAME, "public data"))
    assert inputs(StandardScaler()).seen(shared, TASK).x.flatten().tolist() == [-1.0, 1.0, 3.0, 5.0]


def test_who_is_held_back_depends_on_seed_and_owner():
    brought = Samples({"x": torch.arange(10.0)})
    training, held = divided(brought, 0.2, 3, "clinic")
    assert sorted([*training.x.tolist(), *held.x.tolist()]) == list(range(10))
    assert divided(brought, 0.2, 3, "clinic")[1].x.equal(held.x)
    assert divided(brought, 0.0, 3, "clinic") == (brought, None)
    for share in (-0.1, 1.0, 0.01, 0.99):
        with pytest.raises(SettingsError, match=rf"clinic: validation={share} of 10 samples"):
            divided(brought, share, 3, "clinic")
