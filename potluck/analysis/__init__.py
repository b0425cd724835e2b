"""What networks have learned: how alike their features are, how far they part, what can be rebuilt from them."""

from potluck.analysis.reconstruction import Reconstruction, reconstruct
from potluck.analysis.separation import embed, separation
from potluck.analysis.similarity import cka

__all__ = ["Reconstruction", "cka", "embed", "reconstruct", "separation"]
