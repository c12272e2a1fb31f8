"""Runs the client half of our command line."""

import json
import os
import subprocess

from peers.broker import forebay_binary
from peers.process import die_with_parent


def binary():
    """What is run: `TEST_CLI`, or the broker's binary."""
    return os.environ.get("TEST_CLI") or forebay_binary()


class Cli:
    """Runs `forebay NOUN VERB ..`; each with an empty directory of profiles."""

    def __init__(self, address, config):
        self.address = address
        self.config = config

    def run(self, *arguments, stdin=None, brokers=True):
        """What became of it, whatever that is."""
        target = ["--brokers", self.address] if brokers else []
        return subprocess.run(
            [binary(), *map(str, arguments), *target], input=stdin, capture_output=True, text=True, timeout=120,
            env={**os.environ, "XDG_CONFIG_HOME": str(self.config)}, preexec_fn=die_with_parent, check=False)

    def __call__(self, *arguments, **options):
        """What it printed; it must have succeeded."""
        done = self.run(*arguments, **options)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def json(self, *arguments, **options):
        return json.loads(self(*arguments, "--format", "json", **options))

    def lines(self, *arguments, **options):
        return [json.loads(line) for line in self(*arguments, "--format", "json", **options).splitlines()]

    def refusal(self, *arguments, **options):
        """What it said, on both streams; it must have failed."""
        done = self.run(*arguments, **options)
        assert done.returncode == 1, f"{arguments}: {done.returncode} {done.stdout}{done.stderr}"
        return done.stdout + done.stderr
