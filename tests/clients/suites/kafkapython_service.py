"""Stands in for the module that kafka-python's source package leaves out; copied there as test/service.py."""

import os
import tempfile
from pathlib import Path

from peers.broker import Forebay
from peers.kafka import Kafka
from peers.rights import add_scram, listener

KINDS = {"forebay": Forebay, "kafka": Kafka}


class ExternalService:
    """A broker that somebody else started."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        """It runs already."""

    def stop(self):
        """Whoever started it stops it."""

    def dump_logs(self):
        """Whoever started it keeps its log."""


class SpawnedService:
    """A broker that the tests start: of the kind that is tested, with a listener as the tests wrote it (kafkapython.TEMPLATES)."""

    def __init__(self, args, _env=None):
        lines = Path(args[-1]).read_text().splitlines()
        self.wanted = dict(line.split("=", 1) for line in lines if line)
        self.home = tempfile.TemporaryDirectory(prefix="logins-")
        self.broker = None

    def start(self):
        wanted = self.wanted
        options = {"node_id": 0} if os.environ["BROKER_KIND"] == "kafka" else {}
        self.broker = KINDS[os.environ["BROKER_KIND"]](home=self.home.name, **options)
        module, _, _ = wanted["jaas"].rpartition(";")
        _, settings = listener(self.broker, wanted["mechanism"], module, port=int(wanted["port"]))
        if wanted["transport"] == "SSL":
            protocols = "PLAINTEXT:PLAINTEXT,LOGIN:SSL,CONTROLLER:PLAINTEXT"
            settings = {name: value for name, value in settings.items() if "sasl" not in name}
            settings["listener.security.protocol.map"] = protocols
            settings |= {name: value for name, value in wanted.items() if name.startswith("ssl.")}
        self.broker.properties |= {"node.id": 0, **settings}
        self.broker.start()
        if wanted["transport"] != "SSL" and wanted["mechanism"].startswith("SCRAM"):
            add_scram(self.broker, wanted["mechanism"], wanted["user"], wanted["password"])

    def wait_for(self, _pattern, timeout=None):
        """It has started, and knows its users."""
        return True

    def stop(self):
        self.broker.end()
        self.home.cleanup()

    def dump_logs(self):
        """They are in its folder."""
