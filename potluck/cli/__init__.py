"""The command line."""

from potluck.cli.app import app

__all__ = ["app"]
