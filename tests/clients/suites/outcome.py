"""What came of a suite: each test passed, failed, or was left out for a reason that is written down.

The reasons are in left_out.ini, one section for each suite: the test's name, or a pattern with `*`, and why. A test that
skips itself without a reason there has failed, and so has a reason that fits no test: the list cannot rot.
"""

import configparser
import fnmatch
import re
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

LIST = Path(__file__).resolve().parent / "left_out.ini"


def reasons(suite):
    known = configparser.ConfigParser(delimiters="=", interpolation=None)
    known.optionxform = str
    known.read(LIST)
    return dict(known[suite]) if suite in known else {}


@dataclass
class Outcome:
    """Filled by a suite; `judge` holds it against the list."""

    suite: str
    passed: list = field(default_factory=list)
    skipped: list = field(default_factory=list)
    failed: list = field(default_factory=list)
    left_out: dict = field(default_factory=dict)
    # What the list says and is not so: a failure where the list is about that broker.
    stale: list = field(default_factory=list)

    def say(self, name, verdict):
        {"pass": self.passed, "skip": self.skipped, "fail": self.failed}[verdict].append(name)

    def judge(self, complete=True):
        """Moves what did not pass for a reason to what is left out; what skipped itself without one has failed."""
        known = reasons(self.suite)

        def reason(name):
            return next((why for pattern, why in known.items() if fnmatch.fnmatchcase(name, pattern)), None)

        self.left_out = {name: reason(name) for name in self.skipped + self.failed if reason(name)}
        self.failed = [name for name in self.failed if not reason(name)]
        self.failed += [f"{name} (skipped itself; left_out.ini does not say why)" for name in self.skipped if not reason(name)]
        self.stale = [f"{name} (passes, and is in left_out.ini)" for name in self.passed if reason(name)]
        if complete:
            unknown = [p for p in known if not any(fnmatch.fnmatchcase(name, p) for name in self.left_out)]
            self.stale += [f"{pattern} (in left_out.ini, and there is no such test)" for pattern in unknown]
        if not self.passed and not self.failed:
            self.failed.append("(no test ran)")
        return self

    def told(self, seconds):
        """As people read it."""
        lines = [f"{self.suite}: {len(self.passed)} passed, {len(self.left_out)} left out, {len(self.failed)} failed, "
                 f"{seconds:.0f} s"]
        lines += [f"  left out {name}: {why}" for name, why in sorted(self.left_out.items())]
        lines += [f"  FAILED {name}" for name in self.failed]
        return "\n".join(lines)


def of_go(outcome, text):
    """`go test -v`: every test without further tests below it."""
    verdicts = re.findall(r"^ *--- (PASS|FAIL|SKIP): (\S+)", text, re.MULTILINE)
    parents = {name.rsplit("/", 1)[0] for _, name in verdicts if "/" in name}
    for verdict, name in verdicts:
        if name not in parents or verdict == "FAIL":
            outcome.say(name, verdict.lower())
    if re.search(r"^(panic:|fatal error:)", text, re.MULTILINE):
        outcome.failed.append("(the test program died)")


def of_cargo(outcome, text):
    """`cargo test`: the lines of the test programs."""
    # What a test prints may come between its name and its verdict.
    for name, verdict in re.findall(r"^test (\S+) \.\.\. .*?(ok|FAILED|ignored)\b", text, re.MULTILINE | re.DOTALL):
        outcome.say(name, {"ok": "pass", "FAILED": "fail", "ignored": "skip"}[verdict])


def of_pytest(outcome, report):
    """A JUnit report, as pytest writes it."""
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        verdict = "fail" if kinds & {"failure", "error"} else "skip" if "skipped" in kinds else "pass"
        outcome.say(f"{case.get('classname').rsplit('.', 1)[-1]}.{case.get('name')}", verdict)
