"""What is found when a site looks its own file over."""

from __future__ import annotations

import json

import pytest

from potluck.flower import site_check
from potluck.flower.config import read_participant
from potluck.flower.hello import DoorAnswer
from potluck.flower.key_folder import make_keys
from potluck.flower.protocol import PROTOCOL
from potluck.flower.reach import ReachedServer, ReachError
from potluck.flower.site_check import SiteCheck
from potluck.methods import CoFED, FedAvg
from tests.flower.fakes import PUBLIC, invitation

FILE = """
name = "ann"
model = {model}
data = {{ name = "tests.flower.things:data", seed = 0 }}
test = "tests.flower.things:test"
labels = [0, 1, 2]
device = "cpu"
"""


@pytest.fixture
def findings(tmp_path, monkeypatch):
    """What is found of a file, at a server that answers so."""

    def found(model='"tests.flower.things:cnn"', more="", text=FILE, server=None, answer=None):
        path = tmp_path / "ann.toml"
        path.write_text(text.format(model=model) + more)

        def reach(address, site):
            if isinstance(answer, ReachError):
                raise answer
            return ReachedServer(None, answer)

        monkeypatch.setattr(site_check, "reach", reach)
        return {each.what: each for each in SiteCheck(read_participant(path), server).findings()}

    return found


def standings(method, **more):
    asked = invitation(method, **more)
    told = json.loads(asked.model_dump_json())
    return DoorAnswer(protocol=PROTOCOL, potluck="0", standing="welcome", known_as="ann", invitation=told)


@pytest.mark.parametrize("model", ['"tests.flower.things:cnn"', '"sklearn.tree:DecisionTreeClassifier"'])
def test_all_that_is_here_is_looked_at(findings, model):
    found = findings(model)
    assert [each.fine for each in found.values()] == [True, True, True, None]
    assert found["data"].text.startswith("24 samples of shape (1, 6, 6)")
    assert "takes a step on" in found["model"].text
    assert "nothing is encrypted" in found["authority"].text


def test_a_model_that_does_not_fit_its_data_is_told(findings):
    found = findings('{ name = "sklearn.neighbors:KNeighborsClassifier", n_neighbors = 0 }')
    assert found["data"].fine
    assert found["model"].fine is False


def test_data_that_cannot_be_read_are_told_and_the_rest_is_looked_at(findings, tmp_path):
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    text = FILE.replace('{{ name = "tests.flower.things:data", seed = 0 }}', '{{ name = "bad.csv", target = "ill" }}')
    found = findings(text=text, server="x:1", answer=standings(FedAvg()))
    assert found["data"].fine is False
    assert "no column 'ill'" in found["data"].text
    assert "model" not in found
    assert found["policy"].fine


def test_terms_are_compared_with_the_policy_and_the_method_with_the_model(findings):
    found = findings(server="x:1", answer=standings(FedAvg(), rounds=20))
    assert found["policy"].text == "it allows what the server asks for: FedAvg, 20 rounds"
    assert found["method"].fine
    found = findings(more="policy = { max_rounds = 5 }", server="x:1", answer=standings(FedAvg(), rounds=20))
    assert found["terms"].fine is False
    assert "`max_rounds`" in found["terms"].text
    found = findings('"sklearn.tree:DecisionTreeClassifier"', server="x:1", answer=standings(FedAvg()))
    assert "no torch modules: ann" in found["terms"].text


def test_public_data_of_ones_own_are_compared(findings):
    own = 'public = { source = "tests.flower.things:public" }'
    found = findings(more=own, server="x:1", answer=standings(CoFED(), public=PUBLIC))
    assert "are not the server's" in found["terms"].text
    found = findings(server="x:1", answer=standings(CoFED(), public=PUBLIC))
    assert found["method"].fine


def test_what_the_server_does_not_say_is_no_mistake(findings):
    silent = DoorAnswer(protocol=PROTOCOL, potluck="0", standing="welcome")
    assert findings(server="x:1", answer=silent)["terms"].fine is None
    assert findings(server="x:1", answer=None)["name"].fine is None


def test_a_server_that_is_not_reached_is_told(findings):
    found = findings(server="x:1", answer=ReachError("Nobody listens."))
    assert (found["server"].fine, found["server"].text) == (False, "Nobody listens.")
    assert "terms" not in found


def test_keys_and_their_dates_are_told(findings, tmp_path):
    make_keys(tmp_path / "keys", ["ann"], ["localhost"], 9)
    found = findings(more='root_certificates = "keys/ca.crt"\nkey = "keys/ann"\n')
    assert found["key"].text.startswith("ann, SHA-256 ")
    assert found["authority"].fine is None
    assert "in 9 days" in found["authority"].text
    found = findings(more='root_certificates = "keys/ca.crt"\nkey = "keys/ann.pub"\n')
    assert found["key"].fine is False
