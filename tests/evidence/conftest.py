"""Tiny made-up data under the names of the real sets."""

import numpy as np
import pytest

from evidence.experiment import Data
from potluck.reproduction.result_lines import ResultLine, append


def write_result(folder, setting, seed, scores, **more):
    """A line of a result file: the accuracy after each round."""
    played = max(scores, default=0)
    line = ResultLine(
        **{
            "run": f"toy.{setting}.{seed}",
            "experiment": "toy",
            "setting": setting,
            "seed": seed,
            "played": played,
            "rounds": {"bytes_up": played * [2e6]},
            "measured": {"round": list(scores), "accuracy": list(scores.values())} if scores else {},
            **more,
        }
    )
    append(folder / f"{line.experiment}.jsonl", line)


def write(folder, name, shape, count, coarse=False):
    draw = np.random.default_rng(len(name))
    content = {}
    for part, size in {"train": count, "test": count // 4}.items():
        y = np.arange(size) % (100 if coarse else 10)
        x = draw.integers(0, 60, (size, *shape)) + (20 * (y % 10)).reshape(-1, *[1] * len(shape))
        content |= {f"x_{part}": x.astype(np.uint8), f"y_{part}": y}
        if coarse:
            content[f"y_coarse_{part}"] = y // 5
    np.savez(folder / f"{name}.npz", **content)


def write_adult(folder):
    draw = np.random.default_rng(0)
    (folder / "adult").mkdir()
    kinds, homes = ["Private", "?"], ["Cuba", "France", "Peru"]

    def line(end):
        age, kind, home = int(draw.integers(18, 90)), draw.choice(kinds), draw.choice(homes)
        income = ">50K" if age + draw.normal(0, 10) > 55 else "<=50K"
        cells = [age, kind, 7, "HS", 9, "Wed", "Sales", "Wife", "White", "Male", 0, 0, 40, home, income + end]
        return ", ".join(map(str, cells))

    (folder / "adult" / "adult.data").write_text("\n".join(line("") for _ in range(400)) + "\n\n")
    head = "|1x3 Cross validator\n"
    (folder / "adult" / "adult.test").write_text(head + "\n".join(line(".") for _ in range(100)) + "\n")


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write(folder, "mnist", (28, 28), 300)
    write(folder, "fashion_mnist", (28, 28), 200)
    write(folder, "cifar10", (32, 32, 3), 200)
    write(folder, "svhn", (32, 32, 3), 60)
    write(folder, "cifar100", (32, 32, 3), 1000, coarse=True)
    write_adult(folder)
    return Data(folder)
