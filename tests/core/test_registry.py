from __future__ import annotations

import math
import sys
from importlib.metadata import EntryPoint

import pytest

from potluck import SettingsError
from potluck.core import registry
from potluck.core.registry import Registry, call, import_object, importing_only
from potluck.methods import METHODS, CoFED

THINGS = Registry("things", {"FedAvg": 1, "co-fed": 2})


@pytest.fixture
def announced(monkeypatch):
    """Other packages announce a thing, a method, and a thing of a name that is taken."""
    points = [
        EntryPoint("My-Thing", "math:pi", "potluck.things"),
        EntryPoint("Other", "math:sqrt", "potluck.methods"),
        EntryPoint("fedavg", "math:tau", "potluck.things"),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: [p for p in points if p.group == group])


@pytest.mark.parametrize("name", ["FedAvg", "fedavg", "FED-AVG", "fed_avg"])
def test_names_are_found_whatever_their_case_and_dashes(name):
    assert THINGS[name] == 1
    assert name in THINGS


@pytest.mark.parametrize("name", ["fedavgg", "FEDAVC"])
def test_an_unknown_name_suggests_the_nearest(name):
    with pytest.raises(SettingsError, match=rf"no thing '{name}'\. Did you mean 'FedAvg'\? Known: FedAvg, co-fed\."):
        THINGS[name]


def test_a_name_like_no_other_lists_what_there_is():
    assert "zzz" not in THINGS
    with pytest.raises(SettingsError, match=r"no thing 'zzz'\. Known: FedAvg, co-fed\."):
        THINGS["zzz"]


def test_names_are_listed_as_they_were_given():
    assert list(THINGS) == ["FedAvg", "co-fed"]
    assert len(THINGS) == 2


@pytest.mark.usefixtures("announced")
def test_what_other_packages_announce_is_found_in_its_own_group():
    assert THINGS["my_thing"] == math.pi
    assert "MYTHING" in THINGS
    assert "other" not in THINGS


@pytest.mark.usefixtures("announced")
def test_what_is_built_in_comes_first():
    assert THINGS["FedAvg"] == 1
    assert list(THINGS) == ["FedAvg", "co-fed", "My-Thing"]


@pytest.mark.usefixtures("announced")
def test_what_is_announced_is_suggested_too():
    with pytest.raises(SettingsError, match="Did you mean 'My-Thing'"):
        THINGS["my-thin"]


def test_anything_can_be_named_by_its_path():
    assert THINGS["math:pi"] == math.pi
    assert THINGS["importlib.metadata:EntryPoint"] is EntryPoint


def test_the_methods_are_there():
    assert METHODS["cofed"] is CoFED


def test_a_path_may_lead_into_an_object():
    assert import_object("importlib.metadata:EntryPoint.load") is EntryPoint.load


@pytest.mark.parametrize("path", ["math", "math:", ":pi", "", ":"])
def test_a_path_must_have_a_module_and_a_name(path):
    with pytest.raises(SettingsError, match=r"does not name an object; expected 'package\.module:name'"):
        import_object(path)


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("no_such_module:thing", "no module 'no_such_module'"),
        ("math.inner:thing", r"no module 'math\.inner'"),
        ("math:sqr", r"'math' has no 'sqr'\. Did you mean 'sqrt'\?"),
        ("math:pi.reel", r"has no 'reel'\. Did you mean 'real'\?"),
    ],
)
def test_a_path_that_leads_nowhere_says_where_it_ends(path, complaint):
    with pytest.raises(SettingsError, match=complaint):
        import_object(path)


def test_a_module_beside_the_user_is_found(tmp_path, monkeypatch):
    (tmp_path / "beside_the_user.py").write_text("dish = 'stew'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", ".")])
    assert import_object("beside_the_user:dish") == "stew"


def test_what_a_users_function_imports_later_is_found_in_its_folder(tmp_path, monkeypatch):
    (tmp_path / "calls_later.py").write_text("def dish():\n    import later_helper\n    return later_helper.dish\n")
    (tmp_path / "later_helper.py").write_text("dish = 'soup'\n")
    before, finder = list(sys.path), registry.UserModules()
    monkeypatch.setattr(registry, "USER_MODULES", finder)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    finder.look_in(tmp_path)
    assert import_object("calls_later:dish")() == "soup"
    assert sys.path == before


def test_a_folder_of_a_packages_name_hides_no_package(tmp_path, monkeypatch):
    (tmp_path / "numpy").mkdir()
    (tmp_path / "mine_alone").mkdir()
    finder = registry.UserModules()
    finder.folders = [str(tmp_path)]
    assert finder.find_spec("numpy", None) is None
    found = finder.find_spec("mine_alone", None)
    assert list(found.submodule_search_locations) == [str(tmp_path / "mine_alone")]
    assert finder.find_spec("numpy.linalg", ["somewhere"]) is None


def recipe(flour, water=2, salt=1):
    return flour, water, salt


def test_settings_and_what_is_given_go_in_together():
    assert call("bread", recipe, {"salt": 3}, flour=5) == (5, 2, 3)


def test_an_unknown_setting_is_answered_with_the_known_ones():
    with pytest.raises(
        SettingsError, match=r"'bread' has no setting 'watr'. Did you mean 'water'\? Known: salt, water."
    ):
        call("bread", recipe, {"watr": 3}, flour=5)


def test_what_is_given_already_is_no_setting():
    with pytest.raises(SettingsError, match="'bread' has no setting 'flour'"):
        call("bread", recipe, {"flour": 3}, flour=5)


def test_a_missing_setting_is_named():
    with pytest.raises(
        SettingsError, match=r"'bread': missing a required argument: 'flour'\. Settings: flour, water, salt"
    ):
        call("bread", recipe, {})


def test_a_function_open_to_anything_gets_anything():
    assert call("any", lambda **settings: settings, {"a": 1}, b=2) == {"a": 1, "b": 2}


def test_an_error_inside_the_function_is_its_own():
    def burn(heat):
        raise TypeError("too hot")

    with pytest.raises(TypeError, match="too hot"):
        call("bread", burn, {"heat": 9})


@pytest.mark.usefixtures("announced")
def test_where_others_choose_the_names_only_those_allowed_are_imported():
    with importing_only({"math:pi"}):
        assert import_object("math:pi") == math.pi
        assert THINGS["math:pi"] == math.pi
        assert THINGS["FedAvg"] == 1, "what is built in is not imported"
        for name in ("math:tau", "my_thing"):
            with pytest.raises(SettingsError, match=f"'{name}' is code that is not allowed to be imported here"):
                THINGS[name]
    with importing_only({"my_thing"}):
        assert THINGS["my_thing"] == math.pi
    assert import_object("math:tau") == math.tau, "elsewhere anything is"


@pytest.mark.usefixtures("announced")
def test_what_is_built_in_is_told_from_what_is_announced():
    assert THINGS.builtin("fedavg")
    assert THINGS.builtin("Co_Fed")
    assert not THINGS.builtin("my-thing")
    assert not THINGS.builtin("math:pi")


def test_a_folder_looked_in_again_comes_first_and_stands_once(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    finder = registry.UserModules()
    for name in ("one", "two", "one"):
        finder.look_in(tmp_path / name)
    assert finder.folders == [str(tmp_path / "one"), str(tmp_path / "two")]
