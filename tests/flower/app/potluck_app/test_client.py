"""The ClientApp, which is started anew for every message."""

from __future__ import annotations

import subprocess
import sys

from potluck.flower.verified_clientapp import APP


def test_the_client_app_imports_no_torch():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import potluck_app.client; "
        "assert 'torch' not in sys.modules; assert 'potluck' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(APP)], check=True, timeout=60)
