"""Event files, read back as TensorBoard reads them."""

from __future__ import annotations

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import potluck
from potluck.runs.trackers import TensorBoard
from tests.runs.trackers.runs import break_off, play


def scalars(folder, name):
    read = EventAccumulator(str(folder)).Reload()
    assert name in read.Tags()["scalars"]
    return [(event.step, pytest.approx(event.value, abs=1e-6)) for event in read.Scalars(name)]


def test_every_round_is_there_with_the_settings(tmp_path):
    history = play(tmp_path, TensorBoard(participants=True))
    assert [(n, history.at(n).score) for n in (1, 2)] == scalars(tmp_path / "tensorboard", "accuracy")
    last = {row["participant"]: row["accuracy"] for row in history.at(2).rows}
    assert scalars(tmp_path / "tensorboard", "accuracy/p1")[-1] == (2, last["p1"])
    read = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    text = read.Tensors("settings/text_summary")[0].tensor_proto.string_val[0].decode()
    assert '"method.name": "FedAvg"' in text


def test_a_round_that_is_played_again_is_shown_once(tmp_path):
    break_off(tmp_path, TensorBoard(), after=3)
    history = play(tmp_path, TensorBoard(), rounds=4, resume=True)
    found = scalars(tmp_path / "tensorboard", "bytes_up")
    assert [step for step, _ in found] == [1, 2, 3, 4]
    assert found[-1] == (4, history.bytes()[0])


def test_a_folder_for_several_runs(tmp_path):
    play(None, TensorBoard(str(tmp_path), name="one"), rounds=1)
    assert scalars(tmp_path / "one", "took_part") == [(1, 3)]
    with pytest.raises(potluck.SettingsError, match="give it a `folder`"):
        play(None, TensorBoard())
