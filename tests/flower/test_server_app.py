"""What runs in Flower's ServerApp, on a grid without processes: it begins, reports, ends, and says how."""

from __future__ import annotations

import json

import numpy as np
import pandas
import pytest
import torch

import potluck
from potluck.core.errors import PotluckError, SettingsError
from potluck.core.payload import Payload
from potluck.flower.app.potluck_app.records import from_records
from potluck.flower.certificates import fingerprint
from potluck.flower.control import CONTROL_FILE, Control
from potluck.flower.key_folder import make_keys
from potluck.flower.progress import ProgressLog
from potluck.flower.protocol import Finished, Message
from potluck.flower.server_app import STOP_WISHED, serve
from potluck.flower.status import STATUS_FILE, read_status
from potluck.methods import FedAvg
from tests import tables
from tests.flower.fakes import FakeGrid, client_of, on_serial, people
from tests.flower.lines import timeless
from tests.flower.things import cnn
from tests.tables import PLAN, agree

FILE = """
rounds = 2
seed = 3
device = "cpu"
join_timeout = {join_timeout}
answer_timeout = 5
{more}
method = "{method}"
{people}
"""
PEOPLE = "".join(f'\n[[participants]]\nname = "p{i}"' for i in range(3))


@pytest.fixture
def site(tmp_path):
    """Serves a file to those in a grid; returns what was said of it."""

    def served(grid=None, method="FedAvg", more="", join_timeout=5, entries=PEOPLE, **config):
        text = FILE.format(method=method, more=more, join_timeout=join_timeout, people=entries)
        (tmp_path / "server.toml").write_text(text)
        if grid is None:
            grid = FakeGrid([client_of(person, tmp_path / "states") for person in people(FedAvg())])
        places = {"federation": tmp_path / "server.toml", "out": tmp_path / "run", "progress": tmp_path / "p.log"}
        ProgressLog(tmp_path / "p.log").clear()
        serve(grid, {**{name: str(place) for name, place in places.items()}, **config})
        return timeless(ProgressLog(tmp_path / "p.log").new_lines())

    return served


def outcome(tmp_path):
    return ProgressLog(tmp_path / "p.log").outcome()


def test_a_federation_is_served_from_its_file_to_its_end(site, tmp_path):
    lines = site()
    rows = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    agree(rows, on_serial(FedAvg()).rows(), 1e-12)
    assert outcome(tmp_path) == ""
    assert lines[0] == "waiting for p0, p1, p2"
    assert [line.partition(" is here")[0] for line in lines[1:4]] == ["p0", "p1", "p2"]
    assert lines[4] == f"playing 2 rounds of FedAvg; kept in {tmp_path / 'run'}"
    rounds = [line for line in lines if line.startswith("round ")]
    assert [line.partition(":")[0] for line in rounds] == ["round 1 of 2", "round 2 of 2"]
    assert all("mean accuracy" in line for line in rounds)
    assert "after round 2" in (tmp_path / "run" / "table.txt").read_text()


def test_trackers_record_it_at_the_server(site, tmp_path):
    site(more="track = { csv = true, jsonl = { participants = true } }")
    assert outcome(tmp_path) == ""
    header, *lines = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    assert header.startswith("round,accuracy,")
    assert [line.split(",")[0] for line in lines] == ["1", "2"]
    last = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    rows = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert last["accuracy/p0"] == next(row["accuracy"] for row in rows if row["round"] == 2)
    with pytest.raises(SettingsError, match=r"track\.tensorbord: .*Did you mean 'tensorboard'"):
        site(more="track = { tensorbord = true }")


def test_the_fingerprints_of_keys_are_in_the_audit_log(site, tmp_path):
    """Nobody comes here, since nodes of this grid have no keys."""
    keys = tmp_path / "keys"
    make_keys(keys, ["p0", "p1", "p2"], ["localhost"], 1)
    entries = "".join(f'\n[[participants]]\nname = "p{i}"\nkey = "{keys}/p{i}.pub"' for i in range(3))
    tls = f'[tls]\ncertificate = "{keys}/server.pem"\nkey = "{keys}/server.key"\nauthority = "{keys}/ca.crt"'
    with pytest.raises(PotluckError, match="0 participants are here"):
        site(join_timeout=0.1, more='on_too_few = "fail"', entries=f"{entries}\n{tls}")
    opened = json.loads((tmp_path / "run" / "audit.jsonl").read_text().splitlines()[0])
    assert opened["keys"] == {name: fingerprint(str(keys / name)) for name in ("p0", "p1", "p2")}


def test_tables_with_columns_of_their_own_are_described(site, tmp_path):
    """Nobody is refused for inputs that differ from the others', since nothing is averaged."""
    random = np.random.default_rng(0)

    def study():
        for i, more in enumerate(
            ({}, {"chol": random.normal(220, 30, 20)}, {"sex": ["f", "m"] * 10, "ca": [0, 1] * 10})
        ):
            frame = pandas.DataFrame({"age": np.linspace(30, 70 + i, 20), **more})
            yield potluck.Participant(f"p{i}", "mlp", (frame, [0, 1] * 10))

    people = list(study())
    site(FakeGrid([client_of(person, tmp_path / "states") for person in people]), "Describe")
    assert outcome(tmp_path) == ""
    found = potluck.Description.load(tmp_path / "run")
    assert found == potluck.describe(people)
    assert {name: about["held_by"] for name, about in found.columns.items()} == {"age": 3, "ca": 1, "chol": 1, "sex": 1}


def test_a_run_is_not_written_over_and_goes_on_where_it_is_asked_to(site, tmp_path):
    site()
    identity = (tmp_path / "run" / "federation.json").read_text()
    with pytest.raises(SettingsError, match=r"already holds a run\. Go on with --resume"):
        site()
    assert "already holds a run" in outcome(tmp_path)
    site(resume=True)
    assert outcome(tmp_path) == ""
    assert (tmp_path / "run" / "federation.json").read_text() == identity, "participants know it by that"


def test_who_does_not_come_is_waited_for_and_then_named(site, tmp_path):
    grid = FakeGrid([client_of(person, tmp_path / "states") for person in people(FedAvg())])
    del grid.since[102]
    with pytest.raises(PotluckError, match=r"After 0\.1 s 2 participants are here \(p0, p1\); a round needs 3"):
        site(grid, join_timeout=0.1, more='min_participants = 3\non_too_few = "fail"')
    assert "a round needs 3" in outcome(tmp_path)


def test_where_nobody_can_tell_who_is_odd_all_are_told_that_it_is_over(site, tmp_path):
    own = [potluck.Participant(f"p{i}", cnn, tables.made_data(20, i), plan=PLAN, labels=range(3 + i)) for i in range(2)]
    clients = [client_of(person, tmp_path / "states") for person in own]
    entries = "".join(f'\n[[participants]]\nname = "p{i}"' for i in range(2))
    with pytest.raises(PotluckError, match="As many say the one as the other"):
        site(FakeGrid(clients), entries=entries)
    assert "As many say the one as the other" in outcome(tmp_path)
    farewells = [client.farewell for client in clients]
    assert [(told.outcome, told.reason) for told in farewells] == [("failed", "RequirementsError at the server")] * 2


def test_by_default_most_are_enough(site, tmp_path):
    """One who does not come, declines, or is odd does not end the run of the others."""
    grid = FakeGrid([client_of(person, tmp_path / "states") for person in people(FedAvg())])
    del grid.since[102]
    site(grid, join_timeout=0.1)
    rows = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert [row["participant"] for row in rows if row["took_part"]] == ["p0", "p1"] * 2


@pytest.mark.parametrize("odd", [0, 2])
def test_the_odd_one_is_declined_whoever_comes_first(odd, site, tmp_path):
    own = people(FedAvg())
    own[odd] = potluck.Participant(f"p{odd}", cnn, tables.made_data(20, 5), plan=PLAN, labels=range(4))
    lines = site(FakeGrid([client_of(person, tmp_path / "states") for person in own]), join_timeout=60)
    assert f"p{odd} was refused: its labels are [0, 1, 2, 3]; expected [0, 1, 2]" in lines
    rows = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert {row["participant"] for row in rows if row["took_part"]} == {"p0", "p1", "p2"} - {f"p{odd}"}


def test_with_too_few_the_run_waits_and_then_stops_in_order_and_goes_on(site, tmp_path):
    """Two of three send what is not finite in round 2, as often as it is played."""
    clients = [client_of(person, tmp_path / "states") for person in people(FedAvg())]
    heads = []

    class Spoiled:
        def __init__(self, client):
            self.client, self.spoils = client, True

        def answer(self, message):
            heads.append(message.head)
            answer = self.client.answer(message)
            if self.spoils and answer.head.get("exchange") == "weights" and answer.head["round"] == 2:
                return Message(answer.head, Payload({"x": torch.zeros(1)}).to_bytes())
            return answer

    spoiled = [Spoiled(clients[0]), Spoiled(clients[1])]
    with pytest.raises(PotluckError, match=r"1 of 3 participants are left, and 2 are needed .* go on with --resume"):
        site(FakeGrid([*spoiled, clients[2]]))
    lines = ProgressLog(tmp_path / "p.log").new_lines()
    assert sum("Waiting for them, and then going on" in line for line in lines) == 3
    assert [head["reason"] for head in heads if head["kind"] == "paused"] == [outcome(tmp_path)] * 2
    for each in spoiled:
        each.spoils = False
    site(FakeGrid([*spoiled, clients[2]]), resume=True)
    rows = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    agree(rows, on_serial(FedAvg()).rows(), 1e-12)


def test_who_declines_is_not_waited_for(site, tmp_path):
    own = people(FedAvg())
    clients = [client_of(person, tmp_path / "states") for person in own[:2]]
    clients.append(client_of(own[2], tmp_path / "states", consent=lambda *terms: "I would rather not"))
    with pytest.raises(PotluckError, match=r"Too few take part: a round needs 3\. p2: I would rather not"):
        site(FakeGrid(clients), join_timeout=60, more='min_participants = 3\non_too_few = "fail"')


def test_who_declined_may_come_back_while_the_run_waits(site, tmp_path):
    """Nobody was there to be asked at first; then the owner starts again, and agrees."""
    own = people(FedAvg())
    answers = iter(["nobody is there to be asked", None])
    clients = [client_of(person, tmp_path / "states") for person in own[:2]]
    clients.append(client_of(own[2], tmp_path / "states", consent=lambda *terms: next(answers)))

    class Returning(FakeGrid):
        def get_nodes(self):
            if clients[2].declined:
                self.since[102] = "again"
            return super().get_nodes()

    lines = site(Returning(clients), join_timeout=60, more="min_participants = 3")
    assert [line for line in lines if line.startswith("p2")][:2] == [
        "p2 declined: nobody is there to be asked",
        "p2 is here",
    ]
    assert outcome(tmp_path) == ""


def test_a_run_that_is_asked_to_stop_says_that_it_stopped(site, tmp_path):
    class Stopping(FakeGrid):
        def get_nodes(self):
            ProgressLog(tmp_path / "p.log").ask_to_stop()
            return super().get_nodes()

    site(Stopping([client_of(person, tmp_path / "states") for person in people(FedAvg())]))
    assert outcome(tmp_path) == "stopped"


def test_without_a_file_it_says_how_to_name_one(tmp_path):
    with pytest.raises(SettingsError, match="No server's file: `flwr run"):
        serve(FakeGrid([]), {"progress": str(tmp_path / "p.log")})
    assert "No server's file" in outcome(tmp_path)


def test_a_bug_is_called_one(site, tmp_path, monkeypatch):
    monkeypatch.setattr("potluck.flower.server_app.ServerRun.run", lambda self, resume: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        site()
    assert outcome(tmp_path).startswith("a bug, or a broken installation: ZeroDivisionError: division by zero.")


def test_public_data_that_are_not_those_of_the_file_are_an_error(site, tmp_path):
    public = f'public = {{ source = "tests.flower.things:public", sha256 = "{"0" * 64}" }}'
    with pytest.raises(SettingsError, match=r"The public data have the SHA-256 [0-9a-f]{64}; the file says 0{64}\."):
        site(method="CoFED", more=public)


def wishing(folder, tmp_path, **wishes):
    """Participants in a grid; a wish is uttered when p0 has been asked for a round."""

    class Wishing:
        def __init__(self, client):
            self.client, self.heard = client, []

        def answer(self, message):
            self.heard.append(message.head)
            if message.head["kind"] == "advance" and (wish := wishes.pop(f"round_{message.head['round']}", None)):
                Control(tmp_path / "run" / "flower" / CONTROL_FILE).ask(wish)
            return self.client.answer(message)

    clients = [client_of(person, folder) for person in people(FedAvg())]
    return Wishing(clients[0]), *clients[1:]


def status(tmp_path):
    return read_status(tmp_path / "run" / "flower" / STATUS_FILE)


def test_its_status_is_kept_to_the_end(site, tmp_path):
    site()
    found = status(tmp_path)
    assert (found.state, found.round, found.rounds, found.method) == ("finished", 2, 2, "FedAvg")
    rows = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    last = [row["accuracy"] for row in rows if row["round"] == 2]
    assert (found.metric, found.score_of) == ("accuracy", 3)
    assert found.score == pytest.approx(sum(last) / 3)
    assert found.bytes_up == sum(row["bytes_up"] for row in rows) == sum(each.bytes_up for each in found.participants)
    assert [(each.name, each.state, each.round) for each in found.participants] == [
        (name, "here", 2) for name in ("p0", "p1", "p2")
    ]


def test_a_run_that_is_to_stop_plays_its_round_to_the_end_and_tells_everybody(site, tmp_path):
    own = wishing(tmp_path / "states", tmp_path, round_1="stop")
    lines = site(FakeGrid(own))
    assert outcome(tmp_path) == ""
    assert "the run is stopped: those who run it stopped it" in lines
    assert (status(tmp_path).state, status(tmp_path).round) == ("stopped", 1)
    assert own[0].heard[-1] == {"kind": "finished", "rounds": 1, "outcome": "stopped", "reason": STOP_WISHED}
    assert [client.farewell.outcome for client in own[1:]] == ["stopped"] * 2
    site(FakeGrid([client_of(person, tmp_path / "states") for person in people(FedAvg())]), resume=True)
    rows = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    agree(rows, on_serial(FedAvg()).rows(), 1e-12)


def test_a_run_that_is_paused_goes_on_when_that_is_wished(site, tmp_path):
    own = wishing(tmp_path / "states", tmp_path, round_1="pause")

    class Patient(FakeGrid):
        looks = 0

        def get_nodes(self):
            if (tmp_path / "run" / "flower" / STATUS_FILE).exists() and status(tmp_path).state == "paused":
                self.looks += 1
                if self.looks == 3:
                    Control(tmp_path / "run" / "flower" / CONTROL_FILE).ask("go")
            return super().get_nodes()

    grid = Patient(own)
    lines = site(grid)
    assert grid.looks >= 3
    pause = lines.index("pausing; `potluck control RUN go` goes on")
    assert lines[pause - 1].startswith("round 1 of 2")
    assert lines[pause + 1] == "the pause is over"
    assert {"kind": "paused", "reason": "those who run it pause it"} in own[0].heard
    rows = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    agree(rows, on_serial(FedAvg()).rows(), 1e-12)


def test_a_run_that_waits_for_participants_can_be_stopped(site, tmp_path):
    class Stopping(FakeGrid):
        def get_nodes(self):
            if (tmp_path / "run" / "flower" / STATUS_FILE).exists():
                Control(tmp_path / "run" / "flower" / CONTROL_FILE).ask("stop")
            return []

    site(Stopping([]), join_timeout=60)
    assert (status(tmp_path).state, outcome(tmp_path)) == ("stopped", "")


def test_a_run_that_fails_tells_everybody_the_kind_of_error_alone(site, tmp_path, monkeypatch):
    clients = [client_of(person, tmp_path / "states") for person in people(FedAvg())]

    def fails(self, resume):
        raise ValueError("a secret of the server's")

    monkeypatch.setattr("potluck.flower.server_app.ServerRun._play", fails)
    with pytest.raises(ValueError, match="secret"):
        site(FakeGrid(clients))
    assert [client.farewell for client in clients] == [
        Finished(rounds=0, outcome="failed", reason="ValueError at the server")
    ] * 3
    assert (status(tmp_path).state, status(tmp_path).why) == ("failed", "ValueError at the server")


def test_who_is_away_at_the_end_hears_of_it_when_it_comes_back_in_time(site, tmp_path):
    clients = [client_of(person, tmp_path / "states") for person in people(FedAvg())]

    class Leaving(FakeGrid):
        def push_messages(self, messages):
            messages = list(messages)
            if from_records(messages[0].content)[0].startswith('{"kind":"finished"') and clients[2].played_all:
                self.since[102] = "again"
            return super().push_messages(messages)

        def get_nodes(self):
            if clients[2].played_all and self.since.get(102) == "first":
                del self.since[102]
            return super().get_nodes()

    site(Leaving(clients))
    assert all(client.farewell == Finished(rounds=2) for client in clients)
