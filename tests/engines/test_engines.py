"""Engines by name."""

from __future__ import annotations

import pytest
import torch

from potluck.core.errors import SettingsError
from potluck.engines import Auto, Autotune, Batched, DryRun, Ray, Serial, make_engine

KINDS = {"auto": Auto, "autotune": Autotune, "batched": Batched, "ray": Ray, "serial": Serial, "dry-run": DryRun}


@pytest.mark.parametrize("name", KINDS)
def test_an_engine_has_the_device_and_the_precision_that_were_named(name):
    engine = make_engine(name, "cpu", "float32")
    assert type(engine) is KINDS[name]
    assert (engine.device, engine.precision) == (torch.device("cpu"), "float32")


def test_a_wrong_name_is_answered_with_the_nearest_and_no_dry_run():
    with pytest.raises(SettingsError, match=r"There is no engine 'batch'.*batched"):
        make_engine("batch", "cpu")
    with pytest.raises(SettingsError) as raised:
        make_engine("fast", "cpu")
    assert "dry" not in str(raised.value)
