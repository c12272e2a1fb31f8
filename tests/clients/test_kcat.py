"""kcat, as a user runs it."""

import json
import shutil
import subprocess

import pytest

from clients.client import CODECS


@pytest.fixture(scope="session")
def kcat(broker):
    program = shutil.which("kcat") or shutil.which("kafkacat")
    assert program, "kcat is missing: install it (Debian, Ubuntu: apt install kcat)"

    def run(*args, stdin=None):
        done = subprocess.run(
            [program, "-b", broker.address, *map(str, args)], input=stdin, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    return run


@pytest.mark.parametrize("codec", CODECS)
def test_produce_and_consume(kcat, topic, codec):
    lines = [f"k{i}:value {i} {'z' * i}" for i in range(300)]
    kcat("-P", "-t", topic, "-p", 0, "-K:", "-z", codec, stdin="\n".join(lines).encode())
    read = kcat("-C", "-t", topic, "-p", 0, "-o", "beginning", "-e", "-q", "-K:").decode()
    assert read.splitlines() == lines
    last = kcat("-C", "-t", topic, "-p", 0, "-o", -1, "-e", "-q", "-f", "%o %k %S\n").decode()
    assert last == f"299 k299 {len('value 299 ') + 299}\n"


def test_metadata(kcat, topic):
    listed = json.loads(kcat("-L", "-J", "-t", topic))
    (found,) = listed["topics"]
    assert found["topic"] == topic
    assert [(p["partition"], p["leader"], p["replicas"], p["isrs"]) for p in found["partitions"]] == [
        (p, 1, [{"id": 1}], [{"id": 1}]) for p in range(2)]
    assert listed["controllerid"] == 1


def test_group(kcat, topic, name):
    """A balanced consumer reads everything once and resumes after it."""
    kcat("-P", "-t", topic, stdin=b"\n".join(b"m%d" % i for i in range(100)))

    def read():
        return sorted(kcat("-G", f"group-{name}", "-e", "-q", "-X", "auto.offset.reset=earliest", topic).decode().split())

    assert read() == sorted(f"m{i}" for i in range(100))
    kcat("-P", "-t", topic, stdin=b"more")
    assert read() == ["more"]


def test_offset_for_time(kcat, topic):
    kcat("-P", "-t", topic, "-p", 0, stdin=b"a\nb")
    assert f"{topic} [0] offset 0" in kcat("-Q", "-t", f"{topic}:0:1").decode()
    assert f"{topic} [0] offset 2" in kcat("-Q", "-t", f"{topic}:0:-1").decode()
