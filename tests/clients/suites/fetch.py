"""Brings other people's suites out of their registries into the user's cache. None of their files enters the project.

Each function returns a directory of its own below `cache()/suites`, named after what it holds, complete or absent.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from peers import kafka

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def home():
    return kafka.cache() / "suites"


def _ready(name, fill):
    """The directory `name`, filled once; an interrupted fill leaves nothing behind that looks whole."""
    place = home() / name
    if not (place / ".complete").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        fill(place)
        (place / ".complete").touch()
    return place


def _run(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, stdin=subprocess.DEVNULL, **options)


def _copy(source, place):
    shutil.copytree(source, place, symlinks=True)
    for folder, _, files in os.walk(place):
        for path in [Path(folder), *(Path(folder) / file for file in files)]:
            # The caches of Go and cargo are read-only, and a test program is built in here.
            path.chmod(path.stat().st_mode | 0o200)


def go_module(path):
    """A Go module in the version that the franz-go driver of the tests pins."""
    driver = ROOT / "tests/clients/go"
    done = _run("go", "list", "-m", "-json", path, cwd=driver, stdout=subprocess.PIPE, text=True)
    version = json.loads(done.stdout)["Version"]

    def fill(place):
        got = _run("go", "mod", "download", "-json", f"{path}@{version}", cwd=driver, stdout=subprocess.PIPE, text=True)
        _copy(json.loads(got.stdout)["Dir"], place)

    return _ready(f"{path.rsplit('/', 1)[1]}-{version}", fill)


def crate(name):
    """The source of a crate in the version that Cargo.lock pins."""
    # librdkafka is behind a feature.
    done = _run("cargo", "metadata", "--format-version", "1", "--locked", "--all-features", cwd=ROOT, stdout=subprocess.PIPE, text=True)
    found = next(package for package in json.loads(done.stdout)["packages"] if package["name"] == name)
    return _ready(f"{name}-{found['version']}", lambda place: _copy(Path(found["manifest_path"]).parent, place))


def source_package(name):
    """The source package of what tests/requirements.txt pins, unpacked."""
    pins = (ROOT / "tests/requirements.txt").read_text().splitlines()
    pinned = next(line for line in pins if line.startswith(f"{name}=="))

    def fill(place):
        packed = place / "packed"
        _run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", pinned, "-d", packed)
        with tarfile.open(next(packed.glob("*.tar.gz"))) as archive:
            archive.extractall(place, filter="data")
        shutil.rmtree(packed)
        (inner,) = [path for path in place.iterdir() if path.is_dir()]
        for path in inner.iterdir():
            path.rename(place / path.name)
        inner.rmdir()

    return _ready(pinned.replace("==", "-"), fill)


def python():
    """A Python with the packages of suites/requirements.txt: what looks at TLS, and clients of no other test."""
    pins = HERE / "requirements.txt"
    pinned = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()[:12]

    def fill(place):
        _run(sys.executable, "-m", "venv", place)
        _run(place / "bin/pip", "install", "-q", "-r", pins)

    return _ready(f"python-{pinned}", fill) / "bin/python"


def go_program(folder):
    """A Go program of the suites, built in the user's cache."""
    parts = sorted(path for path in folder.iterdir() if path.suffix in (".go", ".mod", ".sum"))
    pinned = hashlib.sha256(b"".join(path.read_bytes() for path in parts)).hexdigest()[:12]

    def fill(place):
        _run("go", "build", "-o", place / "program", ".", cwd=folder)

    return _ready(f"{folder.name}-{pinned}", fill) / "program"


def jars():
    """Kafka Streams with its test jar, Kafka Connect with its file connectors, MirrorMaker."""

    def fill(place):
        _run("mvn", "-q", "-B", "-Dstyle.color=never", "-f", HERE / "pom.xml", f"-Dkafka.version={kafka.VERSION}",
             "dependency:copy-dependencies", f"-DoutputDirectory={place}", stdout=sys.stderr)

    return _ready(f"java-{kafka.VERSION}", fill)
