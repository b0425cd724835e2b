"""Differences are paired over seeds; below three seeds nothing is told apart."""

import pytest

from evidence.differences import Difference, Pair, differences, paired, signed
from evidence.outcomes import Results
from tests.evidence.conftest import write_result as write


@pytest.fixture
def results(tmp_path):
    for seed, score in enumerate((0.50, 0.60, 0.70)):
        write(tmp_path, "base", seed, {1: 0.1, 2: score})
        write(tmp_path, "above", seed, {1: 0.1, 2: score + 0.01 * (seed + 1), 3: 0.9})
    write(tmp_path, "few", 0, {1: 0.2, 2: 0.4})
    write(tmp_path, "few", 2, {1: 0.2, 2: 0.8})
    return Results(tmp_path)


def test_the_last_round_that_both_measured_counts(results):
    found = paired(results, "toy.above", "toy.base")
    assert list(found.seeds.values()) == pytest.approx([1.0, 2.0, 3.0])
    assert found.mean == pytest.approx(2.0)


def test_the_interval_is_students(results):
    """Deviation 1 over three seeds: 4.303 / √3 = 2.484 either way."""
    found = paired(results, "toy.above", "toy.base")
    assert found.interval == pytest.approx((2 - 2.4841, 2 + 2.4841), abs=1e-4)
    assert found.sign == 0
    assert found.text() == "+2.0 (−0.5 … +4.5)"


@pytest.mark.parametrize(("values", "sign"), [((1.0, 1.1, 0.9), 1), ((-1.0, -1.1, -0.9), -1), ((1.0, -1.0, 0.5), 0)])
def test_the_sign_is_that_of_the_whole_interval(values, sign):
    assert Difference(dict(enumerate(values))).sign == sign


def test_two_seeds_tell_nothing_apart(results):
    found = paired(results, "toy.few", "toy.base")
    assert found.seeds == pytest.approx({0: -10.0, 2: 10.0})
    assert found.interval is None
    assert found.sign == 0
    assert found.text() == "−10.0, +10.0 (two runs)"


def test_a_stretch_needs_its_end(results):
    assert paired(results, "toy.above", "toy.base", (1, 2)).mean == pytest.approx(1.0)
    assert paired(results, "toy.above", "toy.base", (1, 3)).seeds == {}


def test_what_was_never_played_is_named(results):
    with pytest.raises(KeyError, match=r"toy\.nothing has no result"):
        paired(results, "toy.nothing", "toy.base")


def test_a_table_shows_no_mean_of_few(results):
    pairs = [Pair("above − base", "toy.above", "toy.base"), Pair("few − base", "toy.few", "toy.base", (1, 2))]
    assert differences(results, pairs).splitlines()[2:] == [
        "| above − base | the last | +2.0 (−0.5 … +4.5) | +1.0, +2.0, +3.0 | 3 |",
        "| few − base | 1 to 2 | – | 0.0, +10.0 | two runs |",
    ]


def test_no_sign_before_zero():
    assert [signed(value) for value in (0.04, -0.04, 1.0, -1.0)] == ["0.0", "0.0", "+1.0", "−1.0"]
