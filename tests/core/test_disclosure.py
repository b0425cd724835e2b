"""What may leave a table."""

from __future__ import annotations

import pytest

from potluck import Disclosure, SettingsError


def test_by_default_all_of_five_and_more():
    assert Disclosure().min_count == 5
    assert {"count", "mean", "variance", "range", "histogram", "categories", "classes"} == set(Disclosure().tell)


def test_what_is_no_statistic_is_told():
    with pytest.raises(SettingsError, match="median"):
        Disclosure(tell=("median",))
    with pytest.raises(SettingsError, match="min_count"):
        Disclosure(min_count=0)
