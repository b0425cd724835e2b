"""A table of a paper that takes a second, with numbers that were never published."""

from __future__ import annotations

ITEM = """
rounds = 2
method = "FedAvg"

[data.source]
name = "generated"
samples = 200
features = 4
classes = 3

[[participants]]
name = "site"
count = 3
model = { name = "mlp", hidden = [8] }

[paper]
paper = "Nobody"
item = "Table 9"
title = "what nobody measured"
claim = "Together is better."
measures = ["accuracy", "rounds to 1%", "gain over Local %", "share of FedAvg"]

[[paper.rows]]
title = "FedAvg"
published = { "accuracy" = 60.0, "share of FedAvg" = 1.0 }

[[paper.rows]]
title = "Local"
set = ["method=Local"]
published = { "accuracy" = 50.0 }

[paper.scales.smoke]
set = ["rounds=1"]
reduced = "one round."

[paper.scales.small]
"""


def write_item(folder, text=ITEM):
    """Puts the item into a folder; returns its name for ``reproduce``."""
    path = folder / "item.toml"
    path.write_text(text)
    return str(path)
