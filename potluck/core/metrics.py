"""Metrics by name: what scikit-learn computes of answers and the truth, or nothing, with a reason."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from potluck.core.errors import SettingsError, nearest
from potluck.core.stable_names import readable_name

Array = np.ndarray[Any, Any]

Metrics = dict[str, float | None]

Scores = dict[str, Metrics]
"""The metrics of each of a party's models whose answers are reported, by its name."""

MetricSetting = str | Callable[..., float]
"""A metric as a user names it: by a name, or a function of (truth, answers), both as the user knows them. One that
takes ``probabilities`` gets them, too."""


class NoMetricError(Exception):
    """A metric has no value for these answers; says why."""


@dataclass(frozen=True)
class Graded:
    """Answers to test data, beside the truth.

    Args:
        truth: positions of labels (rows), or 0 and 1 (rows × labels), or values (rows × outputs).
        said: what was answered, in the same form.
        probabilities: of each label (rows × labels); None of values, and of a model that gives none.
    """

    truth: Array
    said: Array
    probabilities: Array | None = None

    def sure(self) -> Array:
        """The probabilities, or the reason why there is no metric of them."""
        if self.probabilities is None:
            raise NoMetricError("the model answers without probabilities, or with 0 and 1 alone")
        if not np.isfinite(self.probabilities).all():
            raise NoMetricError("the model has diverged")
        return self.probabilities

    def indicators(self) -> Array:
        """The truth as 0 and 1 for each label."""
        return self.truth if self.truth.ndim == 2 else np.eye(self.sure().shape[1], dtype=int)[self.truth]


def quick(tested: Graded) -> Metrics:
    """The default metrics of labels, as scikit-learn defines them, without its checks: they are most of an evaluation.

    F1 is averaged over the labels that occur in the truth or among the answers, recall over those in the truth.
    The loss is None for a model that answers without probabilities, or that has diverged.
    """
    truth, answer = tested.truth, tested.said
    labels = max(int(truth.max()), int(answer.max())) + 1
    right = np.bincount(truth[answer == truth], minlength=labels)
    there = np.bincount(truth, minlength=labels)
    met = there + np.bincount(answer, minlength=labels)
    occurs, met_at_all = there > 0, met > 0
    return {
        "accuracy": float(right.sum() / len(truth)),
        "loss": _cross_entropy(tested),
        "macro_f1": float((2 * right[met_at_all] / met[met_at_all]).mean()),
        "balanced_accuracy": float((right[occurs] / there[occurs]).mean()),
    }


def _cross_entropy(tested: Graded) -> float | None:
    if tested.probabilities is None:
        return None
    loss = float(-np.log(tested.probabilities[np.arange(len(tested.truth)), tested.truth].clip(min=1e-12)).mean())
    return loss if math.isfinite(loss) else None


def _accuracy(tested: Graded) -> float:
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(tested.truth, tested.said))


def _balanced_accuracy(tested: Graded) -> float:
    """The mean recall of the labels that occur: scikit-learn's, without its warning about answers that never occur."""
    from sklearn.metrics import recall_score

    return float(
        recall_score(tested.truth, tested.said, labels=np.unique(tested.truth), average="macro", zero_division=0)
    )


def _averaged(function: str, average: str) -> Callable[[Graded], float]:
    """F1, precision or recall over the labels that occur in the truth or among the answers."""

    def metric(tested: Graded) -> float:
        from sklearn import metrics

        met = None
        if tested.truth.ndim == 2:
            met = np.flatnonzero((tested.truth + tested.said).sum(axis=0) > 0)
            if not len(met):
                raise NoMetricError("no label occurs in the test data or among the answers")
        found = getattr(metrics, function)(tested.truth, tested.said, labels=met, average=average, zero_division=0)
        return float(found)

    return metric


def _log_loss(tested: Graded) -> float:
    from sklearn.metrics import log_loss

    sure = tested.sure()
    if tested.truth.ndim == 2:  # one question for each label
        return float(np.mean([log_loss(y, p, labels=[0, 1]) for y, p in zip(tested.truth.T, sure.T, strict=True)]))
    if sure.shape[1] == 1:
        raise NoMetricError("there is one label only")
    return float(log_loss(tested.truth, sure, labels=range(sure.shape[1])))


def _roc_auc(tested: Graded) -> float:
    """One label against the others; the mean over those that some of the test data have and some have not."""
    from sklearn.metrics import roc_auc_score

    truth, sure = tested.indicators(), tested.sure()
    both = np.flatnonzero((truth.sum(axis=0) > 0) & (truth.sum(axis=0) < len(truth)))
    if not len(both):
        raise NoMetricError("the test data hold one class only")
    if tested.truth.ndim == 1 and sure.shape[1] == 2:
        both = np.array([1])
    return float(roc_auc_score(truth[:, both], sure[:, both], average="macro"))


def _average_precision(tested: Graded) -> float:
    """The mean over labels that occur; of two classes the second one's."""
    from sklearn.metrics import average_precision_score

    truth, sure = tested.indicators(), tested.sure()
    occurs = np.flatnonzero(truth.sum(axis=0) > 0)
    if tested.truth.ndim == 1 and sure.shape[1] == 2:
        occurs = occurs[occurs == 1]
    if not len(occurs):
        raise NoMetricError("no label whose precision is asked for occurs in the test data")
    return float(average_precision_score(truth[:, occurs], sure[:, occurs], average="macro"))


def _of_values(function: str, least: int = 1) -> Callable[[Graded], float]:
    def metric(tested: Graded) -> float:
        from sklearn import metrics

        if not np.isfinite(tested.said).all():
            raise NoMetricError("the model has diverged")
        if len(tested.truth) < least:
            raise NoMetricError(f"there are fewer than {least} test samples")
        return float(getattr(metrics, function)(tested.truth, tested.said))

    return metric


OF_LABELS: Mapping[str, Callable[[Graded], float]] = {
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced_accuracy,
    **{
        f"{name}_{average}": _averaged(f"{name}_score", average)
        for name in ("f1", "precision", "recall", "jaccard")
        for average in ("macro", "micro", "weighted")
    },
    "macro_f1": _averaged("f1_score", "macro"),
    "loss": _log_loss,
    "log_loss": _log_loss,
    "roc_auc": _roc_auc,
    "average_precision": _average_precision,
}
"""Metrics of labels, by scikit-learn's names. ``macro_f1`` and ``loss`` are what ``f1_macro`` and ``log_loss`` are."""

OF_VALUES: Mapping[str, Callable[[Graded], float]] = {
    "r2": _of_values("r2_score", least=2),
    "mae": _of_values("mean_absolute_error"),
    "mse": _of_values("mean_squared_error"),
    "rmse": _of_values("root_mean_squared_error"),
    "median_ae": _of_values("median_absolute_error"),
    "mape": _of_values("mean_absolute_percentage_error"),
}
"""Metrics of values, by the short forms of scikit-learn's names."""

LOWER_IS_BETTER = frozenset({"loss", "mae", "mse", "rmse", "median_ae", "mape", "brier", "perplexity"})
"""Metrics of which less is better, beside those whose names say so."""

SHARES = frozenset({*OF_LABELS, "micro_f1", "f1", "top_5_accuracy", "exact_match"} - {"loss", "log_loss"})
"""Metrics from 0 to 1, shown in percent."""

ROUNDING = 1e-6
"""How far beyond its bounds a metric may be by rounding."""

TITLES = {
    "macro_f1": "macro F1",
    "f1_macro": "macro F1",
    "micro_f1": "micro F1",
    "f1_micro": "micro F1",
    "roc_auc": "ROC AUC",
    "mae": "MAE",
    "mse": "MSE",
    "rmse": "RMSE",
    "r2": "R²",
}
"""How some are written."""

TAKEN = frozenset({"round", "participant", "model", "bytes_up", "bytes_down", "seconds", "simulated_seconds"})
"""What columns of the history are called that hold something else."""


def possible(name: str, value: float | None) -> bool:
    """Whether one of these metrics can have such a value, as somebody else reports it."""
    if value is None:
        return True
    least = 0 if name in SHARES or name in LOWER_IS_BETTER else -math.inf
    return least - ROUNDING <= value <= (1 if name in SHARES or name == "r2" else math.inf) + ROUNDING


def less_is_better(name: str) -> bool:
    """Whether less of a metric is better: as scikit-learn has it, where a name ends in loss, error or the like."""
    return name in LOWER_IS_BETTER or name.endswith(("_loss", "_error", "_deviance", "_distance"))


def title(name: str) -> str:
    """A metric's name for people."""
    return TITLES.get(name, name.replace("_", " "))


def readable(name: str, value: float | None) -> str:
    """A metric's value for people."""
    if value is None:
        return "–"
    return f"{100 * value:.2f}%" if name in SHARES else f"{value:.4f}" if abs(value) < 1000 else f"{value:.1f}"


def checked(metrics: Sequence[MetricSetting] | MetricSetting, known: Mapping[str, Any]) -> tuple[MetricSetting, ...]:
    """Metrics as a user gave them, in a tuple; SettingsError unless each is known or a function."""
    given = (metrics,) if isinstance(metrics, str) or callable(metrics) else tuple(metrics)
    for metric in given:
        if not callable(metric) and metric not in known:
            raise SettingsError(
                f"metrics holds {metric!r}.{nearest(str(metric), known)} Or give a function of (truth, answers)."
            )
    names = [metric_name(metric) for metric in given]
    if taken := sorted(TAKEN.intersection(names)):
        raise SettingsError(f"metrics holds {taken[0]!r}, which is a column of the history already; name it otherwise.")
    if len(set(names)) < len(names):
        raise SettingsError(f"metrics names one twice: {names}.")
    return given


def metric_name(metric: MetricSetting) -> str:
    """A metric's column in the history."""
    if isinstance(metric, str):
        return metric
    return str(getattr(metric, "__name__", None) or readable_name(metric).rpartition(":")[2])


def of_user(metric: Callable[..., float], truth: Any, said: Any, probabilities: Array | None) -> float:
    """What a user's function finds."""
    more = {"probabilities": probabilities} if "probabilities" in inspect.signature(metric).parameters else {}
    return float(metric(truth, said, **more))


def computed(compute: Callable[[], float]) -> tuple[float | None, str]:
    """A metric, or None and the reason why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = compute()
    except NoMetricError as error:
        return None, str(error)
    except Exception as error:  # whatever a library or a user's function finds wrong: a run goes on without it
        return None, f"{type(error).__name__}: {error}"
    return (found, "") if math.isfinite(found) else (None, f"it is {found}")
