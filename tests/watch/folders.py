"""Run folders as they are while a run goes on, written by hand."""

from __future__ import annotations

import json
import os
import socket
import time

from potluck.core.processes import started_at


def row(round, name, accuracy=0.5, up=10, down=1, **more):
    sent = {"bytes_up": up, "bytes_down": down, "seconds": 2.0, "took_part": True, "refused": None}
    return {"round": round, "participant": name, "accuracy": accuracy, "loss": 1.0, **sent, **more}


def write_rows(folder, *rows, begin=False):
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "history.jsonl").open("w" if begin else "a") as file:
        file.writelines(json.dumps(each) + "\n" for each in rows)


def write_run(folder, *rows, state="playing", rounds=10, ago=60.0, **live):
    """A run that began so many seconds ago, in this process unless something else is said."""
    write_rows(folder, *rows, begin=True)
    (folder / "settings.json").write_text(json.dumps({"method": {"name": "FD"}, "seed": 3}))
    who = {"pid": os.getpid(), "started": started_at(os.getpid()), "host": socket.gethostname()}
    now = time.time()
    told = {**who, "state": state, "rounds": rounds, "played": 0, "began": now - ago, "now": now, **live}
    (folder / "live.json").write_text(json.dumps(told))
    return folder
