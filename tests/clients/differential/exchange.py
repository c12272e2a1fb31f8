"""Asking one broker, and keeping what was asked and answered.

Invariant: what is kept under a name is the same question for every broker; only ids that brokers choose differ.
"""

import time

from clients.differential import codec, schema
from peers.process import wait_until
from peers.rawwire import Closed, Connection, frame, header

# Over in a moment: loading, moving, being made, another transaction still ending.
PASSES = {5, 6, 14, 15, 16, 51}
PATIENCE_SECONDS = 30
CLOSED = {"closed": True}


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


class Recorder:
    """One broker, and the answers that it gave: (api, what, version) to a message."""

    def __init__(self, broker):
        self.broker = broker
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

    def raw(self, payload):
        """Sends a frame; the answer, or none if the broker closed the connection."""
        try:
            self.connection = self.connection or Connection(self.broker.port, timeout=60)
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
        body = codec.encode(request, version, values) if body is None else body
        answer = self.raw(header(request.key, version, client="differential", flexible=flexible) + body)
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
