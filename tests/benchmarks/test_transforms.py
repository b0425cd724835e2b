"""What transforms cost is measured for each way of writing one, and for each place where they run."""

from __future__ import annotations

from benchmarks import transforms


def test_each_kind_is_measured_beside_no_change():
    figures = transforms.kinds(1, transforms.PICTURES.replace(count=2, samples=6, shape=(1, 8, 8)))
    assert [figure.name for figure in figures] == [name for name in transforms.KINDS if name != "no change"]
    assert all(figure.unit == "ms" for figure in figures)


def test_what_is_over_the_budget_is_not_kept():
    scenario = transforms.PICTURES.replace(count=2, samples=6, shape=(1, 8, 8))
    name = "per sample, over the budget"
    federation = transforms._federation(scenario, name, transforms.KINDS[name], "cpu")
    federation.run(1)
    assert federation.engine.ready._held == 0
