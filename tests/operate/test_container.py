"""What the Dockerfile makes, without a container engine: the static program in an otherwise empty root directory, with the user, the
environment, the command and the health check that the file names.

STATIC_BROKER names the program; `./test operate` builds it as the Dockerfile does, without `dist`'s optimisation.
"""

import json
import os
import re
import shutil
import subprocess

import pytest

from operate.machine import ROOT
from peers.process import Process, wait_until

DOCKERFILE = (ROOT / "deploy/docker/Dockerfile").read_text()
BROKER = os.environ.get("STATIC_BROKER")

pytestmark = [
    pytest.mark.skipif(not BROKER, reason="STATIC_BROKER names no program"),
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
]


def instruction(name):
    """The arguments of the last instruction of this name."""
    joined = DOCKERFILE.replace("\\\n", " ")
    return re.findall(rf"^{name} (.*)$", joined, re.MULTILINE)[-1]


def test_the_program_needs_no_library():
    said = subprocess.run(["readelf", "-d", BROKER], capture_output=True, text=True, check=True).stdout
    assert "NEEDED" not in said, said
    headers = subprocess.run(["readelf", "-l", BROKER], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in headers, headers


@pytest.fixture
def container(tmp_path):
    """The process, running, and how to run another one beside it."""
    root = tmp_path / "root"
    for directory in ("usr/bin", "proc", "etc", "dev", "var/lib/forebay/data"):
        (root / directory).mkdir(parents=True)
    shutil.copy(BROKER, root / "usr/bin/forebay")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    user = instruction("USER")
    for path in (root / "var/lib/forebay", root / "var/lib/forebay/data"):
        os.chown(path, *map(int, user.split(":")))
    environment = [pair for pair in instruction("ENV").split()]
    inside = [shutil.which("chroot"), f"--userspec={user}", root, "/usr/bin/forebay"]
    # pytest's own directories are closed to other users, whose root this is not.
    for path in (root, *list(root.parents)[:3]):
        path.chmod(0o755)
    told = tmp_path / "first"
    begin = f"read -r number _ < /proc/self/stat && echo $number > {told} && mount -t proc proc {root}/proc && ip link set lo up && cd {root} && exec env -i {' '.join(environment)}"
    command = " ".join(map(str, [*inside, *json.loads(instruction("ENTRYPOINT"))[1:]]))
    started = Process(["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "bash", "-c", f"{begin} {command}"],
                      tmp_path / "log")

    def beside(*arguments):
        return subprocess.run(["nsenter", "--target", told.read_text().strip(), "--mount", "--net", "--pid", *map(str, inside), *arguments],
                              capture_output=True, text=True, timeout=60, check=False)

    try:
        wait_until(lambda: told.exists() and told.read_text().strip(), "the process")
        yield started, beside
    finally:
        started.kill()


def test_it_serves_as_the_dockerfile_has_it(container):
    started, beside = container
    health = json.loads(instruction("HEALTHCHECK").split(" CMD ")[1])

    def is_healthy():
        assert started.alive(), started.tail()
        return beside(*health[1:]).returncode == 0

    wait_until(is_healthy, "the health check", 60, every=0.3)
    # By name: the C library in the program finds names without plugins.
    made = beside("topic", "create", "orders", "-b", "localhost:9092")
    assert made.returncode == 0, made.stderr
    assert '"ready"' in started.tail(200), started.tail()
