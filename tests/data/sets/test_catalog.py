"""What is said of the data sets is whole."""

from __future__ import annotations

import re

import pytest

from potluck.data import SOURCES
from potluck.data.sets.catalog import CATALOG


@pytest.mark.parametrize("name", CATALOG)
def test_each_says_where_it_is_from_and_how_it_is_checked(name):
    published = CATALOG[name]
    assert name in SOURCES
    assert published.name == name
    for told in (published.title, published.licence, published.cite, published.expected):
        assert told
    assert published.home.startswith("http")
    assert published.files or published.hub
    for file in published.files:
        assert file.url.rpartition("/")[2] == file.name
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256), "a checksum is published of every file that is here so far"


def test_the_size_is_the_sum_of_the_files_where_all_are_known():
    assert CATALOG["mnist"].size == 9912422 + 28881 + 1648877 + 4542
    assert CATALOG["femnist"].size is None
    assert CATALOG["beijing-air"].size is None
