"""Reports of made-up runs, drawn once, and a browser to look at them with."""

import subprocess
from pathlib import Path

import pytest

from bench.browser import Browser

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def reports():
    """A directory with a directory per sample: `report.html`, `run.json`, `cells.csv`."""
    directory = ROOT / "target" / "sample-reports"
    command = ["cargo", "run", "-q", "--locked", "-p", "forebay-bench", "--example", "sample_reports", "--", directory]
    subprocess.run(command, cwd=ROOT, check=True)
    return directory


@pytest.fixture(scope="session")
def browser():
    with Browser() as started:
        yield started
