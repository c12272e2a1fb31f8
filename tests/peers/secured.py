"""Listeners of a broker that speak TLS, beside the one of every test: TLS alone, with client certificates, and SASL_SSL; and
how clients get in there."""

import json

from peers.keys import Keys
from peers.process import free_port
from peers.rights import AUTHORIZER, MODULE, add_scram

USER, PASSWORD = "suite", "a-long-word-of-the-suite"
MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"]


class Secured:
    """The listeners TLS, MUTUAL and LOGIN of a broker that has not been started yet. The user of LOGIN may do everything."""

    def __init__(self, broker, home, mechanism="SCRAM-SHA-512", **settings):
        home.mkdir(parents=True, exist_ok=True)
        self.broker, self.home, self.mechanism = broker, home, mechanism
        self.keys = Keys(home)
        self.pem = self.keys.issue("server", "/CN=server/O=Example")
        self.ports = {name: free_port() for name in ("TLS", "MUTUAL", "LOGIN")}
        self.tls, self.mutual, self.login = (f"localhost:{port}" for port in self.ports.values())
        broker.properties |= self.settings() | settings
        broker.secured = self

    def settings(self):
        inside = [f"PLAINTEXT://{self.broker.address}"]
        bound = inside + [f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()]
        told = inside + [f"{name}://localhost:{port}" for name, port in self.ports.items()]
        controller = [f"CONTROLLER://127.0.0.1:{self.broker.controller_port}"] if self.broker.name == "kafka" else []
        scram = f'{MODULE.format("scram.Scram")};'
        return {
            "listeners": ",".join(bound + controller),
            "advertised.listeners": ",".join(told),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,MUTUAL:SSL,LOGIN:SASL_SSL,CONTROLLER:PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.pem,
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.mutual.ssl.truststore.type": "PEM",
            "listener.name.mutual.ssl.truststore.location": self.keys.ca,
            "listener.name.login.sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.login.scram-sha-256.sasl.jaas.config": scram,
            "listener.name.login.scram-sha-512.sasl.jaas.config": scram,
            "listener.name.login.plain.sasl.jaas.config": f'{MODULE.format("plain.Plain")} user_{USER}="{PASSWORD}";',
            "authorizer.class.name": AUTHORIZER,
            "super.users": f"User:{USER};User:ANONYMOUS",
        }

    def open(self):
        """Makes the user, once the broker serves."""
        for mechanism in MECHANISMS[:2]:
            add_scram(self.broker, mechanism, USER, PASSWORD)
        return self

    def java(self, prefix="", address=True):
        """Settings of Kafka's clients, each name after `prefix`."""
        kind = "plain.Plain" if self.mechanism == "PLAIN" else "scram.Scram"
        found = {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.keys.ca,
            "sasl.mechanism": self.mechanism,
            "sasl.jaas.config": f'{MODULE.format(kind)} username="{USER}" password="{PASSWORD}";',
        }
        if address:
            found["bootstrap.servers"] = self.login
        return {prefix + name: value for name, value in found.items()}

    def config(self):
        """The same as a file for Kafka's tools."""
        file = self.home / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in self.java(address=False).items()))
        return file

    def librdkafka(self, **more):
        return {"bootstrap.servers": self.login, "security.protocol": "SASL_SSL", "ssl.ca.location": str(self.keys.ca),
                "sasl.mechanism": self.mechanism, "sasl.username": USER, "sasl.password": PASSWORD, **more}

    def kafka_python(self):
        """Settings of kafka-python's clients, without the address."""
        return {"security_protocol": "SASL_SSL", "ssl_cafile": str(self.keys.ca), "sasl_mechanism": self.mechanism,
                "sasl_plain_username": USER, "sasl_plain_password": PASSWORD}

    def driver(self):
        """The environment of a driver (clients/drivers) that gets in here; its address is `login`."""
        return {"DRIVER_SECURITY": json.dumps({"ca": str(self.keys.ca), "user": USER, "password": PASSWORD,
                                               "mechanism": self.mechanism})}


def java(broker, prefix="", address=True):
    """Settings of Kafka's clients for a broker, secured or not."""
    if broker.secured:
        return broker.secured.java(prefix, address)
    return {prefix + "bootstrap.servers": broker.address} if address else {}
