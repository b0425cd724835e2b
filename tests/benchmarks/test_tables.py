"""Results get into the docs, each into its place."""

from __future__ import annotations

import json

from benchmarks import tables
from potluck.bench.results import Figure, Results


def test_tables_are_put_into_the_page(tmp_path):
    figures = [Figure.of("MLP round", [1.0, 2.0, 3.0], "s"), Figure.of("CNN round", [4.0], "s")]
    machine = {"cpu": "C", "cores": 2, "torch": "2.13"}
    Results("cpu_round", figures, machine=machine, measured="2026-01-02").write(tmp_path / "cpu_round.json")
    page = "".join(f"Text\n<!-- figures: {what} -->\nold\n<!-- end -->\n" for what in ("cpu_round MLP", "growth"))
    (tmp_path / "cpu_round.png").touch()
    once = tables.filled(page, tmp_path)
    assert "![cpu_round](../benchmarks/results/cpu_round.png)" in once
    assert "| MLP round | 2.00 s | 1.00 – 3.00 |  |  |" in once
    assert "CNN" not in once
    assert "old" not in once
    assert "<!-- figures: growth -->\n\nNot measured yet.\n\n<!-- end -->" in once
    assert "Measured on 2026-01-02: C, 2 cores, torch 2.13." in once
    assert tables.filled(once, tmp_path) == once


def test_the_page_has_a_place_for_every_benchmark():
    named = {block[2] for block in tables.BLOCK.finditer(tables.PAGE.read_text())}
    measured = {
        "cpu_round",
        "gpu_round",
        "overhead",
        "merging",
        "growth",
        "precision",
        "bench",
        "bench_gpu",
        "strategies",
        "adapters",
        "transforms",
    }
    assert named == {*measured, "flower_rounds", "flower_simulation"}


def test_kept_results_can_be_read():
    paths = sorted((tables.HERE / "results").glob("*.json"))
    assert {path.stem for path in paths} >= {"bench", "cpu_round"}
    for path in paths:
        assert Results.read(path).figures, path
        assert json.loads(path.read_text())["machine"]["cpu"]
