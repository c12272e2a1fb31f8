"""Values to bytes and back after a schema. A message is a dict by the names of its fields."""

import struct
import uuid

NUMBERS = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I", "int64": ">q", "float64": ">d"}
ZERO = uuid.UUID(int=0)


class Malformed(ValueError):
    """The bytes are no such message."""


def varint(value):
    raw = bytearray()
    while value > 0x7F:
        raw.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*raw, value])


# Values to bytes


def encode(message, version, values):
    """A message; fields that this version does not have are left out, fields that no version has are a mistake."""
    return _struct(message.fields, version, version in message.flexible, values)


def _struct(fields, version, flexible, values):
    unknown = set(values) - {field.name for field in fields}
    assert not unknown, f"no fields {unknown} among {[field.name for field in fields]}"
    out, tags = bytearray(), {}
    for field in fields:
        if version not in field.versions:
            continue
        value = values[field.name] if field.name in values else default(field, version)
        if version in field.tagged:
            if field.name in values:
                tags[field.tag] = _value(field, field.type, version, flexible, value)
        else:
            out += _value(field, field.type, version, flexible, value)
    if flexible:
        out += varint(len(tags))
        for tag in sorted(tags):
            out += varint(tag) + varint(len(tags[tag])) + tags[tag]
    return bytes(out)


def default(field, version):
    """What a field is when nobody says."""
    if field.default is not None:
        if field.default == "null":
            return None
        if field.type in NUMBERS:
            return int(field.default, 0) if isinstance(field.default, str) else field.default
        return field.default in ("true", True) if field.type == "bool" else field.default
    if field.element:
        return []
    if field.fields:
        return None if version in field.nullable else {}
    return {"string": "", "bytes": b"", "records": None, "uuid": ZERO, "bool": False}.get(field.type, 0)


def _length(length, flexible, wide):
    if flexible:
        return varint(0 if length is None else length + 1)
    return struct.pack(">i" if wide else ">h", -1 if length is None else length)


def _value(field, type_, version, flexible, value):
    if type_.startswith("[]"):
        if value is None:
            return _length(None, flexible, wide=True)
        parts = [_value(field, type_[2:], version, flexible, one) for one in value]
        return _length(len(parts), flexible, wide=True) + b"".join(parts)
    if type_ in NUMBERS:
        return struct.pack(NUMBERS[type_], value)
    if type_ == "bool":
        return bytes([bool(value)])
    if type_ == "uuid":
        return value.bytes
    if type_ in ("string", "bytes", "records"):
        raw = value.encode() if isinstance(value, str) else value
        return _length(None if raw is None else len(raw), flexible, wide=type_ != "string") + (raw or b"")
    if version in field.nullable and not field.element:
        return b"\xff" if value is None else b"\x01" + _struct(field.fields, version, flexible, value)
    return _struct(field.fields, version, flexible, value)


# Bytes to values


class Reader:
    def __init__(self, raw):
        self.raw, self.at = raw, 0

    def take(self, count):
        if count < 0 or self.at + count > len(self.raw):
            raise Malformed(f"{count} bytes at {self.at} of {len(self.raw)}")
        self.at += count
        return self.raw[self.at - count:self.at]

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7


def decode(message, version, raw):
    """A message, which must be all there is."""
    reader = Reader(raw)
    values = _read_struct(reader, message.fields, version, version in message.flexible)
    if reader.at != len(raw):
        raise Malformed(f"{len(raw) - reader.at} bytes behind the message")
    return values


def _read_struct(reader, fields, version, flexible):
    values = {}
    for field in fields:
        if version in field.versions:
            if version in field.tagged:
                values[field.name] = default(field, version)
            else:
                values[field.name] = _read(reader, field, field.type, version, flexible)
    if flexible:
        tagged = {field.tag: field for field in fields if version in field.versions and version in field.tagged}
        for _ in range(reader.varint()):
            tag, raw = reader.varint(), Reader(reader.take(reader.varint()))
            if tag not in tagged:
                values[f"unknown tag {tag}"] = raw.raw
                continue
            values[tagged[tag].name] = _read(raw, tagged[tag], tagged[tag].type, version, flexible)
            if raw.at != len(raw.raw):
                raise Malformed(f"tag {tag} is longer than its value")
    return values


def _read_length(reader, flexible, wide):
    if flexible:
        return reader.varint() - 1
    return reader.number(">i" if wide else ">h")


def _read(reader, field, type_, version, flexible):
    if type_.startswith("[]"):
        length = _read_length(reader, flexible, wide=True)
        return None if length < 0 else [_read(reader, field, type_[2:], version, flexible) for _ in range(length)]
    if type_ in NUMBERS:
        return reader.number(NUMBERS[type_])
    if type_ == "bool":
        return reader.take(1) != b"\0"
    if type_ == "uuid":
        return uuid.UUID(bytes=reader.take(16))
    if type_ in ("string", "bytes", "records"):
        length = _read_length(reader, flexible, wide=type_ != "string")
        raw = None if length < 0 else reader.take(length)
        return raw.decode() if type_ == "string" and raw is not None else raw
    if version in field.nullable and not field.element and reader.number(">b") < 0:
        return None
    return _read_struct(reader, field.fields, version, flexible)
