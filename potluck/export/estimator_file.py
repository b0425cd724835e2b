"""Estimators on disk, in a form that their own library, or skops, reads. Nothing is pickled."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

from potluck.core.errors import DataError, ModelError, SettingsError
from potluck.core.registry import import_object

EstimatorKind = Literal["skops", "xgboost", "own"]
NAMES: dict[str, str] = {"skops": "model.skops", "xgboost": "model.ubj", "own": "model"}
"""What the file of an estimator is called."""
XGBOOST = {
    f"xgboost.sklearn.{name}": name for name in ("XGBClassifier", "XGBRegressor", "XGBRFClassifier", "XGBRFRegressor")
}
"""Classes of XGBoost's that write and read files of their own."""


KNOWN = (
    "numpy.dtype",
    "potluck.models.additive.AdditiveClassifier",
    "potluck.preparation.common_preprocessor.CommonPreprocessor",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._ball_tree.BallTree",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",
)
"""Types beside those that skops knows which hold numbers and settings, and run nothing when they are read."""


def class_of(thing: Any) -> str:
    """The full name of a thing's class."""
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def write_estimator(model: Any, folder: Path, owner: str) -> EstimatorKind:
    """Writes a fitted estimator, and says in which form."""
    kind: EstimatorKind = "skops"
    try:
        if class_of(model) in XGBOOST:
            kind = "xgboost"
            model.save_model(str(folder / NAMES[kind]))
        elif callable(getattr(model, "save", None)) and callable(getattr(model, "load", None)):
            kind = "own"
            model.save(str(folder / NAMES[kind]))
        else:
            write_skops(model, folder / NAMES[kind])
    except Exception as error:  # whatever a stranger's code cannot write
        raise ModelError(f"{owner}: {type(model).__name__} cannot be exported: {error}") from error
    return kind


def write_skops(thing: Any, path: Path) -> None:
    """Writes whatever skops can write, and read again."""
    from skops import io

    io.dump(thing, path)
    io.load(path, trusted=io.get_untrusted_types(file=path))


def read_estimator(kind: EstimatorKind, model: str, path: Path, trusted: Collection[str]) -> Any:
    """A fitted estimator.

    Args:
        kind: in which form it is.
        model: its class.
        path: the file.
        trusted: the types beside skops' own that it may consist of.
    """
    if kind == "own":
        raise ModelError(f"{path} was written by {model} itself: make one where that is, and have it load(path).")
    if kind == "skops":
        return read_skops(path, trusted)
    if model not in XGBOOST:
        raise DataError(f"{path} is said to hold {model!r}; expected one of {', '.join(XGBOOST)}.")
    found = import_object(f"xgboost:{XGBOOST[model]}")()
    try:
        found.load_model(str(path))
    except Exception as error:  # XGBoost's own error is a ValueError of another kind in each version
        raise DataError(f"{path} cannot be read by XGBoost: {str(error).splitlines()[0]}") from error
    return found


def read_skops(path: Path, trusted: Collection[str]) -> Any:
    """What skops wrote, if it consists of types that it knows, or that are trusted."""
    from skops import io

    try:
        strange = sorted(set(io.get_untrusted_types(file=path)) - {*KNOWN, *trusted})
        if strange:
            raise SettingsError(
                f"{path} holds types that are not known to be harmless: {', '.join(strange)}. If you trust whoever "
                f"made it, name them: potluck.load(…, trusted={strange!r}), or --trust in `potluck predict`."
            )
        return io.load(path, trusted=[*KNOWN, *trusted])
    except SettingsError:
        raise
    except Exception as error:  # whatever skops meets in a damaged file
        raise DataError(f"{path} cannot be read by skops: {error}") from error
