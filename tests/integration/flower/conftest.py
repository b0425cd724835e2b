"""As in the tests of the modules themselves, nobody waits longer than needed."""

from tests.flower.conftest import _short_waits

__all__ = ["_short_waits"]
