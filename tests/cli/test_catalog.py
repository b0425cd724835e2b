"""``potluck methods``, ``models``, ``data`` and ``codecs``: tables for people, JSON for programs."""

from __future__ import annotations

import json
from functools import cache

import pytest

from potluck.channel.codecs import CODECS
from potluck.data import PARTITIONS, SHIFTS, SOURCES
from potluck.methods import METHODS
from potluck.methods.guide import ADVICE, costs
from potluck.models import MODELS
from tests.cli.commands import potluck
from tests.recipes.files import write

ALL = {"methods": METHODS, "models": MODELS, "data": [*SOURCES, *PARTITIONS, *SHIFTS], "codecs": CODECS}


@cache
def entries(command):
    found = json.loads(potluck(command, "--json").stdout)
    return {entry["name"]: entry for entry in found}


@pytest.mark.parametrize("command", ALL)
def test_json_holds_everything_by_name(command):
    found = entries(command)
    assert list(found) == list(ALL[command])
    for entry in found.values():
        assert entry["about"]
        assert isinstance(entry["settings"], dict)
        assert isinstance(entry["required"], list)


@pytest.mark.parametrize("command", ALL)
def test_a_table_names_everything(command):
    result = potluck(command)
    assert all(f"  {name} " in result.stdout for name in ALL[command])
    assert max(len(line) for line in result.stdout.splitlines()) <= 80
    assert result.stderr == ""


def test_methods_tell_needs_and_settings():
    found = entries("methods")
    cofed = found["CoFED"]
    assert cofed["needs"] == {
        "public": "inputs",
        "shared_labels": True,
        "tasks": ["classification", "regression"],
        "own_targets": False,
    }
    assert cofed["needs in words"] == ["labels in common", "public data", "classification or regression"]
    assert cofed["settings"]["alpha"] == 0.3
    assert list(cofed["sends"]) == ["labels", "votes"]
    assert cofed["leaves"] == ["statistics", "predictions"]
    assert found["Local"]["needs"] == found["Local"]["settings"] == found["Local"]["sends"] == {}


def test_what_a_method_has_fixed_is_no_setting():
    assert "aggregation" in entries("methods")["FedAvg"]["settings"]
    assert "aggregation" not in entries("methods")["HeteroFL"]["settings"]


def test_those_that_fit_a_file(here):
    found = json.loads(potluck("methods", "--json", "--fits", write(here)).stdout)
    names = [entry["name"] for entry in found]
    assert {"CoFED", "FedDistill", "Local"} <= set(names)
    assert "FedAvg" not in names, "a tree takes part"
    assert names == sorted(names, key=str.lower)


def test_a_method_is_made_by_the_settings_it_tells():
    for name, entry in entries("methods").items():
        METHODS[name](**entry["settings"])


def test_codecs_tell_their_place_and_settings():
    found = entries("codecs")
    assert {name: entry["place"] for name, entry in found.items() if entry["place"] != "any"} == {
        "Compress": "last",
        "Difference": "first",
    }
    assert found["TopK"]["required"] == ["share"]
    assert found["TopK"]["settings"] == {"min_size": 64, "error_feedback": True}


def test_models_tell_parameters_and_settings():
    found = entries("models")
    assert found["resnet18"]["parameters"] == 11181642
    assert found["resnet18"]["settings"] == {"stem": "standard", "width": 64, "rate": 1.0, "scale": False}
    assert found["mlp"]["settings"] == {"hidden": [256, 64], "activation": "tanh", "rate": 1.0}


def test_data_tells_what_can_be_set_and_what_must_be():
    found = entries("data")
    assert found["digits"] | {"about": ""} == {
        "name": "digits",
        "kind": "source",
        "about": "",
        "settings": {"test_share": 0.25, "seed": 0},
        "required": [],
    }
    assert (found["npz"]["settings"], found["npz"]["required"]) == ({"values": False}, ["path"])
    assert (found["dirichlet"]["settings"], found["dirichlet"]["required"]) == ({"minimum": 1}, ["alpha"])
    assert (found["by-group"]["settings"], found["by-group"]["required"]) == ({"names": None}, [])
    assert "alpha (required), minimum = 1" in potluck("data").stdout


def test_methods_tell_when_to_choose_them_and_what_they_cost():
    found = entries("methods")
    assert found["FedProto"]["choose"] == ADVICE["FedProto"].choose
    assert found["FedProto"]["server learns"] == ADVICE["FedProto"].learns
    assert found["FedProto"]["cost"]["up"] == costs()["FedProto"].up
    assert "choose" not in found["Describe"], "a study"
    said = " ".join(potluck("methods").stdout.split())
    assert "Choose it in every comparison" in said
    assert "It costs 0 B up and 0 B down in a round" in said
