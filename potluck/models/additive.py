"""Generalized additive models: one smooth curve for each column, added up. CoFED section 5.7 uses them.

The curves are fitted by pygam, whose LogisticGAM separates two classes. What is added here: more classes, weights,
columns of few values, and data so few that pygam by itself fails on them.
"""

from __future__ import annotations

import importlib
import io
import warnings
from contextlib import redirect_stdout
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y

from potluck.core.errors import ModelError, SettingsError, how_to_install

RowArray = NDArray[np.float64]


def additive(classes: int, splines: int = 10, lam: float = 0.6, ridge: float = 0.1) -> AdditiveClassifier:
    """A generalized additive model, one of the classifiers of CoFED section 5.7; needs the extra `gam`.

    It finds the classes in the data itself, so their number is not used.

    Args:
        classes: ignored.
        splines: as in ``AdditiveClassifier``; by default 10.
        lam: as in ``AdditiveClassifier``; by default 0.6.
        ridge: as in ``AdditiveClassifier``; by default 0.1.
    """
    _check(splines, lam, ridge)
    _pygam()
    return AdditiveClassifier(splines=splines, lam=lam, ridge=ridge)


class AdditiveClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The logit of a class is a sum of curves, one for each column. More than two classes: each against the rest.

    Args:
        splines: how many splines a curve is made of, at most; by default 10. Where samples are few, the curves share as
            many splines as there are samples, down to two for each: a straight line. Columns of fewer values have fewer
            splines, those of two values only a step, constant ones nothing.
        lam: the penalty on the roughness of curves, and on the size of steps; by default 0.6.
        ridge: the penalty on the size of curves; by default 0.1. Without one, a fit to few samples that can be
            separated does not converge.

    Fitted, it holds arrays only: a checkpoint can store it.
    """

    def __init__(self, splines: int = 10, lam: float = 0.6, ridge: float = 0.1) -> None:
        self.splines = splines
        self.lam = lam
        self.ridge = ridge

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> AdditiveClassifier:  # noqa: N803
        """Fits the curves. A sample of weight 0 counts as absent."""
        _check(self.splines, self.lam, self.ridge)
        x, labels = check_X_y(X, y, dtype=np.float64)
        check_classification_targets(labels)
        weight = _weights(sample_weight, len(x))
        x, labels, weight = x[weight > 0], labels[weight > 0], weight[weight > 0]
        self.n_features_in_ = x.shape[1]
        self.classes_ = np.unique(labels)
        self.low_, self.span_ = x.min(axis=0), np.ptp(x, axis=0)
        self.sizes_ = self._sizes(x)
        rows, classes = self._scaled(x), self.classes_ if len(self.classes_) > 2 else self.classes_[1:]
        self.coef_ = np.array([self._fit_one(rows, labels == label, weight) for label in classes])
        return self

    def predict_proba(self, X: ArrayLike) -> RowArray:  # noqa: N803
        """Probabilities over ``classes_``, one row for each sample."""
        check_is_fitted(self)
        x = check_array(X, dtype=np.float64)
        if x.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {x.shape[1]} features, but AdditiveClassifier is expecting {self.n_features_in_} features as "
                f"input"
            )
        if len(self.classes_) == 1:
            return np.ones((len(x), 1))
        logits = np.asarray(self._terms().build_columns(self._scaled(x)) @ self.coef_.T)
        if len(self.classes_) == 2:
            logits = np.hstack([-logits, logits])
        return np.asarray(softmax(log_expit(logits), axis=1))  # p / Σp, also where every p is next to nothing

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """The most probable class of each sample."""
        said = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[said])

    def _fit_one(self, rows: RowArray, y: NDArray[np.bool_], weight: RowArray) -> RowArray:
        """The coefficients that separate one class from the rest.

        pygam truncates the solution where there are fewer rows than coefficients. Rows that are repeated, each with a
        part of its weight, are the same problem, with enough rows.
        """
        terms = self._terms()
        times = -(-terms.n_coefs // len(rows))
        gam = _pygam().LogisticGAM(terms, fit_intercept=False, callbacks=[])
        gam.coef_ = np.zeros(terms.n_coefs)  # pygam's own initial values are far off where samples are few
        with warnings.catch_warnings(), np.errstate(all="ignore"), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            gam.fit(np.tile(rows, (times, 1)), np.tile(y, times), weights=np.tile(weight / times, times))
        if not np.isfinite(gam.coef_).all():
            raise ValueError(f"the fit has diverged with lam = {self.lam} and ridge = {self.ridge}; raise them.")
        return np.asarray(gam.coef_)

    def _sizes(self, x: RowArray) -> NDArray[np.int64]:
        """How many coefficients each column has: 0 if it is constant, 1 for a step, else one for each spline."""
        values = np.array([len(np.unique(column)) for column in x.T])
        left = len(x) - 1 - np.sum(values == 2)  # the intercept and steps take one each
        share = max(2, min(self.splines, left // max(1, np.sum(values > 2))))
        return np.where(values > 2, np.minimum(values, share), values - 1)

    def _terms(self) -> Any:
        """The curves and the intercept as pygam's terms; all columns run from 0 to 1."""
        pygam, penalties = _pygam(), {"penalties": ["derivative", "l2"], "lam": [self.lam, self.ridge]}
        terms = []
        for column, size in enumerate(self.sizes_.tolist()):
            if size == 1:
                terms.append(pygam.l(column, lam=self.lam))
            elif size > 1:
                order = min(3, size - 1)  # cubic, where there are enough splines
                terms.append(pygam.s(column, n_splines=size, spline_order=order, edge_knots=[0, 1], **penalties))
        return pygam.terms.TermList(*terms, pygam.intercept)

    def _scaled(self, x: RowArray) -> RowArray:
        scaled: RowArray = (x - self.low_) / np.where(self.span_ == 0, 1, self.span_)
        return scaled


def _weights(given: ArrayLike | None, rows: int) -> RowArray:
    weight = np.ones(rows) if given is None else np.asarray(given, dtype=np.float64)
    if weight.shape != (rows,) or not np.isfinite(weight).all() or (weight < 0).any() or not weight.any():
        raise ValueError(
            f"sample_weight has shape {weight.shape}; expected {rows} finite numbers from 0, not all zero."
        )
    return weight


def _check(splines: int, lam: float, ridge: float) -> None:
    if not isinstance(splines, Integral) or splines < 2:
        raise SettingsError(f"splines = {splines!r}; expected a whole number from 2.")
    for name, value in (("lam", lam), ("ridge", ridge)):
        if not isinstance(value, Real) or not 0 < value < float("inf"):
            raise SettingsError(f"{name} = {value!r}; expected a finite number above 0.")


def _pygam() -> Any:
    try:
        return importlib.import_module("pygam")
    except ImportError as error:
        raise ModelError(f"Additive models need pygam: {how_to_install('gam')}") from error
