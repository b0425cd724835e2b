from __future__ import annotations

from potluck.core.errors import MANY, how_to_install, nearest


def test_the_nearest_name_is_suggested_whatever_its_case():
    assert nearest("fedavgg", ["Local", "FedAvg"]) == " Did you mean 'FedAvg'? Known: FedAvg, Local."


def test_where_no_name_is_near_all_are_listed():
    assert nearest("xyz", ["b", "a"]) == " Known: a, b."
    assert nearest("xyz", []) == " Known: none."


def test_of_many_names_the_first_are_listed():
    names = [f"n{number:03d}" for number in range(MANY + 1)]
    assert nearest("xyz", names[:MANY]) == f" Known: {', '.join(names[:MANY])}."
    assert nearest("xyz", names) == f" Known: {', '.join(names[:MANY])}, …."


def test_what_brings_an_extra():
    assert how_to_install("plots") == "pip install '.[plots]' in Potluck's folder."
