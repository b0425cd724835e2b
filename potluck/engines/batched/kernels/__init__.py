"""Layers of many networks at once, where torch.func.vmap's own form is slow."""
