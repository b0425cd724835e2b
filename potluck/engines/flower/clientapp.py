"""What a participant's SuperNode runs for each message, in the place of Flower's own. Nothing here imports potluck.

Flower has a node run whatever app the server sends. A participant has agreed to one app only, the one that is
installed with potluck on its own machine: anything else is refused before it is unpacked.
"""

from __future__ import annotations

import io
import tomllib
import zipfile
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path
from typing import Any

APP = Path(__file__).parent / "app"


def check(content: bytes) -> None:
    """Raises unless an app bundle is potluck's own, file by file."""
    with zipfile.ZipFile(io.BytesIO(content)) as bundle:
        for name in bundle.namelist():
            own = APP / name
            if name.startswith(".info/"):
                continue  # Flower's list of checksums
            if name == "pyproject.toml":
                theirs, ours = (tomllib.loads(text) for text in (bundle.read(name).decode(), own.read_text()))
                same = theirs["tool"]["flwr"]["app"]["components"] == ours["tool"]["flwr"]["app"]["components"]
            else:
                same = own.is_file() and own.resolve().is_relative_to(APP) and own.read_bytes() == bundle.read(name)
            if not same:
                raise PermissionError(f"The server sent an app whose {name} is not potluck's; it was not run.")


def main() -> None:
    """Flower's own work on one message, with the check before anything is unpacked, and half the imports."""
    runtime: Any = import_module("flwr.supernode.runtime.run_clientapp")
    install = runtime.install_from_fab

    def checked(content: bytes, *arguments: Any, **settings: Any) -> Any:
        check(content)
        return install(content, *arguments, **settings)

    runtime.install_from_fab = checked
    told = ArgumentParser()
    told.add_argument("--runtime-api-address", required=True)
    told.add_argument("--token", required=True)
    told.add_argument("--insecure", action="store_true")
    told.add_argument("--root-certificates", type=Path)
    told.add_argument("--parent-pid", type=int)
    given = told.parse_args()
    certificates = given.root_certificates.read_bytes() if given.root_certificates else None
    runtime.run_clientapp(given.runtime_api_address, given.token, given.insecure, certificates, given.parent_pid, False)


if __name__ == "__main__":
    main()
