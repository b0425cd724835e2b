"""The ClientApp of Flower's simulation."""

from __future__ import annotations

import subprocess
import sys

from potluck.flower.processes import APP


def test_it_is_loaded_without_torch():
    """Flower loads it with the app, also where no participant lives."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import potluck_app.client; "
        "assert 'torch' not in sys.modules; assert 'potluck' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(APP)], check=True, timeout=60)
