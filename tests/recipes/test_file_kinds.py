"""Which kind of file one is: of a run, of a server, of a site."""

from __future__ import annotations

import tomllib

import pytest

from potluck.cli.site_files import server_text, site_text
from potluck.core.errors import SettingsError
from potluck.flower.config import read_federation, read_participant
from potluck.recipes import read
from potluck.recipes.file_kinds import kind_of, mixed_up

RUN = 'rounds = 1\nmethod = "Local"\n[[participants]]\nname = "a"\nmodel = "mlp"\n'
SERVER = server_text("FedAvg", ["a"], True, None, "y")
SITE = site_text("a", "mlp", None, None, "y", True)
READERS = {"run": read, "server": read_federation, "site": read_participant}


@pytest.mark.parametrize(("text", "kind"), [(RUN, "run"), (SERVER, "server"), (SITE, "site")])
def test_each_kind_is_known_and_read_by_its_own_commands_alone(text, kind, tmp_path):
    assert kind_of(tomllib.loads(text)) == kind
    path = tmp_path / "file.toml"
    path.write_text(text)
    for other, reader in READERS.items():
        if other != kind:
            with pytest.raises(SettingsError, match=r"it is for `potluck (run|serve|join) .*`\. Expected a") as raised:
                reader(path)
            assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [{}, {"rounds": 1}, {"participants": "a"}, {"participants": [{"name": "a"}]}])
def test_what_cannot_be_told_gets_its_usual_errors(content):
    assert mixed_up("x.toml", content, "run") is None


def test_a_mistake_in_a_file_of_the_right_kind_has_its_line(tmp_path):
    (tmp_path / "file.toml").write_text(RUN.replace("rounds", "rouns"))
    with pytest.raises(SettingsError, match="line 1, rouns"):
        read(tmp_path / "file.toml")
