"""The Debian package, laid out by dpkg-deb from the same metadata that cargo-deb reads (crates/server/Cargo.toml).

For machines without cargo-deb: files, scripts, settings files and fields are those of the metadata; the compiled program is given.
"""

import gzip
import shutil
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CRATE = ROOT / "crates" / "server"
PROGRAM = "target/release/"
# cargo-deb's, unless the metadata say another.
REVISION = "1"


def build(program, into):
    """Makes the package `into` with this program."""
    manifest = tomllib.loads((CRATE / "Cargo.toml").read_text())["package"]["metadata"]["deb"]
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    tree = into.parent / f"{into.stem}-tree"
    (tree / "DEBIAN").mkdir(parents=True)
    for source, target, mode in manifest["assets"]:
        place(tree, [program] if source.startswith(PROGRAM) else sorted(CRATE.glob(source)), source, target, int(mode, 8))
    subprocess.run(["strip", "--strip-debug", tree / "usr/bin/forebay"], check=True)
    papers = tree / "usr/share/doc" / manifest["name"]
    (papers / "copyright").write_text(f"Copyright: {manifest['copyright']}\n\n{(CRATE / manifest['license-file'][0]).read_text()}")
    (papers / "changelog.Debian.gz").write_bytes(gzip.compress((CRATE / manifest["changelog"]).read_bytes(), 9, mtime=0))
    for script in (CRATE / manifest["maintainer-scripts"]).iterdir():
        shutil.copy(script, tree / "DEBIAN" / script.name)
        (tree / "DEBIAN" / script.name).chmod(0o755)
    (tree / "DEBIAN/conffiles").write_text("".join(f"{path}\n" for path in manifest["conf-files"]))
    # What `$auto` finds in the program: the C library.
    depends = manifest["depends"].replace("$auto", "libc6, libgcc-s1")
    description = "\n".join(f" {line}" for line in manifest["extended-description"].splitlines())
    (tree / "DEBIAN/control").write_text(
        f"Package: {manifest['name']}\nVersion: {version}-{REVISION}\nArchitecture: {architecture()}\nMaintainer: {manifest['maintainer']}\n"
        f"Section: {manifest['section']}\nPriority: {manifest['priority']}\nDepends: {depends}\n"
        f"Description: A broker that speaks the Apache Kafka protocol\n{description}\n")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", tree, into], check=True)
    shutil.rmtree(tree)
    return into


def place(tree, sources, named, target, mode):
    assert sources, f"{named} names no file"
    for source in sources:
        path = tree / target / Path(source).name if target.endswith("/") else tree / target
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, path)
        path.chmod(mode)


def architecture():
    return subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
