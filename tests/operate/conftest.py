"""The package, the machine it is installed on, and what both need."""

import os
import subprocess
from pathlib import Path

import pytest

from operate import machine
from operate.machine import Machine
from operate.package import build
from peers.broker import forebay_binary


@pytest.fixture(scope="session")
def package(tmp_path_factory):
    """The Debian package: DEB names the one that the command of docs/install.md has made; else it is laid out from the same metadata."""
    named = os.environ.get("DEB")
    return Path(named) if named else build(forebay_binary(), tmp_path_factory.mktemp("package") / "forebay.deb")


@pytest.fixture(scope="session")
def later(package, tmp_path_factory):
    """The same package with a higher version."""
    home = tmp_path_factory.mktemp("later")
    subprocess.run(["dpkg-deb", "-R", package, home / "tree"], check=True)
    control = home / "tree/DEBIAN/control"
    lines = control.read_text().splitlines()
    version = next(line for line in lines if line.startswith("Version: "))
    control.write_text("\n".join(f"{line}+later" if line == version else line for line in lines) + "\n")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", home / "tree", home / "forebay_NEW.deb"], check=True)
    return home / "forebay_NEW.deb"


@pytest.fixture
def host():
    """A machine without the package, for one test."""
    missing = machine.missing()
    if missing:
        pytest.skip(missing)
    with Machine() as made:
        yield made


@pytest.fixture
def typed(host):
    """Types the commands of a section of a page, and says what they printed."""
    from operate import pages

    def type_all(page, heading, leave_out=(), cwd="~"):
        printed = []
        for command in pages.commands(page, heading):
            if not command.startswith(tuple(leave_out) or ("\0",)):
                printed.append(host.type(command, cwd=cwd))
        return "".join(printed)

    return type_all
