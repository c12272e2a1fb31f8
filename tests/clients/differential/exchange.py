"""Asking one broker, and keeping what was asked and answered.

Invariant: what is kept under a name is the same question for every broker; only ids that brokers choose differ.
"""

import struct
import time

from clients.differential import codec, schema
from peers.process import wait_until
from peers.rawwire import Closed, Connection, frame, header, string

# Over in a moment: loading, moving, being made, another transaction still ending.
PASSES = {5, 6, 14, 15, 16, 51}
PATIENCE_SECONDS = 30
CLOSED = {"closed": True}
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36


def codes(value):
    """Every error code in an answer."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.endswith("ErrorCode") or name == "ErrorCode":
                yield inner
            else:
                yield from codes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from codes(inner)


def whole(request, version, values, body=None):
    """A request with its header."""
    body = codec.encode(request, version, values) if body is None else body
    return header(request.key, version, client="differential", flexible=version in request.flexible) + body


class Recorder:
    """One broker, and the answers that it gave: (api, what, version) to a message."""

    def __init__(self, broker):
        self.broker = broker
        self.port = broker.port
        # All that clients are told to connect to.
        self.ports = {broker.port}
        self.answers = {}
        self.connection = None
        self.names = {}
        # Of the topics that were made, by their names.
        self.ids = {}
        self.asking = None
        answer = self.once("ApiVersions", 0, {})
        self.served = {one["ApiKey"]: (one["MinVersion"], one["MaxVersion"]) for one in answer["ApiKeys"]}
        self.versions = dict(self.served)

    def agree(self, other):
        """Only versions that both serve are asked for."""
        both = self.served.keys() & other.served.keys()
        self.versions = {key: (max(self.served[key][0], other.served[key][0]), min(self.served[key][1], other.served[key][1]))
                         for key in both}

    def close(self):
        if self.connection:
            self.connection.socket.close()
            self.connection = None

    def connect(self):
        return Connection(self.port, timeout=60)

    def raw(self, payload):
        """Sends a frame; the answer, or none if the broker closed the connection."""
        try:
            self.connection = self.connection or self.connect()
            self.connection.send(frame(payload))
            return self.connection.receive()
        except Closed:
            self.close()
            return None
        except TimeoutError as silent:
            self.close()
            raise TimeoutError(f"{self.broker.name} does not answer {self.asking}") from silent

    def once(self, api, version, values, body=None):
        """One exchange; `body` in place of what the values encode to."""
        request, response = schema.message(f"{api}Request"), schema.message(f"{api}Response")
        flexible = version in request.flexible
        answer = self.raw(whole(request, version, values, body))
        if answer is None:
            return CLOSED
        behind = 5 if flexible and api != "ApiVersions" else 4
        return codec.decode(response, version, answer[behind:])

    def range(self, api):
        """The versions of a request that both brokers serve."""
        first, last = self.versions.get(schema.message(f"{api}Request").key, (1, 0))
        return range(first, last + 1)

    def patiently(self, api, version, values):
        """Asks until nothing in the answer is of the kind that passes."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self.once(api, version, values)
            if not PASSES & set(codes(answer)) or time.monotonic() > deadline:
                return answer
            time.sleep(0.02)

    def ask(self, api, what, values, versions=None, patient=True):
        """Asks in every version (or those given) and keeps the answers. `values` may be a function of the version."""
        answer = None
        for version in self.range(api):
            if versions is not None and version not in versions:
                continue
            said = values(version) if callable(values) else values
            self.asking = api, what, version
            answer = self.patiently(api, version, said) if patient else self.once(api, version, said)
            self.answers[api, what, version] = answer
        return answer

    def newest(self, api, what, values, **options):
        """Asks in the newest version only: for what changes the broker."""
        versions = self.range(api)[-1:]
        return self.ask(api, what, values, versions=versions, **options)

    def until(self, api, values, condition):
        """Asks, without keeping it, until the answer is so."""
        version = self.range(api)[-1]

        def asked():
            answer = self.once(api, version, values)
            return answer if condition(answer) else None

        return wait_until(asked, f"{self.broker.name}: {api} to be so", PATIENCE_SECONDS)


class User(Recorder):
    """Somebody who logs in by PLAIN, his name being the password. Keeps what he is answered where `recorder` does, with his name."""

    def __init__(self, recorder, name, port):
        recorder.ports.add(port)
        vars(self).update(vars(recorder))
        self.recorder, self.name, self.port, self.connection = recorder, name, port, None

    def connect(self):
        connection = super().connect()
        connection.request(SASL_HANDSHAKE, 1, string("PLAIN"))
        token = f"\0{self.name}\0{self.name}".encode()
        answer = connection.request(SASL_AUTHENTICATE, 1, struct.pack(">i", len(token)) + token)
        assert answer[:2] == b"\0\0", f"{self.broker.name}: {self.name} is not let in: {answer}"
        return connection

    def ask(self, api, what, values, versions=None, **options):
        """Asks in the first of the versions, the last, and one between."""
        return super().ask(api, f"{self.name}: {what}", values, versions=self.few(api, versions), **options)

    def few(self, api, versions=None):
        able = [version for version in self.range(api) if versions is None or version in versions]
        return sorted({able[0], able[len(able) // 2], able[-1]}) if able else []

    def silent(self, api, version, values):
        """Sends what is not answered."""
        self.connection = self.connection or self.connect()
        self.connection.send(frame(whole(schema.message(f"{api}Request"), version, values)))

    def eventually(self, api, what, values, condition, seconds=10):
        """Asks until the answer is so, and keeps the last one; also if it is never so, which is a difference then."""
        version, deadline = self.range(api)[-1], time.monotonic() + seconds
        while True:
            answer = self.once(api, version, values() if callable(values) else values)
            if answer != CLOSED and condition(answer) or time.monotonic() > deadline:
                self.answers[api, f"{self.name}: {what}", version] = answer
                return answer
            time.sleep(0.02)
