"""The Kafka protocol by hand, for what no client library sends: frames cut short, lengths that lie, unknown versions.

Only the few requests that the tests need, in old fixed-width versions where they exist. Not a client.
"""

import socket
import struct

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
# Bytes of one call. A kernel that does not preempt itself copies megabytes at a time, and nothing else runs on that processor for
# milliseconds: a peer on another machine would not be in the way.
PIECE = 16 << 10


def string(text):
    """A nullable string with a 16-bit length."""
    if text is None:
        return struct.pack(">h", -1)
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def header(api, version, correlation=1, client="raw", flexible=False):
    """Request header version 1, or 2 (with an empty tag section) for flexible requests."""
    return struct.pack(">hhi", api, version, correlation) + string(client) + (b"\0" if flexible else b"")


def frame(payload):
    return struct.pack(">i", len(payload)) + payload


class Closed(Exception):
    """The peer closed the connection."""


class Connection:
    """One TCP connection that speaks frames, or whatever bytes a test wants."""

    def __init__(self, port, timeout=20.0):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, raw):
        try:
            view = memoryview(raw)
            for at in range(0, len(view), PIECE):
                self.socket.sendall(view[at:at + PIECE])
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error

    def _exactly(self, count):
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self.socket.recv(min(count - len(parts), PIECE))
            except ConnectionResetError as error:
                raise Closed from error
            if not part:
                raise Closed
            parts += part
        return bytes(parts)

    def receive(self):
        """The next frame without its length."""
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def request(self, api, version, body, **options):
        """Sends a request; returns the answer behind its correlation id."""
        self.send(frame(header(api, version, **options) + body))
        answer = self.receive()
        assert struct.unpack(">i", answer[:4])[0] == options.get("correlation", 1)
        return answer[4:]

    def expect_closed(self):
        """Passes when the peer closes the connection without an answer."""
        try:
            answer = self.receive()
        except Closed:
            return
        raise AssertionError(f"the connection should have been closed, but {len(answer)} bytes came")


def brokers(port, timeout=20.0):
    """The number of brokers in a Metadata (version 1) answer for no topics."""
    with Connection(port, timeout) as connection:
        answer = connection.request(METADATA, 1, struct.pack(">i", 0))
    return struct.unpack(">i", answer[:4])[0]
