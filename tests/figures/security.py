"""What security costs: TLS beside plain text and beside Kafka's TLS, handshakes, logins, rights, and our commands beside kcat.

    python3 tests/figures/security.py [--rounds 3] [--gib 2] [--seconds 3] [--small] [--only NAME] [--no-kafka] [--old BINARY]

Wants a quiet machine, a release build (or another one in TEST_BROKER), and two examples of it:

    cargo build --release --locked -p forebay-server
    cargo build --release --locked -p forebay-wire --example acl_index
    cargo build --release --locked -p forebay-broker --example verdicts

Both brokers run at the same time and idle in turn; every measurement is taken on one and at once on the other, in the other order each
round, and both are warmed up before. Forebay syncs what it acknowledges, Kafka (as shipped) does not. The generator (`forebay bench`) is on
the same processors, and the same for both. `--small` is a look at whether all of it runs. Prints tables of medians with the lowest and highest round, and
in the end each goal beside what was found. Takes about a quarter of an hour on two cores.
"""

import argparse
import contextlib
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
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, NewTopic, ResourcePatternType, ResourceType  # noqa: E402

from figures.compare import resident_mib, spread  # noqa: E402
from figures.compare import cpu_seconds as cpu_ticks  # noqa: E402
from peers import kafka, rawwire  # noqa: E402
from peers.broker import ROOT, Forebay, forebay_binary  # noqa: E402
from peers.process import die_with_parent, free_port, wait_until  # noqa: E402
from peers.rights import MODULE  # noqa: E402
from peers.sasl import Login  # noqa: E402
from peers.secured import PASSWORD, USER, Secured  # noqa: E402

RECORD = 240_000
TOPICS, ACLS = 5000, 10_000
SUITE = "TLS_AES_256_GCM_SHA384"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
# What was found for each goal: its words, whether less is better, the goal, the rounds.
GOALS = []


def goal(words, is_most, wanted, values):
    GOALS.append((words, is_most, wanted, list(values)))


def bench(*arguments, seconds=900):
    done = subprocess.run([forebay_binary(), "bench", *map(str, arguments)], capture_output=True, text=True, timeout=seconds, check=False,
                          preexec_fn=die_with_parent)
    if done.returncode != 0:
        raise RuntimeError(f"{arguments}: {done.stdout}{done.stderr}")
    return done.stdout


def cpu_seconds(broker):
    """Processor time of a broker so far. That of ours, whose threads stay, to the nanosecond; that of a virtual machine in hundredths."""
    pid = broker.process.pid
    if broker.name == "kafka":
        return cpu_ticks(pid)
    spent = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            spent += int((task / "schedstat").read_text().split()[0])
    return spent / 1e9


class Side:
    """A broker with a listener without TLS, one of TLS, one with a login without TLS, and files for clients of each."""

    def __init__(self, broker, home, kind="ec"):
        self.broker, self.home, self.bare = broker, home, free_port()
        self.secured = Secured(broker, home / "keys")
        self.secured.pem = self.secured.keys.issue("server", "/CN=server/O=Example", kind=kind)
        settings = broker.properties
        for name in ("listeners", "advertised.listeners"):
            settings[name] += f",BARE://127.0.0.1:{self.bare}"
        settings["listener.security.protocol.map"] += ",BARE:SASL_PLAINTEXT"
        settings["listener.name.bare.sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
        for mechanism in ("scram-sha-256", "scram-sha-512", "plain"):
            settings[f"listener.name.bare.{mechanism}.sasl.jaas.config"] = settings[f"listener.name.login.{mechanism}.sasl.jaas.config"]
        broker.start()
        self.secured.open()
        # What it takes when nobody asks for anything: of little else, much of the time would be that.
        time.sleep(2)
        before, begun = cpu_seconds(broker), time.monotonic()
        time.sleep(2)
        self.idle = (cpu_seconds(broker) - before) / (time.monotonic() - begun)

    def file(self, name, settings):
        file = self.home / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        file.chmod(0o600)
        return file

    def plain(self, **_):
        return self.broker.address, None

    def tls(self, version=None, suite=None):
        more = ({"ssl.enabled.protocols": version} if version else {}) | ({"ssl.cipher.suites": suite} if suite else {})
        return self.secured.tls, self.file("tls", {
            "security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": self.secured.keys.ca, **more})

    def login(self, mechanism):
        kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        return f"127.0.0.1:{self.bare}", self.file(mechanism, {
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{MODULE.format(kind)} username="{USER}" password="{PASSWORD}";'})


def in_turn(sides, rounds, measure, warm=1):
    """What `measure(side)` finds on each side: at once on one and the other, in the other order each round, without those that warm up."""
    found = {name: [] for name in sides}
    for index in range(-warm, rounds):
        for name in list(sides) if index % 2 == 0 else list(sides)[::-1]:
            seen = measure(sides[name])
            if index >= 0:
                found[name].append(seen)
    return found


def head(*first):
    print(f"\n[{time.strftime('%H:%M:%S')}]\n\n| {' | '.join(first)} |\n|{'---|' * len(first)}", flush=True)


def told(what, found):
    for unit in next(iter(found.values()))[0]:
        print(f"| {what} | {unit} | {' | '.join(spread([one[unit] for one in seen]) for seen in found.values())} |", flush=True)


def load(side, way, topic, bytes_, consume):
    """Rate and processor time of the broker per GB, writing (synced where the broker does that), or reading what was written."""
    address, file = way
    outcome = side.home / "outcome.json"
    arguments = ["load", "--bootstrap", address, "--topic", topic, "--existing", "--seconds", 120, "--json", outcome]
    arguments += ["--command-config", file] if file else []
    if consume:
        arguments += ["--producers", 0, "--consumers", 1, "--from", "earliest", "--bytes", bytes_]
    else:
        arguments += ["--producers", 1, "--record", RECORD, "--batch", "1MB", "--acks", "all", "--in-flight", 5, "--bytes", bytes_]
    before = cpu_seconds(side.broker)
    bench(*arguments)
    cpu = cpu_seconds(side.broker) - before
    seen = json.loads(outcome.read_text())
    assert not seen.get("errors"), seen["errors"]
    part = seen["consume" if consume else "produce"]
    assert part["bytes"] > bytes_ * 0.95, f"{part['bytes']} of {bytes_} bytes"
    return {"GB/s": part["bytes"] / seen["seconds"] / 1e9, "broker CPU-s/GB": cpu / (part["bytes"] / 1e9)}


def throughput(make, sides, options):
    """TLS beside plain text, on each broker, with one suite for both. What is slow moves less: as much as takes ten seconds by the round before."""
    bytes_ = {(name, way): int(options.gib * (1 << 30)) for name in sides for way in ("plain", "tls")}
    for side in sides.values():
        for way in ("plain", "tls"):
            kafka.run("topics", "--bootstrap-server", side.broker.address, "--create", "--topic", f"{way}-{RECORD}", "--partitions", 1)

    def both(consume):
        def measure(side):
            seen = {}
            for way in ("plain", "tls"):
                most = bytes_[side.broker.name, way]
                seen[way] = load(side, getattr(side, way)(suite=SUITE), f"{way}-{RECORD}", most, consume)
                bytes_[side.broker.name, way] = int(min(most, max(1 << 27, seen[way]["GB/s"] * 1e10)))
            return seen
        return measure

    for consume in (False, True):
        bytes_ = dict.fromkeys(bytes_, int(options.gib * (1 << 30)))
        name = f"{'consume' if consume else 'produce'} {RECORD // 1000} KB"
        head("what", "unit", *sides)
        found = in_turn(sides, options.rounds, both(consume))
        for way in ("plain", "tls"):
            told(f"{name}, {way}", {side: [one[way] for one in seen] for side, seen in found.items()})
        derived = {side: [{"ratio to plain text": one["tls"]["GB/s"] / one["plain"]["GB/s"],
                           "CPU-s/GB more than plain text": one["tls"]["broker CPU-s/GB"] - one["plain"]["broker CPU-s/GB"]}
                          for one in seen] for side, seen in found.items()}
        told(f"{name}, TLS", derived)
        goal(f"{name}: TLS to plain text", False, 0.7, [one["ratio to plain text"] for one in derived["forebay"]])
        goal(f"{name}: CPU-s/GB that TLS adds", True, 0.3, [one["CPU-s/GB more than plain text"] for one in derived["forebay"]])
        if "kafka" in found:
            ratio = [a["tls"]["GB/s"] / b["tls"]["GB/s"] for a, b in zip(found["forebay"], found["kafka"])]
            print(f"| {name}, TLS | ratio to Kafka's | {spread(ratio)} | 1 |", flush=True)
            goal(f"{name}: TLS to Kafka's TLS", False, 5, ratio)


def shaken(side, way, options, *flags):
    """Connections one after the other, 16 at a time: whole ones, with one request."""
    address, file = way
    outcome = side.home / "handshakes.json"
    before, begun = cpu_seconds(side.broker), time.monotonic()
    arguments = ["--command-config", file] if file else []
    bench("handshakes", "--bootstrap", address, *arguments, "--seconds", options.seconds, "--connections", 16, "--json", outcome, *flags)
    cpu = cpu_seconds(side.broker) - before - side.idle * (time.monotonic() - begun)
    seen = json.loads(outcome.read_text())
    assert seen["errors"] == {}, seen["errors"]
    count = seen["handshakes"]
    return {"per second": seen["per_second"], "p99 ms": seen["p99_us"] / 1000, "broker CPU-us each": cpu / count * 1e6,
            "per CPU-s of the broker": count / cpu if cpu else 0}


def handshakes(make, sides, options):
    """Connections without TLS, full handshakes and resumed ones."""
    head("what", "unit", *sides)
    bare = in_turn(sides, options.rounds, lambda side: shaken(side, side.plain(), options))
    told("connections without TLS", bare)
    least = statistics.median([one["broker CPU-us each"] for one in bare["forebay"]])

    def beyond(found):
        """Handshakes alone per CPU-s: what a thread of them would do."""
        return [1e6 / (one["broker CPU-us each"] - least) for one in found["forebay"]]

    for version, what, flags in (("TLSv1.3", "full", []), ("TLSv1.3", "resumed", ["--resume"]), ("TLSv1.2", "full", [])):
        found = in_turn(sides, options.rounds, lambda side: shaken(side, side.tls(version), options, *flags))
        told(f"handshakes {version}, P-256, {what}", found)
        if (version, what) == ("TLSv1.3", "full"):
            goal("full handshakes of P-256 per CPU-s, without the connection", False, 5000, beyond(found))
    rsa = {name: Side(make(name, "rsa"), options.home / f"{name}-rsa", kind="rsa") for name in sides}
    found = in_turn(rsa, options.rounds, lambda side: shaken(side, side.tls("TLSv1.3"), options))
    told("handshakes TLSv1.3, RSA-2048, full", found)
    goal("full handshakes of RSA-2048 per CPU-s, without the connection", False, 1000, beyond(found))
    for side in rsa.values():
        side.broker.end()


def logins(make, sides, options):
    """What a login takes of the broker, beyond a connection without one; both without TLS, whose handshake would hide it."""
    head("what", "unit", *sides)

    def measure(mechanism):
        def beyond(side):
            bare = shaken(side, side.plain(), options)["broker CPU-us each"]
            login = shaken(side, side.login(mechanism), options)
            return {"broker CPU-us": login["broker CPU-us each"] - bare, "logins per second": login["per second"]}
        return beyond

    for mechanism in MECHANISMS:
        found = in_turn(sides, options.rounds, measure(mechanism))
        told(f"login {mechanism}, beyond a connection", found)
        if mechanism == "SCRAM-SHA-512":
            goal("a login by SCRAM-SHA-512, CPU-us", True, 30, [one["broker CPU-us"] for one in found["forebay"]])


PING = """
import struct, sys, time
sys.path.insert(0, sys.argv[1])
from peers.rawapis import Client
from peers.rawbatch import batch, simple_record
port, seconds, what = int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
from peers import rawwire
times = []
sent = batch([simple_record(0, b"x" * 100)])
with Client(port) as client, rawwire.Connection(port) as other:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        begun = time.perf_counter()
        if what == "produce":
            assert client.produce("quiet", [(0, sent)]) == [0]
        else:
            other.request(rawwire.API_VERSIONS, 0, b"")
        times.append((time.perf_counter() - begun) * 1000)
        time.sleep(0.002)
print(*times)
"""


def pinging(port, seconds, what):
    """Another client, in a process of its own, which asks all the time."""
    return subprocess.Popen([sys.executable, "-c", PING, str(ROOT / "tests"), str(port), str(seconds), what], stdout=subprocess.PIPE, text=True,
                            preexec_fn=die_with_parent)


def times_of(process):
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, "the other client failed"
    return [float(time_) for time_ in out.split()]


def p99(times):
    return statistics.quantiles(times, n=100)[-1]


def flood(make, sides, options):
    """What a producer of small records feels beside as many handshakes as the generator makes: two threads of it, which get what the others leave,
    as if on another machine."""
    head("what", "unit", *sides)
    for side in sides.values():
        kafka.run("topics", "--bootstrap-server", side.broker.address, "--create", "--topic", "quiet", "--partitions", 1)

    def measure(side):
        alone = p99(times_of(pinging(side.broker.port, options.seconds, "produce")))
        address, file = side.tls()
        outcome = side.home / "flood.json"
        command = ["chrt", "-i", "0", forebay_binary(), "bench", "handshakes", "--bootstrap", address, "--command-config", file, "--threads", 2,
                   "--connections", 256, "--seconds", options.seconds + 2, "--json", outcome]
        flooding = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
        time.sleep(1)
        beside = p99(times_of(pinging(side.broker.port, options.seconds, "produce")))
        flooding.wait(120)
        rate = json.loads(outcome.read_text())["per_second"]
        return {"p99 ms of Produce alone": alone, "p99 ms of Produce beside": beside, "ratio": beside / alone, "handshakes per second beside": rate}

    found = in_turn(sides, options.rounds, measure)
    told("a flood of full handshakes", found)
    goal("p99 of others beside a flood of handshakes, ratio", True, 2, [one["ratio"] for one in found["forebay"]])


def verdicts(make, sides, options):
    """A verdict by itself, from the examples of the crates."""
    examples = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/examples"
    for name in ("acl_index", "verdicts"):
        if not (examples / name).exists():
            print(f"\n(no verdicts by themselves: {examples / name} is not built)")
            continue
        said = subprocess.run([examples / name], capture_output=True, text=True, check=True, timeout=600).stdout
        print(f"\n{said}", flush=True)
        for line in said.splitlines():
            if line.startswith(f"{ACLS} ACLs of 1 principals: made"):
                goal("a verdict of the index with 10,000 ACLs, ns", True, 400, [nanoseconds(line.split("verdict ")[1].split(",")[0])])
            if line.startswith(f"{ACLS} ACLs of 1 principals: a verdict that is kept"):
                goal("a verdict that is kept, with 10,000 ACLs, ns", True, 40, [nanoseconds(line.split()[-1])])
            if "most of them not kept" in line:
                goal("a question of a request whose verdict is not kept, ns", True, 400, [nanoseconds(line.split()[-1])])


def nanoseconds(text):
    for unit, each in (("ns", 1), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)):
        if text.endswith(unit):
            return float(text[: -len(unit)]) * each
    raise ValueError(text)


class Rights:
    """A broker with many topics and ACLs, and a user who may see half of the topics."""

    def __init__(self, broker, home):
        self.broker = broker
        self.secured = Secured(broker, home, "PLAIN")
        plain = broker.properties
        self.port = self.secured.ports["LOGIN"]
        plain["listener.security.protocol.map"] = plain["listener.security.protocol.map"].replace("LOGIN:SASL_SSL", "LOGIN:SASL_PLAINTEXT")
        plain["listener.name.login.plain.sasl.jaas.config"] = f'{MODULE.format("plain.Plain")} user_ada="pencil" user_suite="x";'
        broker.start()

    def fill(self, topics, acls):
        admin = AdminClient({"bootstrap.servers": self.broker.address})
        for begin in range(0, topics, 500):
            made = admin.create_topics([NewTopic(f"topic-{number}", 1, 1) for number in range(begin, min(begin + 500, topics))], operation_timeout=120,
                                       request_timeout=120)
            for one in made.values():
                one.result(120)
        for begin in range(0, acls, 1000):
            rights = [AclBinding(ResourceType.TOPIC, f"topic-{number}", ResourcePatternType.LITERAL,
                                 "User:ada" if number % 2 == 0 else f"User:u{number}", "*", AclOperation.READ, AclPermissionType.ALLOW)
                      for number in range(begin, min(begin + 1000, acls))]
            for one in admin.create_acls(rights, request_timeout=120).values():
                one.result(120)

    def metadata(self, user, rounds, seconds):
        """Asks for all topics, as a user who logs in or, without a name, as a super user, until it was done often or for long enough; returns the
        times, and how many bytes came."""
        if user:
            connection = Login(self.port, "PLAIN")
            code, _ = connection.ask(f"\0{user}\0pencil".encode())
            assert code == 0, code
        else:
            connection = rawwire.Connection(self.broker.port)
        times, size, until = [], 0, time.monotonic() + seconds
        with connection:
            while len(times) < rounds and (len(times) < 2 or time.monotonic() < until):
                begun = time.perf_counter()
                size = len(connection.request(rawwire.METADATA, 1, b"\xff\xff\xff\xff"))
                times.append((time.perf_counter() - begun) * 1000)
        # The first one of a connection finds nothing prepared.
        return times[1:], size


def metadata_of_kafka(make, sides, options):
    """The same of Kafka: last, because it takes long."""
    if "kafka" in sides:
        metadata(make, sides, options, ["kafka"])


def metadata(make, sides, options, names=("forebay",)):
    """Metadata of all topics with many ACLs, and what another client feels meanwhile."""
    topics, acls = (200, 500) if options.small else (TOPICS, ACLS)
    head(f"Metadata of {topics} topics, {acls} ACLs", "unit", "found")
    for name in names:
        rights = Rights(make(name, "rights"), options.home / f"rights-{name}/keys")
        try:
            rights.fill(topics, acls)
            # A Kafka takes seconds until its ACLs count; and Java compiles what is asked for often.
            wait_until(lambda: rights.metadata("ada", 2, 1)[1] > 8 * topics, "the rights of ada", 60, every=0.5)
            rights.metadata("ada", 1000, 10 if name == "kafka" else 1)
            times = {}
            for who, user in (("a super user", None), ("a user who may see half of them", "ada")):
                times[user], size = rights.metadata(user, 50, 15)
                print(f"| {name}: {who} ({size} bytes) | ms | {spread(times[user])} |", flush=True)
            seconds = 2 * options.seconds
            alone = times_of(pinging(rights.broker.port, options.seconds, "versions"))
            other = pinging(rights.broker.port, seconds, "versions")
            until, count = time.monotonic() + seconds - 0.5, 0
            while time.monotonic() < until:
                count += len(rights.metadata("ada", 6, 1)[0]) + 1
            beside = times_of(other)
            for what, seen in (("alone", alone), (f"beside {count} Metadata of that user", beside)):
                cuts = statistics.quantiles(seen, n=1000)
                print(f"| {name}: ApiVersions of another client {what}: median, 99 %, 99.9 %, longest of {len(seen)} | ms | "
                      f"{statistics.median(seen):.2f}, {cuts[989]:.2f}, {cuts[998]:.2f}, {max(seen):.2f} |", flush=True)
            if name == "forebay":
                goal(f"Metadata of {topics} topics with {acls} ACLs, ms", True, 5, times["ada"])
                more = statistics.quantiles(beside, n=1000)[989] - statistics.quantiles(alone, n=1000)[989]
                goal("what others wait longer meanwhile (99 %), ms", True, 1, [more])
        finally:
            rights.broker.end()


def memory(make, sides, options):
    """What an idle connection of TLS takes: resident memory before and with them, after as many that have come and gone. A virtual machine has taken
    its memory before, so Kafka's says little."""
    count = 100 if options.small else 1000
    head("idle connections of TLS", "unit", *sides)
    found = {}
    for name, side in sides.items():
        context = ssl.create_default_context(cafile=side.secured.keys.ca)
        host, port = side.secured.tls.split(":")
        for _ in range(2):
            before, held = resident_mib(side.broker.process.pid), []
            for _ in range(count):
                plain = socket.create_connection((host, int(port)), timeout=20)
                held.append(context.wrap_socket(plain, server_hostname=host))
                held[-1].sendall(rawwire.frame(rawwire.header(rawwire.API_VERSIONS, 0)))
                held[-1].recv(16384)
            time.sleep(2)
            found.setdefault(name, []).append({"KiB each": (resident_mib(side.broker.process.pid) - before) * 1024 / count})
            for one in held:
                one.close()
            time.sleep(2)
    # The first time is that of a broker that had few before, which is the larger one.
    told(f"{count}, and once more after those", found)
    goal("an idle connection of TLS, KiB", True, 30, [one["KiB each"] for one in found["forebay"]])


def timed(command, stdin=None, environment=None):
    begun = time.monotonic()
    with open(os.devnull, "wb") as nowhere:
        done = subprocess.run([str(part) for part in command], stdin=stdin, stdout=nowhere, stderr=subprocess.PIPE, check=False, timeout=600,
                              env={**os.environ, **(environment or {})}, preexec_fn=die_with_parent)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stderr.decode()[-2000:]}")
    return time.monotonic() - begun


def commands(make, sides, options):
    """A gigabyte of records of 1,000 bytes by our commands, by kcat (librdkafka, which our commands were made of before), and by an older build."""
    side = sides["forebay"]
    kcat = shutil.which("kcat") or shutil.which("kafkacat")
    count = int((0.05 if options.small else 1.0) * 1e9 / 1000)
    lines = options.home / "lines"
    line = (b"%0999d\n" % 7)
    with open(lines, "wb") as out:
        for _ in range(count):
            out.write(line)
    address, profiles = side.broker.address, {"XDG_CONFIG_HOME": str(options.home)}
    programs = {"ours": forebay_binary()} | ({"old": options.old} if options.old else {})
    writers = {name: [binary, "topic", "produce", "lines", "-q", "-b", address] for name, binary in programs.items()}
    readers = {name: [binary, "topic", "consume", "lines", "-b", address, "-o", "beginning", "-n", count]
               for name, binary in programs.items()}
    if kcat:
        writers["kcat"] = [kcat, "-P", "-b", address, "-t", "lines"]
        readers["kcat"] = [kcat, "-C", "-b", address, "-t", "lines", "-o", "beginning", "-c", count, "-q"]
    head(f"{count * 1000 / 1e9:.2f} GB of 1,000 bytes", "unit", "found")
    found = {}
    for index in range(-1, options.rounds):
        for name in list(writers) if index % 2 == 0 else list(writers)[::-1]:
            kafka.run("topics", "--bootstrap-server", address, "--create", "--topic", "lines", "--partitions", 1)
            with open(lines, "rb") as file:
                written = timed(writers[name], stdin=file, environment=profiles)
            read = timed(readers[name], environment=profiles)
            if index >= 0:
                found.setdefault(("produce", name), []).append(written)
                found.setdefault(("consume", name), []).append(read)
            kafka.run("topics", "--bootstrap-server", address, "--delete", "--topic", "lines")
    lines.unlink()
    for (what, name), seen in sorted(found.items()):
        print(f"| {what}, {name} | s | {spread(seen)} |", flush=True)
    if kcat:
        ratio = [ours / theirs for ours, theirs in zip(found["consume", "ours"], found["consume", "kcat"])]
        goal("topic consume of 1 GB, time beside librdkafka's", True, 1, ratio)


PARTS = {"throughput": throughput, "handshakes": handshakes, "logins": logins, "flood": flood, "verdicts": verdicts, "memory": memory,
         "metadata": metadata, "commands": commands, "metadata-of-kafka": metadata_of_kafka}


def judged():
    """Each goal of ours beside what was found."""
    if not GOALS:
        return
    head("goal", "wanted", "found: median (lowest..highest)", "")
    for words, is_most, wanted, values in GOALS:
        middle = statistics.median(values)
        holds = middle <= wanted if is_most else middle >= wanted
        print(f"| {words} | {'at most' if is_most else 'at least'} {wanted} | {spread(values)} | {'holds' if holds else 'MISSED'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement of handshakes")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--no-kafka", action="store_true")
    parser.add_argument("--minutes", type=float, default=14, help="after which no further part begins")
    parser.add_argument("--old", type=Path, help="another build, for the commands")
    parser.add_argument("--dir", default=None, help="where brokers put their data (default: a temporary directory)")
    options = parser.parse_args()
    if options.small:
        options.rounds, options.gib, options.seconds = 1, 0.05, 1
    # Ended from outside, it still removes what it wrote.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    options.home = Path(tempfile.mkdtemp(prefix="security-", dir=options.dir))
    kinds = {"forebay": Forebay} | ({} if options.no_kafka else {"kafka": kafka.Kafka})
    # More than one measurement writes, so that the next reading finds all of it.
    retention = {"log.retention.bytes": int((options.gib + 1) * (1 << 30)), "log.retention.check.interval.ms": 5000, "log.segment.bytes": 1 << 29}
    made, failed, begun = [], [], time.monotonic()

    def make(name, place=""):
        more = {"log.segment.delete.delay.ms": 1000} if name == "kafka" else {}
        made.append(kinds[name](home=options.home / (place or "main") / name, properties={**retention, **more}))
        return made[-1]

    try:
        version = subprocess.run([forebay_binary(), "--version"], capture_output=True, text=True, check=True).stdout.strip()
        print(f"{version}, Apache Kafka {kafka.VERSION}, {os.cpu_count()} processors, rounds {options.rounds}, {options.gib} GiB, "
              f"{options.seconds} s of handshakes, suite {SUITE}")
        sides = {name: Side(make(name), options.home / name) for name in kinds}
        for name in options.only or PARTS:
            if time.monotonic() - begun > options.minutes * 60:
                failed.append(name)
                print(f"\n({name}: no time left)", flush=True)
                continue
            try:
                PARTS[name](make, sides, options)
            except Exception:
                # The others are worth having all the same.
                failed.append(name)
                print(f"\n{name} FAILED\n{traceback.format_exc()}", flush=True)
        judged()
        print(f"\n{time.monotonic() - begun:.0f} s" + (f", failed: {', '.join(failed)}" if failed else ""))
    finally:
        for broker in made:
            broker.end()
        shutil.rmtree(options.home, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
