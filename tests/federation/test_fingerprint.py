"""A later process knows a federation again, and says what it cannot know again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from sklearn.svm import SVC

import potluck
from potluck.core.model_spec import ModelSpec
from potluck.federation.fingerprint import fingerprint, settings_as_run
from potluck.methods import MHAT, CoFED, Local
from potluck.models import build
from potluck.runs import CheckpointError
from tests.tables import PLAN, agree, made_data, mlp, participants

PUBLIC = made_data(30, 90)
TEST = made_data(30, 91)


def nesterov(parameters, lr):
    return torch.optim.SGD(parameters, lr, momentum=0.9, nesterov=True)


def made_inside():
    return lambda parameters, lr: nesterov(parameters, lr)


def server_model(input_shape, classes):
    return mlp(None, classes=classes)


def linear(x, y):
    return x @ y.T


def remembering(optimizer=nesterov, **settings):
    people = participants(
        [mlp(i) for i in range(2)], plan=PLAN.replace(optimizer=optimizer, lr=0.01).replace(momentum=0.0)
    )
    return potluck.Federation(people, Local(), test=TEST, seed=1, **{"keep_optimizer": True, **settings})


def taught(auxiliary=server_model):
    people = participants([mlp(i) for i in range(2)])
    return potluck.Federation(people, MHAT(auxiliary=auxiliary, epochs=1), public=PUBLIC, test=TEST, seed=1)


def voting():
    people = [
        *participants([mlp(0)]),
        potluck.Participant("svm", SVC(kernel=linear), made_data(20, 3), labels=range(3)),
    ]
    return potluck.Federation(people, CoFED(), public=PUBLIC[0], test=TEST, seed=1)


KINDS = {"optimizer": remembering, "method": taught, "estimator": voting}

CHILD = """
import sys
from tests.federation.test_fingerprint import KINDS
KINDS[sys.argv[1]]().run(int(sys.argv[3]), run_dir=sys.argv[2], resume=True)
"""


@pytest.mark.parametrize("kind", KINDS)
def test_functions_are_known_again_in_another_process(kind, tmp_path):
    """Of a function's text, which holds its address, nothing decides whether a run goes on, or what it remembers."""
    for rounds in (1, 3):
        command = [sys.executable, "-c", CHILD, kind, str(tmp_path), str(rounds)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run(command, env=environment, cwd=Path(__file__).parents[2], check=True)
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    agree(KINDS[kind]().run(3).rows(), lines, 1e-9)


@pytest.mark.parametrize("optimizer", [lambda parameters, lr: nesterov(parameters, lr), made_inside()])
def test_an_optimizer_that_remembers_and_has_no_name_is_not_resumed(optimizer, tmp_path):
    remembering(optimizer).run(1, run_dir=tmp_path)
    expected = r"cannot be resumed: p0 trains with tests\.federation.*:.*<lambda>; p1 .* at the top level"
    with pytest.raises(CheckpointError, match=expected):
        remembering(optimizer).run(2, run_dir=tmp_path, resume=True)


def test_an_optimizer_without_a_name_that_remembers_nothing_is_resumed(tmp_path):
    unbroken = remembering(made_inside(), keep_optimizer=False).run(2).rows()
    remembering(made_inside(), keep_optimizer=False).run(1, run_dir=tmp_path)
    resumed = remembering(made_inside(), keep_optimizer=False)
    agree(unbroken, resumed.run(2, run_dir=tmp_path, resume=True).rows(), 0)


def test_an_optimizer_without_a_name_remembers_while_the_run_lasts(tmp_path):
    named, nameless = (remembering(optimizer).run(3).rows() for optimizer in (nesterov, made_inside()))
    agree(named, nameless, 0)
    on_disk = remembering(made_inside(), storage="disk")
    on_disk.run(1, run_dir=tmp_path)
    agree(named, on_disk.run(2, run_dir=tmp_path).rows(), 0)


def test_a_method_set_with_what_has_no_name_is_not_resumed(tmp_path):
    taught(lambda input_shape, classes: server_model(input_shape, classes)).run(1, run_dir=tmp_path)
    with pytest.raises(
        CheckpointError, match=r"cannot be resumed: MHAT is set with tests\.federation\.test_fingerprint:.*<lambda>"
    ):
        taught(lambda input_shape, classes: server_model(input_shape, classes)).run(2, run_dir=tmp_path, resume=True)


def test_another_function_is_another_method(tmp_path):
    taught().run(1, run_dir=tmp_path)
    with pytest.raises(CheckpointError, match="belongs to another federation: method differ"):
        taught(mlp).run(2, run_dir=tmp_path, resume=True)


def decided(people=None, **settings):
    """A federation of which one thing or another is different."""
    people = participants([mlp(i) for i in range(2)]) if people is None else people
    usual = {"public": PUBLIC, "test": TEST, "seed": 1, "engine": "serial", "keep_optimizer": False}
    return potluck.Federation(people, CoFED(update_batch_size=16), **{**usual, **settings})


def one_changed(pair, row=0):
    """The same samples but for one label."""
    x, y = pair
    changed = y.copy()
    changed[row] = (changed[row] + 1) % 3
    return x, changed


def own_test():
    people = participants([mlp(i) for i in range(2)])
    people[1].held["brought test"] = people[1].data
    return people


OTHERS = {
    "test data": lambda: decided(test=one_changed(TEST)),
    "test data of its own": lambda: decided(own_test()),
    "no test data": lambda: decided(test=None),
    "public data": lambda: decided(public=one_changed(PUBLIC)),
    "public data without labels": lambda: decided(public=PUBLIC[0]),
    "more public data": lambda: decided(public=made_data(31, 90)),
    "precision": lambda: decided(precision="float32"),
    "keep_optimizer": lambda: decided(keep_optimizer=True),
    "participation": lambda: decided(participation=0.5),
    "seed": lambda: decided(seed=2),
    "method": lambda: potluck.Federation(
        participants([mlp(i) for i in range(2)]),
        CoFED(update_batch_size=17),
        public=PUBLIC,
        test=TEST,
        seed=1,
        keep_optimizer=False,
    ),
}
CALLED = {"test data of its own": "test data", "no test data": "test data"} | dict.fromkeys(
    ("public data without labels", "more public data"), "public data"
)


@pytest.mark.parametrize("what", OTHERS)
def test_what_decides_a_result_must_be_the_same_when_a_run_goes_on(what, tmp_path):
    """The error names what is different, and nothing else."""
    decided().run(1, run_dir=tmp_path)
    decided().run(2, run_dir=tmp_path, resume=True)
    with pytest.raises(CheckpointError, match=rf"belongs to another federation: {CALLED.get(what, what)} differ\."):
        OTHERS[what]().run(3, run_dir=tmp_path, resume=True)


def test_an_estimators_settings_decide_a_result(tmp_path):
    def federation(**settings):
        person = potluck.Participant("svm", SVC(**settings), made_data(20, 3), labels=range(3))
        return potluck.Federation([person, *participants([mlp(0)])], CoFED(), public=PUBLIC, test=TEST, seed=1)

    federation(C=2.0).run(1, run_dir=tmp_path)
    with pytest.raises(CheckpointError, match=r"belongs to another federation: participants differ\."):
        federation(C=3.0).run(2, run_dir=tmp_path, resume=True)
    federation(C=2.0).run(2, run_dir=tmp_path, resume=True)


def test_shapes_and_types_of_data_decide_too():
    """The same bytes may be other data."""

    def found(x):
        people = [potluck.Participant("svm", SVC(), (x, [0, 1] * (len(x) // 2)))]
        return fingerprint(potluck.Federation(people, Local()))["participants' data"]

    shapes = [(np.zeros((4, 2, 3))), np.zeros((4, 3, 2)), np.zeros((4, 12), dtype="float32")]
    assert len({x.nbytes for x in shapes[:2]} | {np.zeros((4, 12), dtype="float32").nbytes}) == 1
    assert len({found(x) for x in shapes}) == 3
    assert found(shapes[0]) == found(shapes[0].copy())


class Declaring(Local):
    """Declares a model whose plan is no setting of the method's."""

    rate: ClassVar[float] = 0.1
    widths: ClassVar[tuple[int, ...]] = (4,)

    def models(self, me):
        return {"common": ModelSpec(partial(build, "mlp", hidden=self.widths), plan=potluck.Plan(lr=self.rate))}


def test_what_a_method_declares_decides_too(monkeypatch):
    def found():
        people = participants([mlp(i) for i in range(2)])
        return fingerprint(potluck.Federation(people, Declaring(), engine="serial"))

    usual, plain = found(), fingerprint(potluck.Federation(participants([mlp(0)]), Local(), engine="serial"))
    assert found() == usual
    assert "models" not in str(settings_as_run(potluck.Federation(participants([mlp(0)]), Local()))["participants"])
    assert plain["participants"] != usual["participants"]
    for name, value in (("rate", 0.2), ("widths", (5,))):
        with monkeypatch.context() as patch:
            patch.setattr(Declaring, name, value)
            assert {key for key, text in found().items() if usual[key] != text} == {"participants"}
