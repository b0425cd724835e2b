from tests.recipes.files import here

__all__ = ["here"]
