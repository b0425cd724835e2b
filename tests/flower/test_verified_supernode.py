"""Flower's node, started so that it reads nothing of an app's bundle."""

from __future__ import annotations

import subprocess
import sys

from potluck.flower.processes import HERE

NODE = """
import runpy, sys
import flwr.supernode.cli
import flwr.supernode.start_client_internal as node

flwr.supernode.cli.flower_supernode = lambda: print(node.get_fused_config_from_fab(b"no bundle", None))
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_a_node_reads_nothing_of_a_bundle():
    """Flower's node looks for settings in it before anything is checked; the function must be there to be replaced."""
    program = [sys.executable, "-c", NODE, str(HERE / "verified_supernode.py")]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert done.stdout == "{}\n", done.stderr
