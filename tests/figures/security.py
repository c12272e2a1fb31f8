"""What security costs: TLS beside plain text and beside Kafka's TLS, handshakes, logins, rights, and our commands beside kcat.

    python3 tests/figures/security.py [--rounds 3] [--gib 2] [--seconds 5] [--small] [--only NAME] [--no-kafka] [--old BINARY]

Wants a quiet machine, a release build, and the examples of it:

    cargo build --release --locked -p forebay-server && cargo build --release --locked -p forebay-wire --example acl_index

Both brokers run at the same time and idle in turn; every measurement is taken on one and at once on the other. `--small` is a look at
whether all of it runs. Prints tables of medians with the lowest and highest round.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, NewTopic, ResourcePatternType, ResourceType  # noqa: E402

from figures.compare import cpu_seconds, resident_mib, spread  # noqa: E402
from peers import kafka, rawwire  # noqa: E402
from peers.broker import ROOT, Forebay, forebay_binary  # noqa: E402
from peers.process import die_with_parent  # noqa: E402
from peers.rights import MODULE  # noqa: E402
from peers.sasl import Login  # noqa: E402
from peers.secured import Secured  # noqa: E402

RECORD = 240_000
TOPICS, ACLS = 5000, 10_000


def bench(*arguments, seconds=900):
    done = subprocess.run([forebay_binary(), "bench", *map(str, arguments)], capture_output=True, text=True, timeout=seconds, check=False,
                          preexec_fn=die_with_parent)
    if done.returncode != 0:
        raise RuntimeError(f"{arguments}: {done.stdout}{done.stderr}")
    return done.stdout


class Side:
    """A broker with a listener without TLS, one of TLS, and one with a login, and files for clients of each."""

    def __init__(self, broker, home, kind="ec"):
        self.broker, self.home = broker, home
        self.secured = Secured(broker, home / "keys")
        self.secured.pem = self.secured.keys.issue("server", "/CN=server/O=Example", kind=kind)
        broker.start()
        self.secured.open()

    def file(self, name, **settings):
        file = self.home / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        file.chmod(0o600)
        return file

    def tls(self, version=None):
        more = {"ssl.enabled.protocols": version} if version else {}
        return self.secured.tls, self.file("tls", **{
            "security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": self.secured.keys.ca, **more})

    def plain(self):
        return self.broker.address, None

    def login(self, mechanism):
        self.secured.mechanism = mechanism
        return self.secured.login, self.file(mechanism, **self.secured.java(address=False))


def load(side, way, topic, bytes_, consume):
    """Rate and processor time of the broker per GB, writing (synced where the broker does that), or reading what was written."""
    address, file = way
    outcome = side.home / "outcome.json"
    arguments = ["load", "--bootstrap", address, "--topic", topic, "--existing", "--seconds", 600, "--json", outcome]
    arguments += ["--command-config", file] if file else []
    if consume:
        arguments += ["--producers", 0, "--consumers", 1, "--from", "earliest", "--bytes", bytes_]
    else:
        arguments += ["--producers", 1, "--record", RECORD, "--batch", "1MB", "--acks", "all", "--in-flight", 5, "--bytes", bytes_]
    before = cpu_seconds(side.broker.process.pid)
    bench(*arguments)
    cpu = cpu_seconds(side.broker.process.pid) - before
    seen = json.loads(outcome.read_text())
    part = seen["consume" if consume else "produce"]
    return {"GB/s": part["bytes"] / seen["seconds"] / 1e9, "broker CPU-s/GB": cpu / (part["bytes"] / 1e9)}


def throughput(sides, options):
    """TLS beside plain text, on each broker."""
    bytes_ = int(options.gib * (1 << 30))
    print("\n| what | unit | Forebay | Apache Kafka |\n|---|---|---|---|")
    for side in sides.values():
        for way in ("plain", "tls"):
            kafka.run("topics", "--bootstrap-server", side.broker.address, "--create", "--topic", f"{way}-{RECORD}", "--partitions", 1)
    for consume in (False, True):
        found = {(name, way): [] for name in sides for way in ("plain", "tls")}
        for index in range(options.rounds + 1):
            for name, side in sides.items():
                for way in ("plain", "tls"):
                    seen = load(side, getattr(side, way)(), f"{way}-{RECORD}", bytes_, consume)
                    # The first round warms up.
                    if index > 0:
                        found[name, way].append(seen)
        what = f"{'consume' if consume else 'produce'} {RECORD // 1000} KB"
        for unit in ("GB/s", "broker CPU-s/GB"):
            for way in ("plain", "tls"):
                cells = [spread([one[unit] for one in found[name, way]]) for name in sides]
                print(f"| {what}, {way} | {unit} | {' | '.join(cells)} |", flush=True)
        ratio = {name: [t["GB/s"] / p["GB/s"] for t, p in zip(found[name, "tls"], found[name, "plain"])] for name in sides}
        print(f"| {what}, TLS to plain text | ratio | {' | '.join(spread(ratio[name]) for name in sides)} |", flush=True)
        extra = {name: [t["broker CPU-s/GB"] - p["broker CPU-s/GB"] for t, p in zip(found[name, "tls"], found[name, "plain"])]
                 for name in sides}
        print(f"| {what}, what TLS adds | CPU-s/GB | {' | '.join(spread(extra[name]) for name in sides)} |", flush=True)
        if len(sides) == 2:
            ours, theirs = (found[name, "tls"] for name in sides)
            print(f"| {what}, TLS beside Kafka's | ratio | {spread([a['GB/s'] / b['GB/s'] for a, b in zip(ours, theirs)])} | 1 |", flush=True)


def shaken(side, way, options, *flags):
    address, file = way
    outcome = side.home / "handshakes.json"
    before = cpu_seconds(side.broker.process.pid)
    arguments = ["--command-config", file] if file else []
    bench("handshakes", "--bootstrap", address, *arguments, "--seconds", options.seconds, "--connections", 16, "--json", outcome, *flags)
    cpu = cpu_seconds(side.broker.process.pid) - before
    seen = json.loads(outcome.read_text())
    assert seen["errors"] == {}, seen["errors"]
    count = seen["handshakes"]
    return {"per second": seen["per_second"], "p99 ms": seen["p99_us"] / 1000, "broker CPU-us each": cpu / count * 1e6,
            "of a core of the broker": count / cpu if cpu else 0}


def told(what, seen):
    for unit in seen[0][0]:
        print(f"| {what} | {unit} | {' | '.join(spread([one[unit] for one in of_side]) for of_side in seen)} |", flush=True)


def handshakes(make, sides, options):
    """Full handshakes and resumed ones; then logins, whose cost is what they take beyond a connection without one."""
    print("\n| what | unit | Forebay | Apache Kafka |\n|---|---|---|---|")
    for version in ("TLSv1.3", "TLSv1.2"):
        for what, flags in (("full", []), ("resumed", ["--resume"])):
            seen = [[shaken(side, side.tls(version), options, *flags) for _ in range(options.rounds)] for side in sides.values()]
            told(f"handshakes {version}, P-256, {what}", seen)
    rsa = {name: Side(make(name, "rsa"), options.home / f"{name}-rsa", kind="rsa") for name in sides}
    seen = [[shaken(side, side.tls("TLSv1.3"), options) for _ in range(options.rounds)] for side in rsa.values()]
    told("handshakes TLSv1.3, RSA-2048, full", seen)
    for side in rsa.values():
        side.broker.end()
    alone = [[shaken(side, side.tls(), options) for _ in range(options.rounds)] for side in sides.values()]
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"):
        seen = [[shaken(side, side.login(mechanism), options) for _ in range(options.rounds)] for side in sides.values()]
        extra = [[{"broker CPU-us each": one["broker CPU-us each"] - base["broker CPU-us each"]} for one, base in zip(of, bases)]
                 for of, bases in zip(seen, alone)]
        told(f"login {mechanism}, beyond its handshake", extra)


def verdicts(options):
    """A verdict of the index by itself, from the example of the crate."""
    example = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/examples/acl_index"
    if not example.exists():
        print(f"\n(no verdicts by themselves: {example} is not built)")
        return
    print("\n" + subprocess.run([example], capture_output=True, text=True, check=True, timeout=600).stdout)


class Rights:
    """A broker with many topics and ACLs, and a user who may see half of the topics."""

    def __init__(self, make, options):
        self.broker = make("forebay", "rights")
        self.secured = Secured(self.broker, options.home / "rights/keys", "PLAIN")
        plain = self.broker.properties
        port = self.secured.ports["LOGIN"]
        plain["listener.security.protocol.map"] = plain["listener.security.protocol.map"].replace("LOGIN:SASL_SSL", "LOGIN:SASL_PLAINTEXT")
        plain["listener.name.login.plain.sasl.jaas.config"] = f'{MODULE.format("plain.Plain")} user_ada="pencil" user_suite="x";'
        self.port = port
        self.broker.start()

    def fill(self, topics, acls):
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        for begin in range(0, topics, 500):
            made = admin.create_topics([NewTopic(f"topic-{number}", 1, 1) for number in range(begin, min(begin + 500, topics))])
            for one in made.values():
                one.result(120)
        for begin in range(0, acls, 1000):
            rights = [AclBinding(ResourceType.TOPIC, f"topic-{number}", ResourcePatternType.LITERAL,
                                 "User:ada" if number % 2 == 0 else f"User:u{number}", "*", AclOperation.READ, AclPermissionType.ALLOW)
                      for number in range(begin, min(begin + 1000, acls))]
            for one in admin.create_acls(rights).values():
                one.result(120)

    def metadata(self, user):
        """Asks for all topics, as a user who logs in or, without a name, as a super user; returns the times, and how many bytes came."""
        if user:
            connection = Login(self.port, "PLAIN")
            code, _ = connection.ask(f"\0{user}\0pencil".encode())
            assert code == 0, code
        else:
            connection = rawwire.Connection(self.broker.port)
        times, size = [], 0
        with connection:
            for _ in range(20):
                begun = time.perf_counter()
                size = len(connection.request(rawwire.METADATA, 1, b"\xff\xff\xff\xff"))
                times.append((time.perf_counter() - begun) * 1000)
        return times, size


def metadata(make, options):
    """Metadata of all topics with many ACLs, and what others feel meanwhile."""
    topics, acls = (200, 500) if options.small else (TOPICS, ACLS)
    rights = Rights(make, options)
    try:
        rights.fill(topics, acls)
        print(f"\n| Metadata of {topics} topics, {acls} ACLs | ms | bytes |\n|---|---|---|")
        for who, user in (("a super user", None), ("a user who may see half of them", "ada")):
            times, size = rights.metadata(user)
            print(f"| {who} | {spread(times)} | {size} |", flush=True)
        waits, stop = [], threading.Event()

        def ping():
            with rawwire.Connection(rights.broker.port) as other:
                while not stop.is_set():
                    begun = time.perf_counter()
                    other.request(rawwire.API_VERSIONS, 0, b"")
                    waits.append((time.perf_counter() - begun) * 1000)
                    time.sleep(0.001)

        pinging = threading.Thread(target=ping)
        pinging.start()
        for _ in range(5):
            rights.metadata("ada")
        stop.set()
        pinging.join()
        cuts = statistics.quantiles(waits, n=1000)
        print(f"| ApiVersions of another client beside it: median, 99 %, longest of {len(waits)} | "
              f"{statistics.median(waits):.2f}, {cuts[989]:.2f}, {max(waits):.2f} | |", flush=True)
    finally:
        rights.broker.end()


def memory(sides, options):
    """What an idle connection of TLS takes."""
    count = 100 if options.small else 1000
    print("\n| idle connections of TLS | KiB each |\n|---|---|")
    for name, side in sides.items():
        context = ssl.create_default_context(cafile=side.secured.keys.ca)
        host, port = side.secured.tls.split(":")
        before, held = resident_mib(side.broker.process.pid), []
        for _ in range(count):
            plain = socket.create_connection((host, int(port)), timeout=20)
            held.append(context.wrap_socket(plain, server_hostname=host))
        time.sleep(1)
        print(f"| {name}, {count} | {(resident_mib(side.broker.process.pid) - before) * 1024 / count:.1f} |", flush=True)
        for one in held:
            one.close()


def timed(command, stdin=None, environment=None):
    begun = time.monotonic()
    with open(os.devnull, "wb") as nowhere:
        done = subprocess.run([str(part) for part in command], stdin=stdin, stdout=nowhere, stderr=subprocess.PIPE, check=False, timeout=600,
                              env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stderr.decode()[-2000:]}")
    return time.monotonic() - begun


def commands(side, options):
    """A gigabyte of records of 1,000 bytes by our commands, by kcat, and by an older build."""
    kcat = shutil.which("kcat") or shutil.which("kafkacat")
    count = int((0.05 if options.small else 1.0) * 1e9 / 1000)
    lines = options.home / "lines"
    line = (b"%0999d\n" % 7)
    with open(lines, "wb") as out:
        for _ in range(count):
            out.write(line)
    address, profiles = side.broker.address, {"XDG_CONFIG_HOME": str(options.home)}
    programs = {"ours": forebay_binary()} | ({"old": options.old} if options.old else {})
    writers = {name: [binary, "topic", "produce", "lines", "-b", address] for name, binary in programs.items()}
    readers = {name: [binary, "topic", "consume", "lines", "-b", address, "-o", "beginning", "-n", count]
               for name, binary in programs.items()}
    if kcat:
        writers["kcat"] = [kcat, "-P", "-b", address, "-t", "lines"]
        readers["kcat"] = [kcat, "-C", "-b", address, "-t", "lines", "-o", "beginning", "-c", count, "-q"]
    found = {}
    for _ in range(options.rounds):
        for name in writers:
            kafka.run("topics", "--bootstrap-server", address, "--create", "--topic", "lines", "--partitions", 1)
            with open(lines, "rb") as file:
                found.setdefault(("produce", name), []).append(timed(writers[name], stdin=file, environment=profiles))
            found.setdefault(("consume", name), []).append(timed(readers[name], environment=profiles))
            kafka.run("topics", "--bootstrap-server", address, "--delete", "--topic", "lines")
    lines.unlink()
    print(f"\n| {count * 1000 / 1e9:.2f} GB of 1,000 bytes | s |\n|---|---|")
    for (what, name), seen in found.items():
        print(f"| {what}, {name} | {spread(seen)} |", flush=True)


PARTS = ["throughput", "handshakes", "verdicts", "metadata", "memory", "commands"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement of handshakes")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--no-kafka", action="store_true")
    parser.add_argument("--old", type=Path, help="another build, for the commands")
    parser.add_argument("--dir", default=None, help="where brokers put their data (default: a temporary directory)")
    options = parser.parse_args()
    if options.small:
        options.rounds, options.gib, options.seconds = 1, 0.05, 1
    # Ended from outside, it still removes what it wrote.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    options.home = Path(tempfile.mkdtemp(prefix="security-", dir=options.dir))
    kinds = {"forebay": Forebay} | ({} if options.no_kafka else {"kafka": kafka.Kafka})
    retention = {"log.retention.bytes": 2 << 30, "log.retention.check.interval.ms": 5000, "log.segment.bytes": 1 << 29}
    made = []

    def make(name, place=""):
        more = {"log.segment.delete.delay.ms": 1000} if name == "kafka" else {}
        made.append(kinds[name](home=options.home / (place or "main") / name, properties={**retention, **more}))
        return made[-1]

    wanted = options.only or PARTS
    try:
        sides = {name: Side(make(name), options.home / name) for name in kinds}
        print(f"rounds {options.rounds}, {options.gib} GiB, {os.cpu_count()} processors")
        if "throughput" in wanted:
            throughput(sides, options)
        if "handshakes" in wanted:
            handshakes(make, sides, options)
        if "memory" in wanted:
            memory(sides, options)
        if "commands" in wanted:
            commands(sides["forebay"], options)
        if "metadata" in wanted:
            metadata(make, options)
        if "verdicts" in wanted:
            verdicts(options)
    finally:
        for broker in made:
            broker.end()
        shutil.rmtree(options.home, ignore_errors=True)


if __name__ == "__main__":
    main()
