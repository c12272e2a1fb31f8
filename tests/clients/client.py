"""One real client as the tests see it: a driver process that answers ops (drivers/protocol.py says which)."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from clients.drivers.protocol import payload
from peers.process import die_with_parent

HERE = Path(__file__).resolve().parent

COMMANDS = {
    "librdkafka": [sys.executable, HERE / "drivers/librdkafka.py"],
    "kafkapython": [sys.executable, HERE / "drivers/kafkapython.py"],
    "franzgo": [os.environ.get("FRANZGO_DRIVER", HERE / "go/clients")],
    "kafkajs": ["node", HERE / "node/driver.js"],
}
CLIENTS = list(COMMANDS)
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
ANSWER_SECONDS = 120
# How long a coordinator may be loading or moving: the protocol says to ask again, not every admin client does.
COORDINATOR_SECONDS = 60


class ClientError(AssertionError):
    """The client library refused or failed; the message is its own."""


class Client:
    """Calls are ops: `client.produce(topic=.., records=..)`."""

    def __init__(self, name, address, environment=None):
        self.name = name
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [*map(str, COMMANDS[name]), address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            text=True, preexec_fn=die_with_parent, env={**os.environ, **(environment or {})},
        )
        self.lines = queue.Queue()
        self.events = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def _next(self, seconds):
        try:
            line = self.lines.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"{self.name} said nothing for {seconds:.0f} s; {self.stderr()}") from None
        if line is None:
            raise ClientError(f"{self.name} ended: {self.stderr()}")
        return line

    def stderr(self):
        self.errors.seek(0)
        return self.errors.read()[-2000:]

    def _send(self, op, **arguments):
        self.process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
        self.process.stdin.flush()

    def __getattr__(self, op):
        if op.startswith("_"):
            raise AttributeError(op)

        def call(**arguments):
            deadline = time.monotonic() + COORDINATOR_SECONDS
            while True:
                self._send(op, **arguments)
                answer = self._next(ANSWER_SECONDS)
                if "error" not in answer:
                    return answer["ok"]
                moving = "group" in op and any(word in answer["error"].lower() for word in ("coordinator", "timeout"))
                if not moving or time.monotonic() > deadline:
                    raise ClientError(f"{self.name} {op}: {answer['error']}")

        return call

    # As a group member

    def become_member(self, session_ms=3000, **arguments):
        self._send("member", session_ms=session_ms, **arguments)

    def collect(self, until, what, seconds=60):
        """Takes events in until `until(self)` holds."""
        deadline = time.monotonic() + seconds
        while True:
            ended = False
            while not (self.lines.empty() or ended):
                line = self.lines.get()
                ended = line is None
                if not ended:
                    self._take(line)
            if until(self):
                return self
            if ended:
                raise ClientError(f"{self.name} ended: {self.stderr()}")
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{self.name}: waited {seconds} s for {what}; got {self.summary()}; {self.stderr()}")
            try:
                self._take(self._next(min(left, 0.05)))
            except TimeoutError:
                continue

    def _take(self, line):
        # An answer instead of an event: what it does as a member has failed.
        failed = line.get("error") or (line.get("event") == "error" and line["text"])
        if failed:
            raise ClientError(f"{self.name}: {failed}")
        self.events.append(line)

    @property
    def assigned(self):
        return next((e["partitions"] for e in reversed(self.events) if e["event"] == "assigned"), [])

    @property
    def records(self):
        return [e for e in self.events if e["event"] == "record"]

    @property
    def committed(self):
        return {(e["partition"], e["offset"] - 1) for e in self.events if e["event"] == "committed"}

    def summary(self):
        return f"assigned {self.assigned}, {len(self.records)} records, {len(self.committed)} commits"

    def leave(self):
        """Leaves the group as the library does it, and waits for the end."""
        self.process.stdin.close()
        self.collect(lambda me: any(e["event"] == "left" for e in me.events), "leaving")
        self.process.wait(30)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()


def record(partition, seed, size, key=None, headers=(), timestamp=None):
    """A record to produce."""
    return {"partition": partition, "seed": seed, "size": size, "key": key, "headers": list(headers), "timestamp": timestamp}


def content(wanted):
    """What of a produced record must come back: everything but where it is and when it was stamped."""
    from hashlib import sha256

    value = payload(wanted["seed"], wanted["size"])
    return {
        "partition": wanted["partition"], "key": wanted["key"], "size": wanted["size"],
        "sha256": None if value is None else sha256(value).hexdigest(), "headers": [list(pair) for pair in wanted["headers"]],
    }


def assert_same(consumed, produced, offsets):
    """The consumed records are the produced ones, in order, at their offsets."""
    assert [r["offset"] for r in consumed] == list(offsets)
    for got, wanted in zip(consumed, produced, strict=True):
        expected = content(wanted)
        assert {field: got[field] for field in expected} == expected
        if wanted["timestamp"] is not None:
            assert got["timestamp"] == wanted["timestamp"]
