"""Runs the project's tests and says how many passed.

    ./test                 everything below down to sweep: about forty minutes on two cores from a clean clone
    ./test check           cargo fmt, clippy with warnings denied, xtask tidy
    ./test guard           instructions of the hot paths, compared with docs/benchmarks/instructions.csv (valgrind)
    ./test rust            unit, property, crash-point and simulation tests (cargo test)
    ./test report          reports of forebay bench, forebay plan and forebay tune in a headless browser: layout, colours, names, no scripts
                           needed; of forebay tune what needs no privileges
    ./test clients         real clients and Kafka's tools against the release binary, the oracle, the same questions to Kafka
    ./test short           of other people's suites that of Kafka's own tools
    ./test kill9           50 rounds of kill -9 under load, 8 while segments move between tiers, and 20 with a journal; 15 of each
                           where no suite is named
    ./test sweep           every request at the limit of what is decoded: some of everything; with --minutes 60 at length
    ./test powercut        20 rounds of power cuts on a scratch ext4 (root and loop devices)
    ./test fire            exactly-once chains while their links and the broker are killed: --minutes 10
    ./test hostile         an honest load with a ledger beside clients that mean harm: --minutes 10 --rate 50MB
    ./test suites          other people's suites against the release binary, in full: about 20 minutes
    ./test kgo             one of them: kgo, kgo-chaos, rdkafka, librdkafka, kafka-python, java-tools, streams, connect, mirror, and those that
                           speak to listeners of TLS only: aiokafka, sarama, tlsscan (sslyze, tlslite-ng)
    ./test secured         those of them that can, over TLS and SASL_SSL, and the tests of clients with clients that log in over TLS
    ./test tune            forebay tune as a process: killed at every write, watchdog, power cuts, experiments and
                           twelve hosts in namespaces (root), reports in a headless browser: under six minutes on two cores
    ./test operate         what an operator does, by the pages, on a machine of its own (root): package, service, moves from and to
                           Kafka, alerts that fire, panels that have an answer, the container's program: about 15 minutes
    ./test dax             mapped files on persistent memory, in a machine in software that is killed: about 20 minutes

    --rounds N, --seed N   for kill9, powercut and dax
    --minutes N, --seed N  for fire, sweep and hostile
    --rate BYTES           hostile: of the honest load, each second
    --target kafka         clients, kill9: against Apache Kafka, which shows whether a test is right
    -k EXPRESSION          clients: only tests that match

What the suites need is installed on the way: Python, npm and Maven packages from their registries into the user's cache
or the clone, kcat and Chromium from apt when this is root, promtool from its Debian package. A toolchain that is missing is
named, and fails the run.
"""

import argparse
import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
LOGS = ROOT / "target" / "test-logs"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SUITES = ["check", "guard", "rust", "report", "clients", "short", "kill9", "sweep", "powercut", "fire", "hostile", "tune", "operate", "dax", "suites", "secured"]
FOREIGN = ["kgo", "kgo-chaos", "rdkafka", "librdkafka", "kafka-python", "java-tools", "streams", "connect", "mirror", "aiokafka", "sarama", "tlsscan"]
SECURED = ["kgo", "librdkafka", "kafka-python", "java-tools", "streams", "connect", "mirror", "aiokafka", "sarama", "tlsscan"]
# Those of the tests of clients whose clients come from a fixture.
BY_FIXTURE = ["clients/test_records.py", "clients/test_consumer_groups.py", "clients/test_transactions.py", "clients/test_groups.py",
              "clients/test_admin.py"]
SHORT = ["java-tools"]
# Pinned, as the packages of the other suites are.
ANSIBLE = "2.19.14"
SCIPY = "1.17.1"
# Of `kill -9` with everything else: as many as show that it works. At length by its name.
BRIEF_ROUNDS = 15
BY_DEFAULT = ["check", "guard", "rust", "report", "clients", "short", "kill9", "sweep"]
NEEDS = {"cargo": "rustup", "java": "a JDK 17 or newer", "mvn": "Maven", "go": "Go", "node": "Node.js 20 or newer", "npm": "npm"}

sys.path.insert(0, str(TESTS))

from bench.browser import BrowserError  # noqa: E402
from bench.browser import find as find_browser  # noqa: E402
from peers import kafka  # noqa: E402
from peers.process import PR_SET_PDEATHSIG, libc  # noqa: E402


def end_with_parent():
    """For `preexec_fn`: the step is asked to end when this process ends, however it ends."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Failed(Exception):
    """A step did not do what it should; it has been reported."""


class Run:
    """Steps with their logs and counts. Steps of different lanes run beside each other."""

    def __init__(self, options):
        self.options = options
        self.passed = self.failed = 0
        self.lock = threading.Lock()
        self.begun = time.monotonic()
        self.children = set()
        self.ending = False
        LOGS.mkdir(parents=True, exist_ok=True)

    def say(self, text):
        with self.lock:
            print(f"[{time.monotonic() - self.begun:6.1f} s] {text}", flush=True)

    def step(self, name, command, count=None, cwd=ROOT, env=None):
        """Runs a command; counts what `count` finds in its output, or itself as one."""
        begun, log = time.monotonic(), LOGS / f"{name.replace(' ', '-')}.log"
        with open(log, "w") as out:
            try:
                done = self.wait(subprocess.Popen(
                    list(map(str, command)), cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                    env={**os.environ, **(env or {})}, preexec_fn=end_with_parent))
            except FileNotFoundError as error:
                out.write(str(error))
                out.flush()
                done = 127
        text = log.read_text(errors="replace")
        passed, failed = count(text) if count else (0, 0)
        if done == 0 and not count:
            passed = 1
        if done != 0 and failed == 0:
            failed = 1
        with self.lock:
            self.passed += passed
            self.failed += failed
        verdict = "ok" if failed == 0 else f"FAILED ({failed})"
        self.say(f"{name}: {verdict}, {passed} passed, {time.monotonic() - begun:.0f} s")
        for line in text.splitlines():
            if line.startswith("SKIPPED") or "NO POWER CUT" in line:
                self.say(f"{name}: {line}")
        if failed:
            with self.lock:
                for title, lines in (("what failed, of", what_failed(text)), ("the end of", text.splitlines()[-60:])):
                    if lines:
                        print(f"--- {title} {log.relative_to(ROOT)}\n" + "\n".join(lines) + "\n---", flush=True)
            raise Failed(name)

    def wait(self, child):
        """Waits for a step's process, which ends when this run is asked to end."""
        self.children.add(child)
        if self.ending:
            child.terminate()
        try:
            return child.wait()
        finally:
            self.children.discard(child)

    def end(self, *_):
        """SIGTERM: the steps are asked to end, which lets them unmount and stop what they started."""
        self.ending = True
        for child in list(self.children):
            child.terminate()

    def lane(self, body, *after):
        """Runs a body in a thread of its own, behind other lanes; a failed step ends its lane."""

        def guarded():
            for other in after:
                other.join()
            try:
                with contextlib.suppress(Failed):
                    body()
            except Exception as error:  # noqa: BLE001 (one lane must not hide the others)
                with self.lock:
                    self.failed += 1
                self.say(f"FAILED: {error}")

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread


def what_failed(text, most=80):
    """The lines of a log of `cargo test` that name a test that failed and say why; the end of such a log is other tests' empty output."""
    lines, told = text.splitlines(), []
    for at, line in enumerate(lines):
        if re.fullmatch(r"---- .* ----", line):
            told.append(line)
        elif "panicked at" in line:
            told += lines[at : at + 8]
        elif line.startswith(("error", "Caused by:")):
            told += lines[at : at + 4]
    return told[:most]


def cargo_counts(text):
    found = re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed", text, re.MULTILINE)
    return sum(int(p) for p, _ in found), sum(int(f) for _, f in found)


def pytest_counts(text):
    last = next((line for line in reversed(text.splitlines()) if re.search(r"\d+ (passed|failed|error|skipped)", line)), "")

    def of(word):
        found = re.search(rf"(\d+) {word}", last)
        return int(found[1]) if found else 0

    return of("passed"), of("failed") + of("error")


# What the suites need


def python(run):
    """A virtual environment with the pinned packages, shared by all clones that pin the same."""
    requirements = TESTS / "requirements.txt"
    pinned = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = kafka.cache() / f"venv-{pinned}"
    if not (home / ".complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        run.step("install python", [sys.executable, "-m", "venv", home], count=nothing)
        run.step("install python packages", [home / "bin/pip", "install", "-q", "-r", requirements], count=nothing)
        (home / ".complete").touch()
    return home / "bin/python"


def kcat(run):
    if shutil.which("kcat") or shutil.which("kafkacat"):
        return
    if not apt(run, "kcat"):
        raise RuntimeError("kcat is missing (Debian, Ubuntu: apt install kcat; macOS: brew install kcat)")


def chromium(run):
    """A browser of any kind; what apt brings is the one without windows, and a font that reports look well in."""
    with contextlib.suppress(BrowserError):
        find_browser()
        return
    apt(run, "chromium-headless-shell", "fonts-inter")
    find_browser()


def apt(run, *packages):
    """Installs Debian packages where that can be done; says whether it could."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    # Two suites may want something at the same time; apt waits for its lock.
    script = "apt-get -q update && apt-get -q -y -o DPkg::Lock::Timeout=600 install --no-install-recommends " + " ".join(packages)
    run.step(f"install {packages[0]}", ["sh", "-c", script], count=nothing)
    return True


def promtool(run):
    """Where Prometheus' tool is that checks rules and metrics, for the environment of `cargo test`. It is taken out of its package,
    because installing that starts a server."""
    if shutil.which("promtool") or not shutil.which("apt-get"):
        return {}
    home = kafka.cache() / "promtool"
    program = home / "usr/bin/promtool"
    if not program.exists():
        home.mkdir(parents=True, exist_ok=True)
        update = "apt-get -q update && " if os.geteuid() == 0 else ""
        fetch = "apt-get -q download prometheus && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb"
        # Another step may have the lock of the lists, or know them already.
        script = f"({update}{fetch}) || ({fetch})"
        run.step("fetch promtool", ["sh", "-c", f"{script} || echo 'SKIPPED: no promtool'"], cwd=home, count=nothing)
    return {"PROMTOOL": str(program)} if program.exists() else {}


def nothing(_):
    """For steps that are no tests: they count only when they fail."""
    return 0, 0


def install(run):
    missing = [f"{tool} ({what})" for tool, what in NEEDS.items() if not shutil.which(tool)]
    if missing:
        raise RuntimeError(f"missing: {', '.join(missing)}")
    python(run)
    run.step("install npm packages", ["npm", "ci", "--ignore-scripts"], cwd=TESTS / "clients/node", count=nothing)
    run.step("build franz-go driver", ["go", "build", "-o", "clients", "."], cwd=TESTS / "clients/go", count=nothing)
    kcat(run)
    run.step("install kafka", [sys.executable, TESTS / "peers/kafka.py", "install"], count=nothing)
    run.ready = True


def install_python(run):
    python(run)
    run.ready = True


# The suites


def pytest(run, name, *arguments):
    def body():
        built = run.built or name == "dax"
        if not run.ready or (run.options.target == "forebay" and not built):
            raise RuntimeError(f"{name} was not run: see above")
        options = ["--target", run.options.target]
        run.step(name, [python(run), "-m", "pytest", "-q", *options, *arguments], count=pytest_counts, cwd=TESTS)

    return body


def foreign(run, step, names, *options):
    """Other people's suites; what they fetch goes to the user's cache."""

    def body():
        if not run.ready or (run.options.target == "forebay" and not run.built):
            raise RuntimeError("the suites were not run: see above")
        run.step(step, [python(run), "-m", "clients.suites", "--target", run.options.target, *options, LOGS, *names],
                 count=pytest_counts, cwd=TESTS)
        print((LOGS / f"{step}.log").read_text(), flush=True)

    return body


def build(run):
    """What is run as it is released, by one command: packages that are asked for one by one differ in features, and are compiled again."""
    examples = [f"--example={name}" for suite, name in (("sweep", "sweep"), ("report", "sample_reports"), ("guard", "paths"))
                if suite in run.suites]
    packages = ["-p", "forebay-server"]
    if examples:
        packages += ["-p", "forebay-bench", "-p", "forebay-broker", "--bin", "forebay", *examples]
    run.step("build", ["cargo", "build", "--release", "--locked", *packages], count=nothing)
    run.built = True


def check(run):
    """Three steps that say different things: all are run, whichever fails."""
    # Nothing is linked, so any file stands for libFuzzer. It would take a C++ compiler, which .cargo/config.toml leaves out for
    # librdkafka's sake; with another setting of that, aws-lc and all above it would be compiled again, here and then for the tests.
    env = {"CUSTOM_LIBFUZZER_PATH": str(ROOT / "fuzz/Cargo.toml")}
    for name, command in {
        "fmt": ["cargo", "fmt", "--all", "--check"],
        "clippy": ["cargo", "clippy", "-q", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"],
        "tidy": ["cargo", "xtask", "tidy"],
        # Nothing else builds them; an interface that moved on left one behind once.
        "fuzz targets": ["cargo", "check", "-q", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", TARGET],
    }.items():
        with contextlib.suppress(Failed):
            run.step(name, command, env=env if name == "fuzz targets" else None)


def guard(run):
    if not shutil.which("valgrind"):
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise RuntimeError("valgrind is missing (Debian, Ubuntu: apt-get install valgrind)")
        run.step("install valgrind", ["sh", "-c", "apt-get -q update && apt-get -q -y install valgrind"], count=nothing)
    # Cargo is busy with the tests: `cargo xtask` would wait for them. Tidy has built the program.
    xtask = TARGET / "debug" / "forebay-xtask"
    run.step("guard", [xtask, "guard"] if "check" in run.suites and xtask.exists() else ["cargo", "xtask", "guard"])


def rust(run):
    # Libraries, programs and tests. Clippy has looked at the examples, and tidy at the documents, which hold no test.
    run.step("cargo test", [sys.executable, TESTS / "programs.py"], count=cargo_counts, env=promtool(run))


def sweep(run):
    """In the gate some of everything: what the shards do is bounded (as loosely as processors differ), and the time on the wall
    leaves room for whatever else the machine does. At length, alone on the machine, as promised to clients."""
    if not run.built:
        raise RuntimeError("sweep was not run: see above")
    minutes = run.options.minutes
    how = ["--minutes", minutes] if minutes else ["--minutes", 0, "--share", 2, "--answer-ms", 10_000, "--others-ms", 5000,
                                                         "--answer-work-ms", 2000, "--others-work-ms", 250]
    built = TARGET / "release"
    run.step("sweep", [built / "examples/sweep", "--broker", built / "forebay", "--keep", LOGS / "sweep", "--seed", run.options.seed, *how])


def report(run):
    chromium(run)
    env = {"SAMPLE_REPORTS": str(TARGET / "release/examples/sample_reports")} if run.built else None
    run.step("report", [python(run), "-m", "pytest", "-q", "bench/test_report.py"], count=pytest_counts, cwd=TESTS, env=env)
    kind = "release" if run.built else "debug"
    if not run.built:
        run.step("build plan", ["cargo", "build", "-q", "--locked", "-p", "forebay-server"], count=nothing)
    binary = TARGET / kind / "forebay"
    env = {"TEST_BROKER": str(binary), "FOREBAY": str(binary)}
    run.step("plan", [python(run), "-m", "pytest", "-q", "bench/test_plan.py", "bench/test_tune.py"], count=pytest_counts, cwd=TESTS, env=env)
    # What of it needs no privileges.
    some = ["-n", max(2, os.cpu_count() or 1), "-m", "not root and not alone", "tune"]
    run.step("tune without privileges", [python(run), "-m", "pytest", "-q", *some], count=pytest_counts, cwd=TESTS, env=env)


def irqbalance(run):
    """The program out of its package, which is not installed: that would start it."""
    home = kafka.cache() / "irqbalance"
    if not (home / "usr/sbin/irqbalance").exists() and shutil.which("apt-get") and os.geteuid() == 0:
        home.mkdir(parents=True, exist_ok=True)
        script = "apt-get -q update && apt-get -q download irqbalance && dpkg-deb -x irqbalance_*.deb . && rm irqbalance_*.deb"
        run.step("fetch irqbalance", ["sh", "-c", f"({script}) || echo 'SKIPPED: no irqbalance'"], cwd=home, count=nothing)
    return {"PATH": f"{home}/usr/sbin:{os.environ['PATH']}"}


def ansible(run):
    """Where Ansible's programs are: an environment of their own, because nothing else here needs them."""
    home = kafka.cache() / f"ansible-{ANSIBLE}"
    if not (home / ".complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        run.step("install python for ansible", [sys.executable, "-m", "venv", home], count=nothing)
        run.step("install ansible", [home / "bin/pip", "install", "-q", f"ansible-core=={ANSIBLE}"], count=nothing)
        (home / ".complete").touch()
    return str(home / "bin")


def scipy(run):
    """A Python that has scipy: in an environment of its own, because nothing else here needs it."""
    home = kafka.cache() / f"scipy-{SCIPY}"
    if not (home / ".complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        run.step("install python for scipy", [sys.executable, "-m", "venv", home], count=nothing)
        run.step("install scipy", [home / "bin/pip", "install", "-q", f"scipy=={SCIPY}"], count=nothing)
        (home / ".complete").touch()
    return str(home / "bin/python")


def tune(run):
    """What waits goes on beside each other; what measures, or cuts the power, is alone on the machine."""
    run.step("build tune", ["cargo", "build", "--release", "--locked", "-p", "forebay-server"], count=nothing)
    binary = TARGET / "release" / "forebay"
    chromium(run)
    env = {"FOREBAY": str(binary), "TEST_BROKER": str(binary), "ANSIBLE": ansible(run), "SCIPY": scipy(run), **irqbalance(run)}
    workers = 2 * max(2, os.cpu_count() or 1)
    tests = [python(run), "-m", "pytest", "-q", "--durations", "10", "tune", "bench/test_tune.py"]
    for name, which in (("tune", ["-n", workers, "-m", "not alone"]), ("tune alone", ["-m", "alone"])):
        with contextlib.suppress(Failed):
            run.step(name, [*tests, *which], count=pytest_counts, cwd=TESTS, env=env)


def operate(run):
    """The package that is installed, and the program of the container. What cannot be had is said, and what needs it is skipped or
    done without it; a program that does not build fails the suite."""
    env = promtool(run)
    for package in ("sudo", "lintian"):
        if not shutil.which(package):
            with contextlib.suppress(Failed):
                apt(run, package)
    run.step("build operate", ["cargo", "build", "--release", "--locked", "-p", "forebay-server"], count=nothing)
    env |= {"TEST_BROKER": str(TARGET / "release/forebay")}
    with contextlib.suppress(Failed):
        # Without cargo-deb the tests lay the package out themselves, from the same metadata.
        if not shutil.which("cargo-deb"):
            run.step("install cargo-deb", ["cargo", "install", "-q", "--locked", "cargo-deb"], count=nothing)
        deb = TARGET / "debian" / "forebay.deb"
        run.step("build package", ["cargo", "deb", "-q", "-p", "forebay-server", "-o", deb], count=nothing)
        env |= {"DEB": str(deb)}
    with contextlib.suppress(Failed):
        host = re.search(r"^host: (.*)$", subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout, re.MULTILINE)[1]
        static = ["cargo", "build", "-q", "--release", "--locked", "-p", "forebay-server", "--target", host]
        run.step("build static", static, count=nothing, env={"RUSTFLAGS": "-C target-feature=+crt-static"})
        env |= {"STATIC_BROKER": str(TARGET / host / "release/forebay")}
    run.step("operate", [python(run), "-m", "pytest", "-q", "operate", "--timeout", "900"], count=pytest_counts, cwd=TESTS, env=env)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", choices=[*SUITES, *FOREIGN, []], metavar="suite")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--rate", default="50MB")
    parser.add_argument("--target", default="forebay")
    parser.add_argument("-k", dest="only", default="")
    options = parser.parse_args()
    minutes = options.minutes or 10
    suites = options.suites or BY_DEFAULT
    run = Run(options)
    run.suites = set(suites)
    run.ready = run.built = False
    signal.signal(signal.SIGTERM, run.end)

    theirs = FOREIGN if "suites" in suites else [name for name in FOREIGN if name in suites]
    outside = [suite for suite in ("clients", "short", "kill9", "powercut", "fire", "hostile", "dax") if suite in suites]
    outside += ["suites"] * bool(theirs) + ["secured"] * ("secured" in suites)
    lanes = []
    if outside or "sweep" in suites:
        # No client and no broker runs in the machine in software: what does, its suite builds.
        alone = outside == ["dax"]
        lanes.append(run.lane(lambda: outside and (install_python(run) if alone else install(run))))
        lanes.append(run.lane(lambda: alone or options.target != "forebay" or build(run)))
    # The suites that need the binary start as soon as it is there; the other cargo commands go on beside them.
    rounds = options.rounds or (0 if options.suites else BRIEF_ROUNDS)
    crash = ["--seed", options.seed, *(["--rounds", rounds] if rounds else []), "-s", "--timeout", 1800]
    workers = max(2, os.cpu_count() or 1)
    commands = {
        "clients": ["-n", workers, "clients", *(["bench/test_run.py", "bench/test_verify.py"] if options.target == "forebay" else []),
                    *(["-k", options.only] if options.only else [])],
        "kill9": [*crash, "crash/test_kill9.py"],
        "powercut": [*crash, "crash/test_powercut.py"],
        "fire": ["--seed", options.seed, "--minutes", minutes, "-s", "--timeout", int(minutes * 60) + 900,
                 "crash/test_fire.py"],
        "hostile": ["--seed", options.seed, "--minutes", minutes, "--rate", options.rate, "-s", "--timeout", int(minutes * 120) + 1800,
                    "hostile/test_hostile.py"],
        "dax": [*crash, "--timeout", 7200, "dax/test_dax.py"],
    }
    behind = list(lanes)
    for suite in outside:
        match suite:
            case "suites":
                body = foreign(run, suite, theirs)
            case "secured":
                lanes.append(run.lane(pytest(run, "clients over TLS", "--secured", *BY_FIXTURE), *behind))
                body = foreign(run, suite, SECURED, "--secured")
            case "short":
                body = foreign(run, suite, SHORT, "--short")
            case _:
                body = pytest(run, suite, *commands[suite])
        lanes.append(run.lane(body, *behind))
        behind = lanes[-1:]
    # Cargo locks the folder of a profile: what the debug build is for goes on one after the other. The guard, which builds more, begins
    # with what compiles the tests, and is done when they run.
    debug, checked = lanes[1:2], []
    for suite, body in (("check", check), ("rust", rust)):
        if suite in suites:
            debug = [run.lane(lambda body=body: body(run), *debug)]
            checked = checked or debug
            lanes += debug
    if "guard" in suites:
        lanes.append(run.lane(lambda: guard(run), *checked))
        behind.append(lanes[-1])
    for suite, body in (("sweep", sweep), ("report", report)):
        if suite in suites:
            behind = [run.lane(lambda body=body: body(run), *behind, *checked)]
            lanes += behind
    for suite, body in (("tune", tune), ("operate", operate)):
        if suite in suites:
            lanes.append(run.lane(lambda body=body: body(run), *lanes))
    for lane in lanes:
        lane.join()
    print(f"{run.passed} passed, {run.failed} failed")
    sys.exit(1 if run.failed else 0)


if __name__ == "__main__":
    main()
