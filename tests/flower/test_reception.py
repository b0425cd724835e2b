"""How sites stand with a server, and whose requests are turned away."""

from __future__ import annotations

import base64
import json
import time

import pytest

from potluck.flower import reception as reception_module
from potluck.flower.certificates import public_pem, sealing
from potluck.flower.hello import Hello
from potluck.flower.key_folder import make_keys, revoke
from potluck.flower.reception import KEY_HEADER, DoorList, KnownSite, Reception, known_site


@pytest.fixture
def keys(tmp_path):
    make_keys(tmp_path / "keys", ["ann", "bob", "stranger"], ["localhost"], 1)
    return tmp_path / "keys"


def reception(tmp_path, sites):
    DoorList(7, "1.2", tuple(sites), str(tmp_path / "invitation.json")).write(tmp_path / "door.json")
    said = []
    return Reception(tmp_path / "door.json", said.append), said


def keyed(tmp_path, keys):
    return reception(tmp_path, [known_site(name, str(keys / f"{name}.pub")) for name in ("ann", "bob")])


def question(name, keys=None, key=None, when=None):
    asked = Hello(name=name, time=when or time.time())
    if keys is not None:
        asked = asked.model_copy(update={"key": public_pem(str(keys / f"{key or name}.pub")).decode()})
        asked = asked.model_copy(update={"seal": sealing(str(keys / (key or name)))(asked.signed_text())})
    return asked.model_dump_json().encode()


def standing(found, body):
    return json.loads(found.answer(body, "10.0.0.1"))


def test_who_is_known_is_told_what_the_server_will_ask_once_it_knows(tmp_path, keys):
    found, said = keyed(tmp_path, keys)
    told = standing(found, question("ann", keys))
    assert told == {"protocol": 7, "potluck": "1.2", "standing": "welcome", "known_as": "ann", "invitation": None}
    (tmp_path / "invitation.json").write_text('{"rounds": 3}')
    assert standing(found, question("ann", keys))["invitation"] == {"rounds": 3}
    assert said == []


@pytest.mark.parametrize(
    ("name", "key", "expected", "line"),
    [
        ("ann", "stranger", "unknown key", "no participant in the file has its key, SHA-256 "),
        ("bob", "ann", "other name", "its key is ann's"),
        ("carl", None, "no key", "it has no key"),
    ],
)
def test_others_are_told_why_not_and_the_server_has_a_line(name, key, expected, line, tmp_path, keys):
    found, said = keyed(tmp_path, keys)
    (tmp_path / "invitation.json").write_text("{}")
    body = question(name, keys, key) if key else question(name)
    told = standing(found, body)
    assert told["standing"] == expected
    assert told["invitation"] is None
    assert len(said) == 1
    assert said[0].startswith(f"10.0.0.1, which calls itself '{name}', is not let in: {line}")
    standing(found, body)
    assert len(said) == 1, "the same is not said again at once"


def test_a_question_that_somebody_else_signed_or_heard_before_tells_nothing(tmp_path, keys):
    found, _ = keyed(tmp_path, keys)
    asked = json.loads(question("ann", keys))
    forged = json.loads(question("ann", keys, "stranger")) | {"key": asked["key"]}
    assert standing(found, json.dumps(forged).encode())["standing"] == "unsigned"
    old = standing(found, question("ann", keys, when=time.time() - 4000))
    assert old["standing"] == "other clock"
    assert old["known_as"] is None


def test_a_revoked_key_is_told_and_its_requests_are_turned_away(tmp_path, keys):
    found, said = keyed(tmp_path, keys)
    header = [(KEY_HEADER.title(), base64.b64encode(public_pem(str(keys / "ann.pub"))))]
    assert not found.turns_away(header, "10.0.0.1")
    revoke(keys, "ann")
    assert standing(found, question("ann", keys))["standing"] == "revoked"
    assert found.turns_away(header, "10.0.0.1")
    assert said[-1] == "ann is turned away: its key was revoked"
    for other in (
        [],
        [(KEY_HEADER, b"nonsense")],
        [(KEY_HEADER, b"\xff")],
        [(KEY_HEADER, base64.b64encode(b"no key"))],
    ):
        assert not found.turns_away(other, "10.0.0.1")


def test_without_keys_names_alone_count(tmp_path):
    found, said = reception(tmp_path, [KnownSite("ann")])
    assert standing(found, question("ann"))["standing"] == "welcome"
    assert standing(found, question("anne"))["standing"] == "unknown name"
    assert "no participant in the file has that name" in said[0]


def test_what_is_no_question_is_no_answers_worth(tmp_path):
    found, _ = reception(tmp_path, [KnownSite("ann")])
    for body in (b"", b"{}", b"\xff", b'{"name": "a", "time": "now"}'):
        with pytest.raises(ValueError, match=r"validation error"):
            found.answer(body, "10.0.0.1")


def test_many_addresses_do_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(reception_module, "MOST", 3)
    found, said = reception(tmp_path, [KnownSite("ann")])
    for number in range(10):
        found.say(f"10.0.0.{number}", "knocks")
    assert len(said) == 3
