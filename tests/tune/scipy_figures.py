"""Prints what scipy says of the figures that crates/host/src/statistics/tests.rs expects, by the names of test_statistics.py."""

import itertools
import json

import numpy as np
from scipy import optimize, stats

DIFFERENCES = [1.2, -0.3, 0.8, 2.1, 0.4, -0.1, 1.7, 0.9]
ONE, OTHER = [12.1, 9.8, 14.2, 11.0, 13.3], [8.4, 9.9, 7.7, 10.2, 9.0, 8.8]
BLOCKS = [([3.0, 2.5], [1.0, 0.5]), ([10.0, 11.0], [9.0, 8.5])]


def flipped():
    """All signs of the differences; both tails."""
    done = stats.permutation_test(
        (DIFFERENCES,), lambda values: abs(np.sum(values)), permutation_type="samples", alternative="greater", n_resamples=np.inf)
    return done.pvalue


def apart(one, other):
    return abs(np.mean(one) - np.mean(other))


def permuted():
    done = stats.permutation_test((ONE, OTHER), apart, permutation_type="independent", alternative="greater", n_resamples=np.inf)
    return done.pvalue


def permuted_in_blocks():
    """scipy has no blocks: all assignments within them, one by one."""

    def assignments(test, control):
        values = [*test, *control]
        for chosen in itertools.combinations(range(len(values)), len(test)):
            rest = [values[at] for at in range(len(values)) if at not in chosen]
            yield np.mean([values[at] for at in chosen]) - np.mean(rest)

    seen = abs(np.mean([np.mean(test) - np.mean(control) for test, control in BLOCKS]))
    found = [abs(np.mean(both)) for both in itertools.product(*(assignments(*block) for block in BLOCKS))]
    return sum(value >= seen - 1e-12 for value in found) / len(found)


def shift():
    """Hodges and Lehmann: the median of the means of all pairs."""
    return float(np.median([(a + b) / 2 for a, b in itertools.combinations_with_replacement(DIFFERENCES, 2)]))


def interval(data, statistic):
    done = stats.bootstrap(data, statistic, method="percentile", n_resamples=200_000, batch=10_000, random_state=1)
    return done.confidence_interval


def times(pairs):
    """The effect in standard errors that a two-sided t test of this many pairs sees in four of five cases."""
    limit = stats.t.ppf(0.975, pairs - 1)
    return optimize.brentq(lambda effect: stats.nct.sf(limit, pairs - 1, effect) - 0.80, 1, 10)


of_pairs = interval((DIFFERENCES,), np.mean)
of_arms = interval((ONE, OTHER), lambda one, other, axis=-1: np.mean(one, axis=axis) - np.mean(other, axis=axis))
print(json.dumps({
    "flip": flipped(), "permute": permuted(), "permute.blocks": permuted_in_blocks(), "deviation": float(np.std(DIFFERENCES, ddof=1)),
    "median": float(np.median(DIFFERENCES)), "shift": shift(), "pairs.low": of_pairs.low, "pairs.high": of_pairs.high,
    "arms.low": of_arms.low, "arms.high": of_arms.high, "t.7": stats.t.ppf(0.975, 7), "t.4": stats.t.ppf(0.975, 4),
    "normal": stats.norm.ppf(0.975), **{f"power.{pairs}": times(pairs) for pairs in (6, 12, 24, 60)}}))
