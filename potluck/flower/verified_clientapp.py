"""What a participant's SuperNode runs for each message, in the place of Flower's own. Nothing here imports potluck.

Flower has a node unpack and run whatever app the server sends. A participant has agreed to one app only, the one that
is installed with potluck on its own machine: that one is run where it is, if the server's is the same byte for byte.
Nothing that the server sends is unpacked, and no path is made of what it says.
"""

from __future__ import annotations

from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path
from typing import Any

from flwr.cli.build import build_fab_from_disk

APP = Path(__file__).parent / "app"


def check(content: bytes, **_: Any) -> None:
    """Raises unless an app bundle is the one that potluck makes here."""
    if content != build_fab_from_disk(APP):
        raise PermissionError(
            "The server sent an app that is not the one installed here, byte for byte; it was neither unpacked nor "
            "run. See that both sides have the same versions of potluck and flwr."
        )


def installed(*_: str) -> Path:
    """Where the app is, whatever the server calls it."""
    return APP


def main() -> None:
    """Flower's own work on one message, with the installed app in the place of the server's, and half the imports."""
    runtime: Any = import_module("flwr.supernode.runtime.run_clientapp")
    loading: Any = import_module("flwr.clientapp.utils")
    runtime.install_from_fab = check
    runtime.get_project_dir = loading.get_project_dir = installed
    parser = ArgumentParser()
    parser.add_argument("--runtime-api-address", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--insecure", action="store_true")
    parser.add_argument("--root-certificates", type=Path)
    parser.add_argument("--parent-pid", type=int)
    given = parser.parse_args()
    certificates = given.root_certificates.read_bytes() if given.root_certificates else None
    runtime.run_clientapp(given.runtime_api_address, given.token, given.insecure, certificates, given.parent_pid, False)


if __name__ == "__main__":
    main()
