"""Kafka's descriptions of its messages, as its client jar carries them: which fields a version has, of which type."""

import functools
import json
import re
import zipfile
from dataclasses import dataclass, field

from peers import kafka

FOREVER = 32767


@dataclass(frozen=True)
class Versions:
    """A range of versions; empty when the first is after the last."""

    first: int
    last: int

    @classmethod
    def parse(cls, text):
        if text is None or text == "none":
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), FOREVER)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version):
        return self.first <= version <= self.last


@dataclass(frozen=True)
class Field:
    name: str
    type: str
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int | None
    default: object
    key: bool
    fields: tuple = ()

    @property
    def element(self):
        """The type of an array's elements; none for what is no array."""
        return self.type[2:] if self.type.startswith("[]") else None


@dataclass(frozen=True)
class Message:
    name: str
    key: int | None
    versions: Versions
    flexible: Versions
    fields: tuple = field(default=())


def _fields(described, structs):
    made = []
    for one in described:
        type_ = one["type"]
        inner = one.get("fields") or structs.get(type_.removeprefix("[]"))
        versions = Versions.parse(one.get("versions"))
        made.append(Field(
            name=one["name"], type=type_, versions=versions, nullable=Versions.parse(one.get("nullableVersions")),
            tagged=Versions.parse(one.get("taggedVersions")), tag=one.get("tag"), default=one.get("default"),
            key=one.get("mapKey", False), fields=_fields(inner, structs) if inner else ()))
    return tuple(made)


@functools.cache
def _jar():
    return zipfile.ZipFile(kafka.install() / f"kafka-clients-{kafka.VERSION}.jar")


@functools.cache
def message(name):
    """The message with this name, `ProduceRequest`."""
    text = _jar().read(f"common/message/{name}.json").decode()
    described = json.loads(re.sub(r"^\s*//.*$|(?<=[\s,\]}])//.*$", "", text, flags=re.MULTILINE))
    structs = {one["name"]: one["fields"] for one in described.get("commonStructs", [])}
    return Message(
        name=name, key=described.get("apiKey"), versions=Versions.parse(described["validVersions"]),
        flexible=Versions.parse(described.get("flexibleVersions")), fields=_fields(described.get("fields", []), structs))


@functools.cache
def keys():
    """The name of every request by its key, without `Request`."""
    names = (re.fullmatch(r"common/message/(\w+)Request\.json", path) for path in _jar().namelist())
    return {message(f"{found[1]}Request").key: found[1] for found in names if found}
