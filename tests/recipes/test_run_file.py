"""Reading a run file: every mistake is told with its line, what was expected, and the nearest name."""

from __future__ import annotations

import pytest

from potluck.core.errors import SettingsError
from potluck.recipes import read
from potluck.recipes.run_file import line_numbers
from tests.recipes.files import SMALL, write


def wrong(folder, text, *changes, **settings):
    """What is said about a run file that cannot be used."""
    with pytest.raises(SettingsError) as caught:
        read(write(folder, text), changes, settings)
    return str(caught.value).replace(f"{folder}/", "")


def test_what_stands_in_the_file(here):
    recipe = read(write(here))
    assert (recipe.rounds, recipe.seed, recipe.engine, recipe.participation) == (2, 3, "auto", 1.0)
    assert (recipe.method.name, recipe.method.settings) == ("CoFED", {"alpha": 0.4})
    assert (recipe.data.partition.name, recipe.data.partition.settings) == ("dirichlet", {"alpha": 5.0, "minimum": 5})
    assert [party.names() for party in recipe.participants] == [["net1", "net2"], ["tree"]]
    assert recipe.build_plan(recipe.participants[1]).lr == 0.01
    assert recipe == read(here / "small.toml")


# Old text, new text, what is said.
MISTAKES = {
    "unknown key": ("seed = 3", "seeed = 3", r"line 2, seeed: a run file has no setting 'seeed'. Did you mean 'seed'?"),
    "a key's old name": (
        "seed = 3",
        "seed = 3\nwave = 2",
        "line 3, wave: a run file has no setting 'wave' any more; it is called 'max_concurrent' now",
    ),
    "missing key": ("rounds = 2", "", "rounds: a run file lacks 'rounds' (how many in all)."),
    "no participants": (
        SMALL[SMALL.index("[[") :],
        "",
        "participants: a run file lacks 'participants' (who takes part",
    ),
    "wrong type": ("rounds = 2", 'rounds = "two"', "line 1, rounds: rounds = 'two'. Input should be a valid integer"),
    "no whole number": (
        "rounds = 2",
        "rounds = true",
        "line 1, rounds: rounds = True. Input should be a valid integer",
    ),
    "out of range": ("rounds = 2", "rounds = -1", "line 1, rounds: rounds = -1. Input should be greater than or equal"),
    "not a number": ("weight = 2.0", "weight = nan", "weight = nan. Input should be a finite number"),
    "engine": ("seed = 3", 'engine = "serail"', "line 2, engine: There is no engine 'serail'. Did you mean 'serial'?"),
    "dry-run": ("seed = 3", 'engine = "dry-run"', "line 2, engine: the engine 'dry-run' trains nothing"),
    "device": ("seed = 3", 'device = "gpu"', "line 2, device: Device 'gpu' cannot be used here"),
    "method": ('"CoFED"', '"CoFDE"', "line 5, method.name: There is no method 'CoFDE'. Did you mean 'CoFED'?"),
    "method, short": (
        '[method]\nname = "CoFED"\nalpha = 0.4',
        'method = "CoFDE"',
        "line 4, method: There is no method 'CoFDE'.",
    ),
    "method without a name": ('name = "CoFED"', "", "method.name: a table of settings lacks 'name'"),
    "method of a wrong kind": (
        '[method]\nname = "CoFED"\nalpha = 0.4',
        "method = 3",
        "line 4, method: 3 names nothing; expected a name, or a table",
    ),
    "not a method": ('"CoFED"', '"math:pi"', "line 5, method.name: 'math:pi' is a float; expected a subclass of"),
    "another class": ('"CoFED"', '"decimal:Decimal"', "method.name: 'decimal:Decimal' is Decimal; expected a subclass"),
    "method's setting": ("alpha = 0.4", "alhpa = 0.4", "line 6, method.alhpa: CoFED has no setting 'alhpa'. Did you"),
    "method's value": ("alpha = 0.4", "alpha = 4", "line 6, method.alpha: alpha = 4. Input should be less than or equ"),
    "source": ('"generated"', '"generatd"', "line 9, data.source.name: There is no data 'generatd'. Did you mean"),
    "source's setting": ("features", "featurs", "line 9, data.source.featurs: 'generated' has no setting 'featurs'."),
    "source's type": (
        "features = 6",
        'features = "x"',
        "line 9, data.source.features: features = 'x'. Input should be",
    ),
    "no module": ('"generated"', '"nowhere:load"', "data.source.name: 'nowhere:load': there is no module 'nowhere'"),
    "not in the module": ('"generated"', '"math:pie"', "'math:pie': 'math' has no 'pie'. Did you mean 'pi'?"),
    "not a function": ('"generated"', '"math:pi"', "data.source.name: 'math:pi' is a float; expected a function"),
    "no signature": ('"mlp", hidden = [8]', '"builtins:dict"', "'builtins:dict' does not tell which settings it takes"),
    "partition": ('"dirichlet"', '"dirichlt"', "line 10, data.partition.name: There is no partition 'dirichlt'. Did"),
    "partition's setting": ("alpha = 5.0", "alhpa = 5.0", "line 10, data.partition.alhpa: 'dirichlet' has no setting"),
    "partition's need": ("alpha = 5.0, ", "", "line 10, data.partition: 'dirichlet': missing a required argument: 'al"),
    "supplied": ("alpha = 5.0", "seed = 5", "data.partition.seed: 'dirichlet' has no setting 'seed'. Known: alpha, mi"),
    "two ways": ("take = 40", "take = 40\ngenerate = 3", "line 12, data.public: expected one of take, source and gene"),
    "no way": ("take = 40", "labelled = true", "line 12, data.public: expected one of take, source and generate; got"),
    "take": (
        "take = 40",
        'take = "all"',
        "line 13, data.public.take: take = 'all'. Input should be a valid integer, or",
    ),
    "count": ("take = 40", "take = 40\ncount = 3", "line 14, data.public.count: count goes with source"),
    "labelled": (
        "take = 40",
        "generate = 40\nlabelled = true",
        "line 14, data.public.labelled: generated rows have no",
    ),
    "plan's setting": (
        "batch_size",
        "batchsize",
        "line 17, plan.batchsize: a plan has no setting 'batchsize'. Did you",
    ),
    "plan's value": ("lr = 0.01", "lr = 0", "line 16, plan.lr: lr = 0. Input should be greater than 0."),
    "plan's name": (
        "lr = 0.01",
        'schedule = "cosin"',
        "plan.schedule: schedule = 'cosin'. Did you mean 'cosine'? Know",
    ),
    "plan's path": ("lr = 0.01", 'optimizer = "no:x"', "plan.optimizer: optimizer = 'no:x'. Input should be 'sgd'"),
    "own plan": ("epochs = 1", "epoch = 1", "line 30, participants.1.plan.epoch: a plan has no setting 'epoch'. Did"),
    "plans together": ("epochs = 1", "momentum = 0.9", "line 29, participants.1.plan: momentum = 0.9 with 'adam'"),
    "plan of all": ("lr = 0.01", "momentum = 0.9", "line 15, plan: momentum = 0.9 with 'adam', which has its own"),
    "participant's key": ("weight", "wieght", "line 27, participants.1.wieght: a participant has no setting 'wieght'."),
    "participant's need": ('name = "tree"\n', "", "line 24, participants.1.name: a participant lacks 'name' (what"),
    "participant's labels": ("weight = 2.0", "labels = []", "line 27, participants.1.labels: labels = []. List should"),
    "one label": (
        "weight = 2.0",
        "labels = [1.5]",
        "line 27, participants.1.labels.0: labels.0 = 1.5. Input should be",
    ),
    "two of a name": (
        '"tree"',
        '"net2"',
        "line 25, participants.1.name: two participants are named 'net2'; names must",
    ),
    "model": ('"mlp"', '"mpl"', "line 21, participants.0.model.name: There is no model 'mpl'. Did you mean 'mlp'?"),
    "model's setting": (
        "hidden",
        "hiden",
        "line 21, participants.0.model.hiden: 'mlp' has no setting 'hiden'. Did you",
    ),
    "model's type": ("[8]", '["x"]', "line 21, participants.0.model.hidden.0: hidden.0 = 'x'. Input should be a valid"),
    "estimator's setting": (
        "max_depth",
        "max_dept",
        "line 26, participants.1.model.max_dept: 'sklearn.tree:DecisionTr",
    ),
    "no data": ("[data]", "[date]", "date: a run file has no setting 'date'. Did you mean 'data'?"),
    "own data": ("weight = 2.0", 'data = "nowhere:load"', "line 27, participants.1.data: 'nowhere:load': there is no"),
    "own test": ("weight = 2.0", 'test = "math:pi"', "line 27, participants.1.test: 'math:pi' is a float; expected a"),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_is_told_with_its_place(here, kind):
    old, new, said = MISTAKES[kind]
    assert old in SMALL
    assert said in wrong(here, SMALL.replace(old, new, 1)), wrong(here, SMALL.replace(old, new, 1))


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(here):
    text = SMALL.replace("alpha = 0.4", "alhpa = 0.4").replace("weight", "wieght").replace("hidden", "hiden")
    said = wrong(here, text.replace("lr = 0.01", "lr = -1")).splitlines()
    assert [line.split(":")[0] for line in said] == [
        "small.toml, line 6, method.alhpa",
        "small.toml, line 16, plan.lr",
        "small.toml, line 21, participants.0.model.hiden",
        "small.toml, line 27, participants.1.wieght",
    ]


def test_what_is_no_run_file(here):
    with pytest.raises(SettingsError, match=r"There is no file missing.toml; `potluck new` writes one"):
        read("missing.toml")
    with pytest.raises(SettingsError, match="cannot be read"):
        read(here)
    assert "small.toml is not valid TOML: " in wrong(here, "rounds = \n")
    assert "at line 1" in wrong(here, "rounds = \n")
    (here / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match=r"bytes.toml cannot be read: 'utf-8' codec"):
        read(here / "bytes.toml")


def test_where_things_stand():
    lines = line_numbers(SMALL + '\n[[participants]]\nname = "late"\nplan.lr = 3\n"odd key" = 1\n')
    assert lines[("method", "alpha")] == 6
    assert lines[("data", "public")] == 12
    assert lines[("participants", 0)] == 19
    assert lines[("participants", 1, "plan", "epochs")] == 30
    assert lines[("participants", 2, "plan", "lr")] == 34


@pytest.mark.parametrize(
    ("change", "look", "value"),
    [
        ("rounds=7", lambda recipe: recipe.rounds, 7),
        ("participation=0.5", lambda recipe: recipe.participation, 0.5),
        ("engine=serial", lambda recipe: recipe.engine, "serial"),
        ('engine="serial"', lambda recipe: recipe.engine, "serial"),
        ("keep_optimizer=true", lambda recipe: recipe.keep_optimizer, True),
        ("method.alpha=0.9", lambda recipe: recipe.method.settings, {"alpha": 0.9}),
        ("method.margin = 0.1", lambda recipe: recipe.method.settings, {"alpha": 0.4, "margin": 0.1}),
        ("method=Local", lambda recipe: (recipe.method.name, recipe.method.settings), ("Local", {})),
        ("data.partition.alpha=1", lambda recipe: recipe.data.partition.settings["alpha"], 1),
        ('data.partition={name="iid"}', lambda recipe: recipe.data.partition.name, "iid"),
        ("data.public.take=0.25", lambda recipe: recipe.data.public.take, 0.25),
        ("plan.epochs=3", lambda recipe: recipe.plan["epochs"], 3),
        ("participants.0.plan.lr=0.1", lambda recipe: recipe.participants[0].plan, {"lr": 0.1}),
        ("participants.tree.plan.lr=0.1", lambda recipe: recipe.participants[1].plan, {"epochs": 1, "lr": 0.1}),
        ("participants.0.model.hidden=[3, 4]", lambda recipe: recipe.participants[0].model.settings["hidden"], [3, 4]),
        ("participants.0.model.hidden.0=5", lambda recipe: recipe.participants[0].model.settings["hidden"], [5]),
        ("participants.1.labels=[0,1,2]", lambda recipe: recipe.participants[1].labels, [0, 1, 2]),
    ],
)
def test_a_change_is_as_if_it_stood_in_the_file(here, change, look, value):
    assert look(read(write(here), [change])) == value


def test_a_name_by_itself_takes_settings_too(here):
    text = SMALL.replace('{ name = "mlp", hidden = [8] }', '"mlp"')
    recipe = read(write(here, text), ["participants.0.model.hidden=[5]"])
    assert (recipe.participants[0].model.name, recipe.participants[0].model.settings) == ("mlp", {"hidden": [5]})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("rounds", "'rounds' sets nothing; expected key=value, such as method.alpha=0.5."),
        ("=3", "'=3' sets nothing"),
        ("rounds.x=3", "'rounds.x=3': 'rounds' is 2, which has no keys to set."),
        ("participants.9.count=3", "'9' is none of the 2 in the list; expected a position from 0 to 1, or a name."),
        ("participants.tre.count=3", "Did you mean 'tree'? Known: net, tree."),
        ("participants.0.model.hidden.3=3", "'3' is none of the 1 in the list; expected a position from 0 to 0."),
        ("rounds=many", "command line, rounds: rounds = 'many'. Input should be a valid integer"),
        ("roundz=3", "command line, roundz: a run file has no setting 'roundz'. Did you mean 'rounds'?"),
        ("method.alhpa=3", "command line, method.alhpa: CoFED has no setting 'alhpa'. Did you mean 'alpha'?"),
        ("participants.0.plan.lr=fast", "command line, participants.0.plan.lr: lr = 'fast'. Input should be a valid"),
        ("data.partition.alpha=0,5", "command line, data.partition.alpha: alpha = '0,5'. Input should be a valid num"),
    ],
)
def test_a_wrong_change_is_told_as_such(here, change, said):
    assert said in wrong(here, SMALL, change)


def test_settings_left_over_from_another_method(here):
    said = wrong(here, SMALL, "method.name=Local")
    assert said.startswith("small.toml, line 6, method.alpha: Local has no setting 'alpha'.")
    assert said.endswith("To leave out the settings in the file: --set method=Local")


def test_settings_replace_what_the_file_says(here):
    recipe = read(write(here), ["rounds=5"], {"rounds": 9, "seed": 1})
    assert (recipe.rounds, recipe.seed) == (9, 1)
    assert "command line, engine: There is no engine 'no'." in wrong(here, SMALL, engine="no")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rounds = 1" + "0" * 5000, r"line 1: 10000000000000000000… has 5001 characters; expected at most 1000"),
        ("\nrounds = " + "[" * 3000 + "]" * 3000, "line 2: brackets within brackets, 51 deep"),
        ("x = " + "{a=" * 900 + "1" + "}" * 900, "line 1: brackets within brackets, 51 deep"),
        ("a." * 3000 + "b = 1", "line 1: a.a.* characters"),
        ("a . " * 60 + "b = 1", "line 1: a key of more than 50 names"),
        ('method = "' + "x" * 5000 + '.npz"', "line 1: .* characters; expected at most 1000"),
        ('method = "..x:b"', "'..x:b' does not name an object"),
    ],
    ids=["digits", "brackets", "tables", "dots", "spaced dots", "path", "relative"],
)
def test_what_nobody_writes_is_told_with_its_line(text, why, here):
    (here / "run.toml").write_text(text)
    with pytest.raises(SettingsError, match=why):
        read(here / "run.toml")
    with pytest.raises(SettingsError, match="cannot be read"):
        read(here / ("x" * 5000))


def test_of_many_mistakes_the_first_are_told(here):
    found = wrong(here, SMALL + "".join(f"k{number} = 1\n" for number in range(500))).splitlines()
    assert len(found) == 51
    assert found[-1].startswith("… and ")
