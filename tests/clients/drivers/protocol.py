"""What a driver is: a program that does what the tests ask through one client library.

A test writes one JSON object per line (`{"op": .., arguments}`) to the driver's standard input and reads one line back:
`{"ok": result}` or `{"error": text}`. The op `member` is different: from then on the driver is a group member, writes an
`{"event": ..}` line for everything that happens, and leaves the group when its input ends.

The environment may name a login (DRIVER_SECURITY, see `security`): the address is then that of a listener of SASL_SSL.

Record values are not sent over: both sides derive them from a seed and a size, and a consumer reports the SHA-256.
"""

import hashlib
import json
import os
import sys
import threading

UNIT_BLOCKS = 4096


def payload(seed, size):
    """The value of a record: hex digests of "seed:i", repeated after 256 KiB, cut to size. None stays None."""
    if size is None:
        return None
    blocks = min(UNIT_BLOCKS, -(-size // 64))
    unit = "".join(hashlib.sha256(f"{seed}:{i}".encode()).hexdigest() for i in range(blocks)).encode()
    return (unit * (size // max(len(unit), 1) + 1))[:size]


def security():
    """The file of the trusted certificate, user, password and mechanism of a listener of SASL_SSL; empty for one without."""
    return json.loads(os.environ.get("DRIVER_SECURITY") or "{}")


def text(raw):
    return None if raw is None else bytes(raw).decode()


def described(partition, offset, key, value, headers, timestamp):
    """A consumed record as the tests compare it."""
    return {
        "partition": partition,
        "offset": offset,
        "key": text(key),
        "size": None if value is None else len(value),
        "sha256": None if value is None else hashlib.sha256(value).hexdigest(),
        "headers": [[name, text(content)] for name, content in headers or []],
        "timestamp": timestamp,
    }


_out = threading.Lock()


def say(line):
    with _out:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def event(kind, **fields):
    say({"event": kind, **fields})


def serve(driver):
    """Answers ops until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        op = request.pop("op")
        try:
            if op == "member":
                driver.member(threading_end(), **request)
                return
            say({"ok": getattr(driver, op)(**request)})
        except Exception as error:  # noqa: BLE001 (whatever it is, the test has to see it)
            say({"error": f"{type(error).__name__}: {error}"})


def threading_end():
    """An event that is set when the input ends: the test asks the member to leave."""
    ended = threading.Event()

    def watch():
        while sys.stdin.readline():
            pass
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    return ended
