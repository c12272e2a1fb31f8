"""What the broker says it serves is what `docs/api-versions.md` says of it, and every difference from Kafka has a reason."""

import struct
from pathlib import Path

import pytest

from peers.rawwire import API_VERSIONS, Connection

TABLE = Path(__file__).resolve().parents[2] / "docs" / "api-versions.md"


def versions(text):
    """`1-4`, `2` or `-`."""
    if text == "-":
        return None
    least, _, most = text.partition("-")
    return int(least), int(most or least)


def documented():
    """By key: Kafka's versions, ours, and the reason for a difference."""
    lines = [line.strip("| \n").split("|") for line in TABLE.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line] for line in lines]
    rows = [row + [""] * (5 - len(row)) for row in cells if row[0].isdigit()]
    return {int(key): (versions(kafka), versions(ours), why) for key, _, kafka, ours, why in rows}


def test_versions_are_as_documented(request, broker):
    target = request.config.getoption("--target")
    if target not in ("forebay", "kafka"):
        pytest.skip("the page is about Forebay and Kafka 4.3.0")
    with Connection(broker.port) as connection:
        answer = connection.request(API_VERSIONS, 0, b"")
    code, count = struct.unpack_from(">hi", answer)
    assert code == 0
    served = {key: (least, most) for key, least, most in struct.iter_unpack(">hhh", answer[6 : 6 + 6 * count])}
    column = 0 if target == "kafka" else 1
    assert served == {key: row[column] for key, row in documented().items() if row[column]}


def test_every_difference_has_a_reason_and_only_differences_have():
    for key, (kafka, ours, why) in documented().items():
        assert (kafka != ours) == bool(why), key
