"""Two answers to the same command, without what is each broker's own, and the fields in which they differ.

Text is compared line by line, JSON by paths whose steps are names where there are names. Reasons are in reasons.toml.
"""

import difflib
import fnmatch
import json
import re
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
# Numbers that are those of one moment, or of one run.
OWN_FIELDS = {"total_bytes", "usable_bytes", "start_ms", "running_ms", "last_timestamp", "last_caught_up_ms", "port", "producer_id"}
OWN_COLUMNS = {"TOTAL", "USABLE", "LAST-TIME", "LAST-CAUGHT-UP", "PRODUCER-ID"}
OWN_FACTS = re.compile(r"^(START|RUNNING-MS|PRODUCER-ID)( +)(\d{4}-\S+|\d+)$")
# When something was looked at, and for how long.
MOMENTS = [(re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z$"), "MOMENT"), (re.compile(r"\bproducer \d+\b"), "producer ID")]
# Ids that a broker or a client draws: of topics and clusters, of members.
DRAWN = [(re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UUID"),
         (re.compile(r"(?<![\w-])[A-Za-z0-9_-]{22}(?![\w-])"), "ID")]
# What names a thing in a list, in this order.
KEYS = [("name",), ("transactional_id",), ("topic", "partition"), ("partition",), ("dir",), ("id",),
        ("type",)]


class Own:
    """What is a broker's own: each of these texts stands for itself."""

    def __init__(self, **texts):
        # The longest first: an address has a port in it.
        self.texts = sorted(((str(text), name.upper()) for name, text in texts.items()), key=lambda one: -len(one[0]))

    def masked(self, text):
        for own, name in self.texts:
            text = re.sub(rf"(?<!\d){re.escape(own)}(?!\d)", name, text)
        for pattern, name in DRAWN:
            text = pattern.sub(name, text)
        return "\n".join(one_line(line) for line in text.split("\n"))


def one_line(line):
    for pattern, name in MOMENTS:
        line = pattern.sub(name, line)
    return line


class Answer:
    """What a command said and how it ended, in the words of both brokers."""

    def __init__(self, own, code, out, err, only=None, is_json=False):
        self.code = code
        self.err = own.masked(err).splitlines()
        self.out = None
        self.json = None
        if only is not None:
            # Found and not found is a fact, too.
            found = [one for line in own.masked(out + err).splitlines() for one in re.findall(only, line)]
            self.out, self.err = sorted({" ".join(one.split()) for one in found}), []
        elif is_json and (lines := out.splitlines()):
            documents = [json.loads(out)] if lines[0] in ("[", "{", "[]", "{}") else [json.loads(line) for line in lines]
            self.json = {own.masked(path): own.masked(value) if isinstance(value, str) else value
                         for path, value in flat(documents[0] if len(documents) == 1 else documents)}
        else:
            self.out = blank_columns(own.masked(out).splitlines())


def flat(value, path=""):
    """(path, value) of everything in a document."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flat("*" if key in OWN_FIELDS and inner is not None else inner, f"{path}.{key}")
    elif isinstance(value, list):
        yield f"{path}#", len(value)
        for step, inner in zip(steps(value), value, strict=True):
            yield from flat(inner, f"{path}[{step}]")
    else:
        yield path, value


def steps(things):
    """A name for each of the things in a list: by what they have for a name, if no two have the same."""
    for keys in KEYS:
        if all(isinstance(one, dict) and all(key in one for key in keys) for one in things):
            names = ["-".join(str(one[key]) for key in keys) for one in things]
            if len(set(names)) == len(names):
                return names
    return range(len(things))


def blank_columns(lines):
    """The lines of tables as cells, without widths, and without what is of one moment."""
    head, shown = None, []
    for line in lines:
        line = OWN_FACTS.sub(r"\1\2*", line)
        cells = re.split(r" {2,}", line)
        if len(cells) > 1 and all(re.fullmatch(r"[A-Z][A-Z-]*", cell) for cell in cells):
            head = cells
        elif not line:
            head = None
        elif head and len(head) == len(cells):
            cells = ["*" if name in OWN_COLUMNS and cell != "-" else cell for name, cell in zip(head, cells, strict=True)]
        shown.append("  ".join(cells))
    return shown


def differences(theirs, ours):
    """(where, Kafka, ours) for all that differs."""
    if theirs.code != ours.code:
        yield "exit code", theirs.code, ours.code
    yield from lines("stderr", theirs.err, ours.err)
    if theirs.json is not None and ours.json is not None:
        for path in sorted(theirs.json.keys() | ours.json.keys()):
            kafka, forebay = theirs.json.get(path, "absent"), ours.json.get(path, "absent")
            if kafka != forebay:
                yield path, kafka, forebay
    elif (theirs.json is None) != (ours.json is None):
        yield "stdout", theirs.json or theirs.out, ours.json or ours.out
    else:
        yield from lines("stdout", theirs.out, ours.out)


def lines(stream, theirs, ours):
    matcher = difflib.SequenceMatcher(None, theirs, ours, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind != "equal":
            for row in range(max(b - a, d - c)):
                yield (stream, theirs[a + row] if a + row < b else "absent", ours[c + row] if c + row < d else "absent")


class Reasons:
    """The table of differences that have a reason: each entry is about some command, place and answers."""

    def __init__(self, path=HERE / "reasons.toml"):
        self.entries = tomllib.loads(path.read_text()).get("difference", [])
        self.used = set()

    def explains(self, line, where, kafka, forebay):
        fields = {"line": line, "where": where, "kafka": str(kafka), "forebay": str(forebay)}
        for index, entry in enumerate(self.entries):
            if all(fits(entry[key], value) for key, value in fields.items() if key in entry):
                self.used.add(index)
                return True
        return False

    def unused(self):
        return [entry for index, entry in enumerate(self.entries) if index not in self.used]


def fits(patterns, text):
    patterns = [patterns] if isinstance(patterns, str) else patterns
    return any(fnmatch.fnmatchcase(text, pattern) for pattern in patterns)
