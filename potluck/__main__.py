"""``python -m potluck``: the command line."""

from __future__ import annotations

from potluck.cli import app

if __name__ == "__main__":
    app(prog_name="potluck")
