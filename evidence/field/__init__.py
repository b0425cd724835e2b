"""Methods compared on one federation: which of them helps, by how much, at what cost."""
