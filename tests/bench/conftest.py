"""Reports of made-up runs, drawn once, and a browser to look at them with."""

import os
import subprocess
from pathlib import Path

import pytest

from bench.browser import Browser

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def reports():
    """A directory with a directory per sample: `report.html`, `run.json`, `cells.csv`."""
    directory = ROOT / "target" / "sample-reports"
    # The program that the gate has built, if it has.
    built = os.environ.get("SAMPLE_REPORTS")
    program = [built] if built else ["cargo", "run", "-q", "--locked", "-p", "forebay-bench", "--example", "sample_reports", "--"]
    subprocess.run([*program, directory], cwd=ROOT, check=True)
    return directory


@pytest.fixture(scope="session")
def browser():
    with Browser() as started:
        yield started
