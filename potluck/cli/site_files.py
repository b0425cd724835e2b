"""What ``potluck new --server`` and ``--site`` write: the two kinds of file of a real federation."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files

from potluck.core.errors import SettingsError
from potluck.methods import METHODS
from potluck.recipes.fitting import method_table

SERVER = "server.toml"
"""How the file of a server is called."""
PUBLIC = """
# What all may see: rows in the same columns as everybody's data. Each site is sent them once.
[public]
source = {source}
{labelled}"""
SERVER_TLS = """# What the server proves who it is with. For a trial this makes it, and a key for each site:
#   potluck keys init {names}
[tls]
certificate = "keys/server.pem"
key = "keys/server.key"
authority = "keys/ca.crt"
"""
SITE_TLS = """
root_certificates = "keys/ca.crt"   # from those who run the server
key = "keys/{name}"   # `potluck keys add {name}` makes it; the server needs {name}.pub, and that alone
"""
NO_TLS = "# Without [tls] nothing is encrypted and nobody proves who they are: for a trial on one machine alone.\n"


def site_file(name: str) -> str:
    """How the file of a site is called."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise SettingsError(f"A site's name is {name!r}; expected letters, digits, dots, dashes and underscores.")
    return f"site-{name}.toml"


def server_text(method: str, participants: Sequence[str], tls: bool, public: str | None, target: str) -> str:
    """A commented file of a server's."""
    table, entries = method_table(method), []
    needed = METHODS[method]().requires().public
    for name in participants:
        site_file(name)
        entries += ["[[participants]]", f'name = "{name}"', *([f'key = "keys/{name}.pub"'] if tls else []), ""]
    seen = ""
    if public or needed != "nothing":
        labelled = "labelled = true\n" if needed == "labels" else ""
        seen = PUBLIC.format(source=_source(public or "public.csv", target), labelled=labelled)
    gaps = {
        "file": SERVER,
        "method": "\n".join(table),
        "public": seen,
        "tls": SERVER_TLS.format(names=shlex.join(participants)) if tls else NO_TLS,
        "participants": "\n".join(entries).rstrip(),
    }
    return _filled("server.toml", gaps)


def site_text(name: str, model: str, data: str | None, test: str | None, target: str, tls: bool) -> str:
    """A commented file of a site's."""
    tested = f"test = {_source(test or f'{name}-test.csv', target)}"
    gaps = {
        "name": name,
        "file": site_file(name),
        "model": _quoted(model),
        "data": _source(data or f"{name}.csv", target),
        "test": tested if test else f"# {tested}",
        "tls": SITE_TLS.format(name=name) if tls else "",
    }
    return _filled("site.toml", gaps)


def _source(name: str, target: str) -> str:
    """Data as they are named: a table's column of labels is named with it, code and other files know theirs."""
    if ":" in name or not name.endswith((".csv", ".parquet")):
        return _quoted(name)
    return f"{{ name = {_quoted(name)}, target = {_quoted(target)} }}"


def _filled(template: str, gaps: Mapping[str, str]) -> str:
    text = (files("potluck.cli") / "templates" / f"{template}.txt").read_text(encoding="utf-8")
    return re.sub(r"\{(\w+)\}", lambda gap: gaps[gap[1]], text)


def _quoted(value: str) -> str:
    """A text as a TOML file has it."""
    return json.dumps(value, ensure_ascii=False)
