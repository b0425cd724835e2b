"""How Sphinx builds the site: `make docs`. The pages are the Markdown files here and beside this folder."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).parent / "_ext")]

from potluck import __version__  # noqa: E402

project = "Potluck"
author = "The Potluck authors"
copyright = "The Potluck authors"
version = release = __version__

# The source folder is the project's, so that pages and what stands beside them link to each other as they do elsewhere.
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "docs/notebooks/*.ipynb",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "benchmarks/README.md",
]
exclude_patterns = ["**/.*", "build", "dist", "runs", "potluck", "tests", "evidence", "examples", "tools", "deploy"]

extensions = [
    "myst_parser",
    "notebooks",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "pages",
    "reference",
    "sequence_diagrams",
]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
napoleon_use_ivar = True
napoleon_custom_sections = [("A subclass may set", "params_style")]
# Types such as `bytes` are also names of attributes here, and then Sphinx cannot tell which is meant.
suppress_warnings = ["ref.python"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
myst_fence_as_directive = {"mermaid"}

html_theme = "furo"
html_title = "Potluck"
html_static_path = ["_static"]
html_css_files = ["potluck.css"]
html_copy_source = False
html_show_sphinx = False
