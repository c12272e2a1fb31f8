"""A Prometheus that scrapes brokers of a test, with the rules that are shipped; `./test` fetches it (run.py)."""

import json
import os
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from peers import kafka
from peers.process import Process, free_port, wait_until

RULES = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "forebay.rules.yml"
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def find():
    """The program, or None."""
    named = os.environ.get("PROMTOOL")
    places = [Path(named).with_name("prometheus")] if named else []
    places += [Path(found) for found in [shutil.which("prometheus")] if found]
    places += [kafka.cache() / "promtool/usr/bin/prometheus"]
    return next((path for path in places if path.exists()), None)


def hurried(rules, by=60, least=5):
    """The rules with every duration divided, so that a test sees in seconds what an operator sees in minutes. Windows keep what
    it takes to hold a few scrapes."""
    def shorter(found, least):
        return max(least, int(found[2]) * SECONDS[found[3]] // by)

    rules = re.sub(r"(for: )(\d+)([smhd])\b", lambda found: f"{found[1]}{shorter(found, 1)}s", rules)
    return re.sub(r"(\[)(\d+)([smhd])\]", lambda found: f"{found[1]}{shorter(found, least)}s]", rules)


class Prometheus:
    """Running from `__enter__` on; `targets` are addresses of admin endpoints."""

    def __init__(self, home, targets, rules=None, interval="1s"):
        self.home = Path(home)
        self.port = free_port()
        (self.home / "rules.yml").write_text(rules if rules is not None else hurried(RULES.read_text()))
        (self.home / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
            "rule_files": [str(self.home / "rules.yml")],
            "scrape_configs": [{"job_name": "forebay", "static_configs": [{"targets": list(targets)}]}],
        }))

    def __enter__(self):
        program = find()
        assert program, "Prometheus is missing: ./test fetches it, or name promtool beside it in PROMTOOL"
        self.process = Process(
            [program, f"--config.file={self.home / 'prometheus.yml'}", f"--storage.tsdb.path={self.home / 'series'}",
             f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"], self.home / "prometheus.log")
        self.process.wait_for_port(self.port)
        wait_until(self._is_ready, "Prometheus to read what it has", 60, every=0.1)
        return self

    def _is_ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=10):
                return True
        except urllib.error.HTTPError:
            return False

    def __exit__(self, *_):
        self.process.kill()

    def ask(self, path, **parameters):
        address = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(address, timeout=20) as answer:
            return json.load(answer)["data"]

    def query(self, expression, at=None):
        return self.ask("query", query=expression, **({"time": at} if at else {}))["result"]

    def range(self, expression, begin, end, step):
        return self.ask("query_range", query=expression, start=begin, end=end, step=step)["result"]

    def firing(self):
        """The labels of all alerts that fire."""
        return [alert["labels"] for alert in self.ask("alerts")["alerts"] if alert["state"] == "firing"]

    def wait_for(self, name, seconds=60, **labels):
        """Waits for an alert to fire; returns its labels."""
        def found():
            assert self.process.alive(), self.process.tail()
            return next((has for has in self.firing() if has["alertname"] == name and labels.items() <= has.items()), None)

        return wait_until(found, f"the alert {name}", seconds, every=0.5)
