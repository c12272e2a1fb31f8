"""The figures that the tests of the statistics expect are scipy's, asked anew; and verdicts on fleets against scipy's own.

SCIPY names a Python that has scipy; without it these tests are skipped.
"""

import json
import os
import random
import subprocess
from math import log1p
from pathlib import Path
from statistics import fmean

import pytest
from test_tune import ROOT, tune

SCIPY = os.environ.get("SCIPY")
# What is written in the file, and how much scipy's figure may differ: intervals are drawn.
EXPECTED = {
    "flip": ("0.039_062_5", 1e-12), "permute": ("0.006_493_506_493_506_494", 1e-12), "permute.blocks": ("2.0 / 36.0", 1e-12),
    "deviation": ("0.831_414_457_415_794_6", 1e-12), "median": ("0.85", 1e-12), "shift": ("0.825", 1e-12), "pairs.low": ("0.30", 0.02),
    "pairs.high": ("1.375", 0.02), "arms.low": ("1.5566", 0.05), "arms.high": ("4.5733", 0.05), "t.7": ("2.364_624_251_592_784", 1e-12),
    "t.4": ("2.776_445_105_197_793", 1e-12), "normal": ("1.959_963_984_540_054", 1e-12), "power.6": ("3.5139", 1e-4),
    "power.12": ("3.0784", 1e-4), "power.24": ("2.9256", 1e-4), "power.60": ("2.8482", 1e-4)}

pytestmark = pytest.mark.skipif(not SCIPY, reason="SCIPY names no Python that has scipy")


def ask(script):
    return json.loads(subprocess.run([SCIPY, *script], capture_output=True, text=True, check=True).stdout)


def value(text):
    over, _, under = text.replace("_", "").partition(" / ")
    return float(over) / float(under or 1)


def test_figures_of_the_tests_are_scipys():
    found = ask([str(Path(__file__).parent / "scipy_figures.py")])
    assert set(found) == set(EXPECTED)
    expects = (ROOT / "crates/host/src/statistics/tests.rs").read_text()
    for name, (text, within) in EXPECTED.items():
        assert text in expects, name
        assert abs(found[name] - value(text)) <= within, (name, found[name], text)


BY_SCIPY = """
import json, sys
import numpy as np
from scipy import stats
test, control = json.loads(sys.argv[1])
done = stats.permutation_test(
    (test, control), lambda one, other: abs(np.mean(one) - np.mean(other)), alternative="greater", n_resamples=np.inf)
print(json.dumps(done.pvalue))
"""


@pytest.mark.parametrize("seed", range(4))
def test_the_probability_of_a_fleet_is_scipys(tmp_path, seed):
    """Twelve hosts of one site: all 924 assignments are counted."""
    chance = random.Random(seed)
    hosts = {f"edge-{number}": {"site": "one"} for number in range(12)}
    inventory, arms, days = tmp_path / "hosts.json", tmp_path / "arms.json", tmp_path / "days.json"
    inventory.write_text(json.dumps({"_meta": {"hostvars": hosts}}))
    tune("fleet", "assign", inventory, "--block-by", "site", "--seed", seed, "-o", arms, check=0)
    of = json.loads(arms.read_text())["hosts"]
    times = {"test": 1 - 0.2 * seed, "control": 1.0}
    numbers = {
        name: {"before": [chance.randint(80, 120) for _ in range(5)],
               "after": [round(chance.randint(80, 120) * times[one["arm"]]) for _ in range(5)]}
        for name, one in of.items()}
    days.write_text(json.dumps(numbers))
    said = tune("--format", "json", "fleet", "compare", arms, days)
    compared = json.loads(said.stdout)["compared"]
    # What counts is how much a host changed, by the logarithm of one more than it dropped.
    changed = {name: fmean(map(log1p, one["after"])) - fmean(map(log1p, one["before"])) for name, one in numbers.items()}
    both = [[changed[name] for name, one in of.items() if one["arm"] == arm] for arm in ("test", "control")]
    assert abs(compared["p"] - ask(["-c", BY_SCIPY, json.dumps(both)])) < 1e-9
