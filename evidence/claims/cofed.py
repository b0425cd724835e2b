"""The claims of CoFED's page."""

from __future__ import annotations

import numpy as np

from evidence.checks import all_gains, mean_gain
from evidence.claims.kinds import Claims, Value, claim
from evidence.outcomes import Outcome, Results, gains, spread
from evidence.statements import ADULT, IID, NON_IID


def _everyones(results: Results) -> list[float]:
    return [gain for setting in (IID, NON_IID) for run in all_gains(results, *setting) for gain in run]


def _who_gains(results: Results) -> str:
    return str(sum(gain > 0 for gain in _everyones(results)))


def _everyone(results: Results) -> str:
    return str(len(_everyones(results)))


def _largest_loss(results: Results) -> str:
    return f"{-100 * min(_everyones(results)):.1f}"


def _part_of_published(setting: tuple[str, str], published: float) -> Value:
    return lambda results: f"{100 * np.mean(mean_gain(*setting)(results)) / published:.0f}"


def _raw(results: Results) -> list[tuple[Outcome, Outcome]]:
    together, alone = results.runs("cofed_adult.raw-cofed"), results.runs("cofed_adult.raw-local")
    return [(together[seed], alone[seed]) for seed in sorted(together)]


def _from_a_few(seed: int) -> Value:
    """How much of the mean gain comes from those who alone are wrong more often than right, in percent."""

    def found(results: Results) -> str:
        outcome, alone = _raw(results)[seed]
        everyones = gains(outcome, alone)
        few = sum(gain for name, gain in everyones.items() if alone["participants"][name] < 0.5)
        return f"{100 * few / len(everyones):.1f}"

    return found


def _from_all(seed: int) -> Value:
    return lambda results: f"{100 * np.mean(list(gains(*_raw(results)[seed]).values())):.1f}"


def _most_from_a_few(results: Results) -> bool:
    return all(2 * float(_from_a_few(seed)(results)) > float(_from_all(seed)(results)) for seed in range(3))


def _falls(together: bool) -> Value:
    """The accuracy of the participant that loses most, alone or after the vote."""

    def found(results: Results) -> str:
        lost = [(gain, name, pair) for pair in _raw(results) for name, gain in gains(*pair).items()]
        _, name, pair = min(lost, key=lambda one: one[0])
        return f"{100 * pair[0 if together else 1]['participants'][name]:.0f}"

    return found


CLAIMS = Claims(
    numbers=[
        claim("differ**: {} of {} participants", _who_gains, _everyone),
        claim("the other loses {}%", _largest_loss),
        claim(
            "The gains are {}% (IID) and {}% (non-IID)",
            _part_of_published(IID, 17.3),
            _part_of_published(NON_IID, 35.6),
        ),
        claim("come back**; it is {}%", lambda results: spread(mean_gain(*ADULT)(results), 1)),
        claim(
            "than right: {} of {}, {} of {} and {} of {} percent",
            *(part(seed) for seed in range(3) for part in (_from_a_few, _from_all)),
        ),
        claim("falls from {}% to {}%.", _falls(together=False), _falls(together=True)),
    ],
    words=[
        ("Most participants do gain", lambda results: bool(np.mean(np.array(all_gains(results, *ADULT)) > 0) > 0.5)),
        (
            "training as long again on one's own images gains less than two percent",
            lambda results: all(
                np.mean(mean_gain(f"cofed_cifar.{kind}-local-longer", f"cofed_cifar.{kind}-local")(results)) < 2
                for kind in ("iid", "non-iid")
            ),
        ),
        ("and most of it comes from a few networks", _most_from_a_few),
    ],
    given="0 0.001 0.3 0.7 1 5 6 8 8.5 25 30 40 50 57 70 100 200 250 1,000 2,500 5,000 50,000",
)
