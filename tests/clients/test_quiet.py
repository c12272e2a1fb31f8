"""Clients have nothing to say about the broker: what they print on their own is a warning to whoever runs them.

With `--target kafka` the same programs are as silent once its coordinator of transactions is loaded, which shows what to expect.
"""

import re
import shutil
import subprocess
import sys

from clients.client import HERE


# librdkafka ends its background thread by a flag and an event behind it. If the thread sees the flag first, it counts the event and
# says so: an admin client that is closed does this now and then, whatever the broker did.
OF_ITS_OWN_END = re.compile(r"%6\|[\d.]+\|BGQUEUE\|.*: Purging 1 unserved events from background queue\n")


def said(*argv, stdin=None):
    done = subprocess.run(list(map(str, argv)), input=stdin, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return OF_ITS_OWN_END.sub("", done.stderr.decode())


def test_librdkafka_prints_nothing(request, broker, name):
    program = [sys.executable, HERE / "drivers/plain.py", broker.address]
    first = said(*program, f"quiet-{name}")
    # A Kafka that has just started has producers ask again, with a line each time, until it can give them their ids.
    assert first == "" or request.config.getoption("--target") == "kafka"
    assert said(*program, f"quiet-{name}-again") == ""


def test_kcat_prints_nothing(broker, topic):
    kcat = shutil.which("kcat") or shutil.which("kafkacat")
    assert kcat, "kcat is missing: install it (Debian, Ubuntu: apt install kcat)"
    assert said(kcat, "-b", broker.address, "-P", "-t", topic, stdin=b"a\nb\n") == ""
    assert said(kcat, "-b", broker.address, "-C", "-t", topic, "-e", "-q") == ""
