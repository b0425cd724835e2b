"""Tests and intervals, against numbers from tables and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from potluck.report.significance import (
    Ranking,
    bootstrap,
    compare_scores,
    critical_difference,
    differences,
    holm,
    seeds_needed,
    wilcoxon,
)


def scores(**by_entry):
    """Entry → one value for each seed, of a single participant."""
    return {name: {seed: {"a": value} for seed, value in enumerate(values)} for name, values in by_entry.items()}


def test_six_seeds_that_agree_are_the_fewest_for_one_pair():
    assert wilcoxon([1, 2, 3, 4, 5]) == 2 / 2**5
    assert wilcoxon([1, 2, 3, 4, 5, 6]) == 2 / 2**6
    assert seeds_needed(1) == 6
    assert [seeds_needed(pairs) for pairs in (3, 6, 10)] == [7, 8, 9]


def test_tied_differences_are_counted_sign_by_sign():
    assert wilcoxon([0.1] * 6) == pytest.approx(2 / 2**6)
    assert wilcoxon([0.1 + 1e-16, 0.1, 0.1, 0.1, 0.1, 0.1]) == pytest.approx(2 / 2**6)


def test_nothing_differs_from_itself():
    assert wilcoxon([0.0, 0.0, 0.0]) == 1.0
    assert wilcoxon([0.3]) is None


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, None]) == pytest.approx([0.03, 0.06, 0.06, None])
    assert holm([0.6, 0.9]) == [1.0, 1.0]


@pytest.mark.parametrize(("entries", "q"), [(2, 1.960), (4, 2.569), (10, 3.164)])
def test_the_critical_difference_is_that_of_demsars_table(entries, q):
    assert critical_difference(entries, 14) == pytest.approx(q * np.sqrt(entries * (entries + 1) / (6 * 14)), rel=1e-3)


def test_groups_that_do_not_differ():
    ranking = Ranking({"a": 1.0, "b": 2.0, "c": 3.5, "d": 3.6}, p=0.01, critical=1.5, seeds=9)
    assert ranking.alike == [("a", "b"), ("b", "c"), ("c", "d")]
    assert Ranking({"a": 1.0, "b": 4.0}, 0.01, 1.5, 9).alike == []


def test_an_interval_of_seeds_that_agree_is_a_point_and_one_seed_gives_none():
    low, high = bootstrap([np.array([0.2, 0.2]), np.array([0.2])])
    assert (low, high) == pytest.approx((0.2, 0.2))
    assert bootstrap([np.array([0.2, 0.4])]) is None


def test_an_interval_widens_with_seeds_and_with_participants_that_differ():
    def width(*parts):
        low, high = bootstrap([np.array(part) for part in parts])
        return high - low

    steady = width([0.2, 0.2], [0.2, 0.2], [0.2, 0.2])
    people = width([0.1, 0.3], [0.1, 0.3], [0.1, 0.3])
    both = width([0.0, 0.2], [0.1, 0.3], [0.2, 0.4])
    assert steady < 1e-12
    assert 0.1 < people < both


def test_the_interval_of_a_normal_sample_has_about_the_width_of_theory():
    draws = np.random.default_rng(0).normal(size=(30, 1))
    low, high = bootstrap(list(draws))
    assert high - low == pytest.approx(2 * 1.96 * draws.std() / np.sqrt(30), rel=0.1)


def test_differences_are_paired_over_seeds_and_participants():
    one = {0: {"a": 0.5, "b": 0.7}, 1: {"a": 0.6}}
    other = {0: {"a": 0.4, "c": 0.1}, 2: {"a": 0.3}}
    assert {seed: part.tolist() for seed, part in differences(one, other).items()} == {0: [pytest.approx(0.1)]}


def test_the_better_one_stands_first_whatever_is_better():
    given = scores(low=[0.1, 0.2, 0.3], high=[0.4, 0.5, 0.7])
    assert (compare_scores(given).pairs[0].one, compare_scores(given, higher=False).pairs[0].one) == ("high", "low")
    assert compare_scores(given).pairs[0].mean == pytest.approx(compare_scores(given, higher=False).pairs[0].mean)


def test_too_few_seeds_say_nothing_and_how_many_would_do():
    found = compare_scores(scores(one=[0.1, 0.2, 0.3], other=[0.5, 0.6, 0.7]))
    assert not found.possible
    assert "With 3 seeds nothing can be said" in found.sentence
    assert "6 seeds would do" in found.sentence
    assert not any(pair.real for pair in found.pairs)


def test_enough_seeds_that_agree_show_a_real_difference():
    found = compare_scores(scores(one=[0.1, 0.2, 0.3, 0.1, 0.2, 0.3], other=[0.5, 0.61, 0.72, 0.53, 0.64, 0.75]))
    assert found.possible
    assert found.of("one", "other").real
    assert "1 of 1 differences is real" in found.sentence


def test_four_entries_are_ranked_at_once():
    found = compare_scores(scores(a=[0.9, 0.8], b=[0.7, 0.7], c=[0.5, 0.6], d=[0.1, 0.1]))
    assert found.ranking.ranks == {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
    assert found.ranking.p == pytest.approx(0.1116, abs=1e-4)  # χ² of 6 with 3 degrees of freedom
    assert compare_scores(scores(a=[0.9], b=[0.7], c=[0.5], d=[0.1])).ranking is None
    assert compare_scores(scores(a=[1, 1], b=[1, 1], c=[1, 1], d=[1, 1])).ranking.p == 1.0


def test_what_was_never_played_together_is_no_pair():
    found = compare_scores({"one": {0: {"a": 0.5}}, "other": {1: {"a": 0.6}}})
    assert found.pairs == []
    assert found.sentence == "There is nothing to compare."
