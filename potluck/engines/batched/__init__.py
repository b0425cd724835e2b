"""The batched engine: networks of one architecture are stacked and answered together."""
