"""Fashion-MNIST, a part of it: what the federations of the comparison divide."""

from __future__ import annotations

from potluck.data import Source, npz, split_public


def source(path: str, train: int, test: int) -> Source:
    """Some images of Fashion-MNIST, every class in proportion; always the same ones.

    Args:
        path: a file of arrays ``x_train, y_train, x_test, y_test``.
        train: how many of its training images.
        test: how many of its test images.
    """
    whole = npz(path)
    few, tests = (split_public(x, y, n) for x, y, n in ((whole.x, whole.y, train), (whole.x_test, whole.y_test, test)))
    return Source("fashion-mnist", few.x, few.y, tests.x, tests.y)
