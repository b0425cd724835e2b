"""Recipes: experiments that can be named and repeated. A user's own is a TOML file."""

from potluck.recipes.recipe import Recipe
from potluck.recipes.run_file import read

__all__ = ["Recipe", "read"]
