"""Which fields of two answers differ.

What brokers choose freely gets a name first: ids by the order in which they were seen, ports, directories, clocks. Of an
error's words only whether there are any is compared: they are for people, and each broker has its own. Elements of arrays
are told apart by their keys where they have any, so their order is not compared.
"""

import re
import struct
import uuid

# Fields by which the elements of an array are told apart, best first.
KEYS = ["TransactionalId", "ResourceName", "GroupId", "ApiKey", "TopicName", "Topic", "Name", "TopicId", "PartitionIndex", "Partition",
        "Index", "ProducerId", "MemberId", "NodeId", "BrokerId", "LogDir", "Key", "EntityType", "User"]
# All that an ACL is.
ACL = ["ResourceType", "PatternType", "ResourceName", "Principal", "Host", "Operation", "PermissionType"]
# Clocks and sizes: only whether there is one.
CLOCKS = {"LastTimestamp", "TransactionStartTimeMs", "LogAppendTimeMs", "TotalBytes", "UsableBytes", "LastFetchTimestamp",
          "LastCaughtUpTimestamp", "PartitionSize"}
WORDS = {"ErrorMessage", "BatchIndexErrorMessage", "Documentation"}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Names:
    """What one broker chose, by names that are the same for both."""

    def __init__(self, recorder, exact=False):
        # Whether words are told apart.
        self.exact = exact
        self.ports, self.data = recorder.ports, str(recorder.broker.data)
        self.known = dict(recorder.names)
        self.producers = {}

    def plain(self, field, value):
        if isinstance(value, uuid.UUID):
            return self.known.get(value, "no id" if value.int == 0 else "an id")
        if field in WORDS:
            return value if self.exact else "words" if value else None
        if field in CLOCKS:
            return "a clock" if value > 0 else value
        if field == "ProducerId" and value >= 0:
            return f"producer {self.producers.setdefault(value, len(self.producers))}"
        if field == "SessionId" and value > 0:
            return "a session"
        if field == "Port" and value in self.ports:
            return "its port"
        if isinstance(value, bytes):
            return value.hex()
        if isinstance(value, str) and value in self.known:
            return self.known[value]
        if isinstance(value, str):
            value = UUID.sub("UUID", value).replace(self.data, "its directory")
            for port in self.ports:
                value = value.replace(f":{port}", ":its port")
            return "its id" if field == "ClusterId" else value
        return value


def batches(raw):
    """Record batches by their headers; not their checksums, which follow from what they hold."""
    at, found = 0, []
    while raw and at + 61 <= len(raw):
        base, length, epoch, magic = struct.unpack(">qiib", raw[at:at + 17])
        rest = struct.unpack(">hiqqqhii", raw[at + 21:at + 61])
        names = ["Attributes", "LastDelta", "BaseTimestamp", "MaxTimestamp", "ProducerId", "ProducerEpoch", "BaseSequence", "Count"]
        # A marker's record ends with the epoch of a coordinator; its time is its own.
        control = rest[0] & 0x20
        fields = dict(zip(names, rest, strict=True))
        if control:
            fields["BaseTimestamp"] = fields["MaxTimestamp"] = "a clock"
        found.append({"BaseOffset": base, "BatchLeaderEpoch": epoch, "Magic": magic, **fields,
                      "Bytes": "a marker" if control else raw[at + 61:at + 12 + length].hex()})
        at += 12 + length
    return found


def flat(value, names, path="", field=""):
    """Every field by its path."""
    if field == "Records":
        yield from flat(batches(value), names, path)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from flat(inner, names, f"{path}.{name}".lstrip("."), name)
    elif isinstance(value, list):
        if not value or not isinstance(value[0], dict):
            yield f"{path}.count", len(value)
        seen = {}
        for index, inner in enumerate(value):
            label = _label(inner, names, index)
            seen[label] = seen.get(label, -1) + 1
            again = f"#{seen[label]}" if seen[label] else ""
            yield from flat(inner, names, f"{path}[{label}{again}]", field)
    else:
        yield path, names.plain(field, value)


def _label(element, names, index):
    """What tells an element from others, as a reader would say it; its place where nothing does."""
    if not isinstance(element, dict):
        return index
    if "PermissionType" in element:
        return ":".join(str(element[key]) for key in ACL if key in element)
    for key in KEYS:
        if element.get(key) is not None and not isinstance(element[key], (dict, list)):
            label = names.plain(key, element[key])
            if label != "no id":
                kinds = [element[kind] for kind in ("ResourceType", "PatternType") if kind in element]
                return ":".join(map(str, [*kinds, label])) if kinds else label
    return index


def differences(ours, theirs):
    """(api, what, version, path, Kafka's value, ours) of every field that differs; both are recorders.

    An element that only one has is one difference. Where a question names its version, so that each version has its own
    topic, the name is the same for all. What is asked may follow from an answer, and then one may not have been asked.
    """
    names = Names(theirs), Names(ours)
    for asked in {**theirs.answers, **ours.answers}:
        if not (asked in theirs.answers and asked in ours.answers):
            yield (*asked, "asked", asked in theirs.answers, asked in ours.answers)
            continue
        kafka, forebay = (dict(flat(one.answers[asked], known)) for one, known in zip((theirs, ours), names, strict=True))
        elements = [set(_elements(one)) for one in (kafka, forebay)]
        said = set()
        for path in [*kafka, *(path for path in forebay if path not in kafka)]:
            one, other = (_said(side.get(path, "absent")) for side in (kafka, forebay))
            lone = next((element for element in _of(path) if (element in elements[0]) != (element in elements[1])), None)
            if lone is not None:
                path, one, other = (lone, "present", "absent") if lone in elements[0] else (lone, "absent", "present")
            if one != other and path not in said:
                said.add(path)
                yield (*asked, path.replace(f"-{asked[2]}]", "-V]"), one, other)


def told(ours, theirs, about):
    """(api, what, version, path, Kafka's words, ours) where the words with the same error code of `about` differ.

    Not where Kafka tells all that it knows of the request.
    """
    names = Names(theirs, exact=True), Names(ours, exact=True)
    for asked in theirs.answers.keys() & ours.answers.keys():
        kafka, forebay = (dict(flat(one.answers[asked], known)) for one, known in zip((theirs, ours), names, strict=True))
        for path, words in kafka.items():
            code = path.replace("Message", "Code")
            same = code != path and kafka.get(code) in about and forebay.get(code) == kafka[code] and path in forebay
            if same and words != forebay[path] and not str(words).startswith("Request Request("):
                yield (*asked, path, words, forebay[path])


def _said(value):
    return "null" if value is None else value


def _of(path):
    """The elements of arrays that a path goes through, outermost first."""
    return [path[:found.end()] for found in re.finditer(r"\]", path)]


def _elements(paths):
    return (element for path in paths for element in _of(path))
