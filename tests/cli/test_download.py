"""``potluck download``: the list, the licence, what comes, and what is told where nothing comes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from potluck.data.sets.catalog import CATALOG, MNIST
from tests.cli.commands import potluck
from tests.data.sets.published_files import mnist_files, put
from tests.data.sets.server import serving


@pytest.fixture
def sets(tmp_path, monkeypatch):
    monkeypatch.setenv("POTLUCK_DATA", str(tmp_path / "sets"))
    monkeypatch.setattr("potluck.data.sets.download.PAUSE", 0.001)
    return tmp_path / "sets"


@pytest.fixture
def served(monkeypatch):
    """MNIST, tiny, from a server on this machine."""
    with serving(mnist_files()) as server:
        files = tuple(server.file(name) for name in server.files)
        monkeypatch.setitem(CATALOG, "mnist", replace(MNIST, files=files))
        yield server


def test_the_list_says_what_each_is_and_whether_it_is_here(sets):
    put(sets / "mnist", mnist_files())
    listed = potluck("download").stdout
    assert all(f"  {name} " in listed for name in CATALOG)
    assert "  mnist           yes " in listed
    assert "  svhn            no " in listed
    assert "CC BY-SA 3.0; 11.6 MB; original or hub" in listed
    assert f"Looked for in {sets}" in listed.replace("\n", "")


def test_what_is_asked_for_comes_with_its_licence_and_a_run_file_finds_it(served, sets, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = potluck("download", "MNIST").stdout
    assert "licence: CC BY-SA 3.0" in told
    assert "cite: LeCun" in told
    assert f"mnist is in {sets / 'mnist'}" in told
    run = 'rounds = 1\nmethod = "Local"\ndata.source = "mnist"\n[[participants]]\nname = "a"\nmodel = "mlp"\n'
    (tmp_path / "federation.toml").write_text(run)
    assert "accuracy" in potluck("run", "federation.toml").stdout
    assert len(served.asked) == 4


def test_a_run_file_does_not_download_unless_it_says_so(served, sets, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = 'rounds = 1\nmethod = "Local"\n[data.source]\nname = "mnist"\n[[participants]]\nname = "a"\nmodel = "mlp"\n'
    (tmp_path / "federation.toml").write_text(run)
    wrong = potluck("check", "federation.toml", fails=2).stderr.replace("\n", " ")
    assert "federation.toml, line 3, data.source: mnist is not here" in wrong
    assert "`potluck download mnist` gets it" in wrong
    assert served.asked == []


def test_it_goes_where_it_is_told(served, sets, tmp_path):
    potluck("download", "mnist", "--data-dir", tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere" / "mnist" / "train-images-idx3-ubyte.gz").is_file()
    assert not sets.exists()


def test_no_network_is_one_message_and_exit_code_2(served, sets):
    served.answers = [404] * 9
    wrong = potluck("download", "mnist", fails=2).stderr
    assert "mnist cannot be downloaded" in wrong
    assert "answers 404" in wrong
    assert "bring it here as" in wrong


def test_a_wrong_name_is_told(sets):
    assert "Did you mean 'cifar10'" in potluck("download", "cifar-1", fails=2).stderr
