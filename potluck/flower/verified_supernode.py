"""Starts Flower's SuperNode, without a look into what the server sends as an app. Run as a program.

At the port where it hands messages and tokens to its own programs, no other user of the machine is answered. Flower
reads an app's settings from its bundle as soon as a run is heard of, before ``verified_clientapp.py`` has
checked the bundle. Potluck's ClientApp needs none of them.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import uvicorn

from potluck.flower.same_user import SameUserProtocol


def no_settings(content: bytes, run: Any) -> dict[str, Any]:
    """In the place of the settings in a bundle, which may be anything, of any size once unpacked."""
    return {}


if __name__ == "__main__":
    node: Any = import_module("flwr.supernode.start_client_internal")
    node.get_fused_config_from_fab = no_settings
    uvicorn.Config = partial(uvicorn.Config, http=SameUserProtocol, ws="none")  # type: ignore[assignment, misc]
    import_module("flwr.supernode.cli").flower_supernode()
