"""The files that people write: what the documentation shows can be read, and errors name the line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from potluck.core.errors import SettingsError
from potluck.flower.certificates import public_pem
from potluck.flower.config import read_federation, read_participant
from potluck.flower.key_folder import make_keys
from potluck.recipes import read as read_recipe

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    make_keys(tmp_path / "keys", ["hospital", "bank", "laboratory", "insurer"], ["localhost", "127.0.0.1"], 1)
    (tmp_path / "ca.crt").write_bytes((tmp_path / "keys" / "ca.crt").read_bytes())
    (tmp_path / "hospital_key").write_bytes((tmp_path / "keys" / "hospital").read_bytes())
    x, y = np.zeros((4, 2), dtype="float32"), np.array([0, 1, 0, 1])
    np.savez(tmp_path / "public.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    return tmp_path


def test_the_files_in_the_guide_can_be_read(folder):
    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "federation.md").read_text(), re.DOTALL)
    assert len(blocks) == 2
    (folder / "server.toml").write_text(blocks[0])
    file = read_federation(folder / "server.toml")
    assert file.names == ["hospital", "bank"]
    assert [entry.weight for entry in file.participants] == [1.0, 2.0]
    assert file.public.load(0).x.shape == (4, 2)
    things = "tests.flower.things"
    own = blocks[1].replace("my_models:build", f"{things}:mlp").replace("my_data:load_test", f"{things}:test")
    (folder / "hospital.toml").write_text(own.replace('"my_data:load"', f'{{ name = "{things}:data", seed = 0 }}'))
    assert read_participant(folder / "hospital.toml").labels == ["benign", "malignant"]


def test_the_examples_files_can_be_read(folder):
    for path in (ROOT / "examples" / "three_organisations").iterdir():
        if path.is_file():
            (folder / path.name).write_text(path.read_text())
    file = read_federation(folder / "server.toml")
    assert file.names == ["hospital", "laboratory", "insurer"]
    assert file.required_participants == 2
    for name in file.names:
        own = read_participant(folder / f"{name}.toml")
        assert own.public is not None
        assert own.name == name


ENTRIES = '[[participants]]\nname = "a"\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('method = "Local"\n' + ENTRIES, "lacks 'rounds'"),
        ('rounds = 1\nmethod = "Lokal"\n' + ENTRIES, "line 2, method"),
        (
            'rounds = 1\nmethod = "Local"\nmin_participants = 2\n' + ENTRIES,
            "min_participants = 2, but only 1 may take part",
        ),
        ('rounds = 1\nmethod = "Local"\nhost = "0.0.0.0"\n' + ENTRIES, "would let anyone listen in"),
        ('rounds = 1\nmethod = "Local"\n' + ENTRIES + 'key = "nowhere.pub"', "there is no file"),
        ('rounds = 1\nmethod = "Local"\n' + ENTRIES + 'key = "keys/bank.pub"', "keys need TLS"),
        ('rounds = 1\nmethod = "Local"\n' + ENTRIES + ENTRIES, "two participants have the name 'a'"),
        ('rounds = 1\nmethod = "Local"\nanswer_timeot = 3\n' + ENTRIES, "Did you mean 'answer_timeout'?"),
    ],
)
def test_mistakes_in_a_federation_file_are_errors(text, why, folder):
    (folder / "server.toml").write_text(text)
    with pytest.raises(SettingsError, match=re.escape(why)):
        read_federation(folder / "server.toml")


OWN = 'name = "a"\nmodel = "mlp"\ndata = { name = "tests.flower.things:data", seed = 0 }\n'
RUN = 'rounds = 1\nmethod = "Local"\n[[participants]]\nname = "a"\nmodel = "mlp"\n'


@pytest.mark.parametrize(
    ("reader", "text", "line", "old", "new"),
    [
        *(
            (read_federation, f'rounds = 1\nmethod = "Local"\n{old} = 2\n{ENTRIES}', 3, old, new)
            for old, new in {
                "minimum": "min_participants",
                "below_minimum": "on_too_few",
                "deadline": "answer_timeout",
                "wait": "join_timeout",
                "limit": "max_payload_bytes",
                "messages": "max_messages",
            }.items()
        ),
        *(
            (read_participant, f"{OWN}{old} = 2\n", 4, old, new)
            for old, new in {"allow": "allow_imports", "state": "state_dir", "limit": "max_payload_bytes"}.items()
        ),
        (read_recipe, f"wave = 2\n{RUN}", 1, "wave", "max_concurrent"),
        (read_recipe, f'at_rest = "disk"\n{RUN}', 1, "at_rest", "storage"),
        (read_recipe, f"{RUN}plan = {{ clip = 1.0 }}\n", 6, "clip", "max_grad_norm"),
    ],
)
def test_a_key_of_before_gets_an_error_that_names_the_new_one(reader, text, line, old, new, folder):
    (folder / "file.toml").write_text(text)
    with pytest.raises(SettingsError) as error:
        reader(folder / "file.toml")
    assert f"file.toml, line {line}, " in str(error.value)
    assert f"has no setting {old!r} any more; it is called {new!r} now." in str(error.value)


def test_with_tls_everyone_needs_a_key(folder):
    tls = '[tls]\ncertificate = "keys/server.pem"\nkey = "keys/server.key"\nauthority = "keys/ca.crt"\n'
    (folder / "server.toml").write_text('rounds = 1\nmethod = "Local"\n' + tls + ENTRIES)
    with pytest.raises(SettingsError, match="a has no key"):
        read_federation(folder / "server.toml")


def test_a_key_needs_tls(folder):
    things = "tests.flower.things"
    text = f'name = "a"\nmodel = "mlp"\ndata = {{ name = "{things}:data", seed = 0 }}\nkey = "keys/bank"\n'
    (folder / "a.toml").write_text(text)
    with pytest.raises(SettingsError, match="a key needs TLS"):
        read_participant(folder / "a.toml")


def test_public_keys_are_read_as_flower_gives_them(folder):
    assert public_pem(str(folder / "keys" / "bank.pub")).startswith(b"-----BEGIN PUBLIC KEY-----")
    with pytest.raises(SettingsError, match="is no public key"):
        public_pem(str(folder / "public.npz"))


def test_every_setting_is_in_the_guide():
    from potluck.flower.config import FederationFile, ParticipantFile

    guide = (ROOT / "docs" / "federation.md").read_text()
    for kind in (FederationFile, ParticipantFile):
        assert [name for name in kind.model_fields if f"`{name}`" not in guide] == []


def test_the_flower_app_names_what_is_there():
    app = ROOT / "potluck" / "flower" / "app"
    settings = tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
    for component in settings["components"].values():
        module, _, name = component.partition(":")
        assert f"{name} = " in (app / (module.replace(".", "/") + ".py")).read_text()


def test_a_participant_names_its_networks_head(folder):
    things = "tests.flower.things"
    text = f'name = "a"\nmodel = "mlp"\ndata = {{ name = "{things}:data", seed = 0 }}\nhead = ["3", "5"]\n'
    (folder / "a.toml").write_text(text)
    person = read_participant(folder / "a.toml").build()
    person.join(0, None)
    assert (person.head, person.body) == (("3", "5"), ("1",))


def test_a_participants_data_may_be_files(folder):
    (folder / "clinic.csv").write_text("age,town,ill\n30,east,no\n50,west,yes\n")
    data = '{ name = "clinic.csv", target = "ill", drop = ["town"] }'
    text = f'name = "a"\nmodel = "mlp"\ndata = {data}\ntest = {data}\n'
    text += 'preprocess = "sklearn.preprocessing:StandardScaler"\n'
    (folder / "a.toml").write_text(text)
    person = read_participant(folder / "a.toml").build()
    person.join(0, None)
    assert person.data.x.tolist() == person.test.x.tolist() == [[-1.0], [1.0]]
    assert person.labels == ("no", "yes")
