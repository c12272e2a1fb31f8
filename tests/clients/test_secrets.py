"""Secrets in settings, given in every way: a file of settings, config providers, the environment. They are in no line
of the log, metric, answer, or output of ours."""

import os
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from peers.broker import Forebay, forebay_binary
from peers.process import Process, die_with_parent, free_port

CLASS = "org.apache.kafka.common.config.provider"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
CANARY = "canary-0b7e"
# Each says how it was given.
FILE, DIRECTORY, VARIABLE, LITERAL, ENVIRONMENT, UNKNOWN, TOKEN = (
    f"{CANARY}-{way}" for way in ("file", "directory", "variable", "literal", "environment", "unknown", "token"))


class Secretive(Forebay):
    """A broker whose settings are in a file, and some of them in the environment."""

    def __init__(self, *, variables, **options):
        super().__init__(**options)
        self.variables = variables
        self.login = free_port()
        self.admin = free_port()

    @property
    def config(self):
        return self.home / "server.properties"

    def prepare(self):
        secrets = self.home / "secrets"
        secrets.mkdir(exist_ok=True)
        self.write(secrets / "users.properties", f"ada={FILE}\n")
        self.write(secrets / "word", DIRECTORY)
        self.write(self.home / "tokens", f"User:root {TOKEN}-0123456789\n")
        settings = {
            "node.id": 1, "log.dirs": self.data, "log.level": "trace",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},IN://127.0.0.1:{self.login}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,IN:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "admin.listener": f"127.0.0.1:{self.admin}",
            "admin.auth": "bearer", "admin.bearer.tokens.file": self.home / "tokens",
            "config.providers": "file,dir,env",
            "config.providers.file.class": f"{CLASS}.FileConfigProvider",
            "config.providers.file.param.allowed.paths": secrets,
            "config.providers.dir.class": f"{CLASS}.DirectoryConfigProvider",
            "config.providers.env.class": f"{CLASS}.EnvVarConfigProvider",
            "config.providers.env.param.allowlist.pattern": "CANARY_.*",
            "listener.name.in.plain.sasl.jaas.config":
                f'{MODULE} user_ada="${{file:{secrets}/users.properties:ada}}" user_bob="${{dir:{secrets}:word}}" '
                f'user_cyd="${{env:CANARY_WORD}}" user_dan="{LITERAL}";',
            "ssl.key.password": LITERAL, "my.own.password": UNKNOWN, **self.properties,
        }
        lines = [f"{key}={value}\n" for key, value in settings.items()]
        self.write(self.config, "".join(lines))

    @staticmethod
    def write(path, text):
        path.write_text(text)
        path.chmod(0o600)

    def environment(self):
        return {**os.environ, "CANARY_WORD": VARIABLE, "FOREBAY_SSL_TRUSTSTORE_PASSWORD": ENVIRONMENT, **self.variables}

    def spawn(self):
        self.prepare()
        self.process = Process([forebay_binary(), "serve", "--config", self.config], self.log, env=self.environment())

    def run(self, *arguments):
        return subprocess.run(
            [forebay_binary(), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False,
            env=self.environment(), preexec_fn=die_with_parent)

    def page(self, path):
        asked = urllib.request.Request(f"http://127.0.0.1:{self.admin}{path}",
                                       headers={"Authorization": f"Bearer {TOKEN}-0123456789"})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.read().decode()


def secretive(make_broker, **properties):
    return make_broker(Secretive, variables={}, properties={"num.partitions": 3, **properties})


def logs_in(broker, user, password):
    """Whether the client gets metadata."""
    client = Producer({
        "bootstrap.servers": f"127.0.0.1:{broker.login}", "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": password})
    try:
        return bool(client.list_topics(timeout=5).brokers)
    except KafkaException:
        return False


def test_a_secret_is_where_it_is_needed_and_nowhere_else(make_broker):
    broker = secretive(make_broker).start()
    users = {"ada": FILE, "bob": DIRECTORY, "cyd": VARIABLE, "dan": LITERAL}
    for user, password in users.items():
        assert logs_in(broker, user, password), user
    assert not logs_in(broker, "ada", f"{FILE}x")
    admin = AdminClient({"bootstrap.servers": broker.address})
    (described,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    shown = "".join(f"{key}={entry.value}\n" for key, entry in described.result().items())
    assert "num.partitions=3" in shown
    outputs = {
        "log": broker.log.read_text(), "answer": shown,
        "metrics": broker.page("/metrics"), "readyz": broker.page("/readyz"),
        "cmdline": Path(f"/proc/{broker.process.child.pid}/cmdline").read_text(),
    }
    for name, arguments in {
            "show": ["config", "show", "--config", broker.config],
            "given": ["config", "show", "--given", "--format", "json", "--config", broker.config],
            "check": ["config", "check", broker.config], "data": ["config", "check", "--data", broker.config]}.items():
        done = broker.run(*arguments)
        outputs[name] = done.stdout + done.stderr
    assert "by config.providers" in outputs["show"], outputs["show"]
    for name, text in outputs.items():
        assert text and CANARY not in text, name
    assert broker.stop() == 0
    assert CANARY not in broker.log.read_text()


@pytest.mark.parametrize("wrong, said", [
    ({"ssl.keystore.password": "${file:/nowhere:k}"}, "is outside of allowed.paths"),
    ({"ssl.keystore.password": "${env:CANARY_NONE}"}, "ssl.keystore.password=${env:CANARY_NONE}: there is no such"),
    ({"ssl.keystore.password": "${env:HOME}"}, "is not in allowlist.pattern"),
    ({"ssl.keystore.password": "${vault:a:b}"}, "to a config provider that is none of"),
    ({"num.partitions": "${env:CANARY_WORD}"}, "num.partitions=(hidden)"),
    ({"listeners": "${env:CANARY_WORD}"}, "listeners=(hidden)"),
    ({"config.providers.env.class": "com.example.Vault"}, "others cannot be loaded"),
])
def test_a_reference_that_leads_nowhere_refuses_the_start(make_broker, wrong, said):
    broker = secretive(make_broker, **wrong)
    broker.prepare()
    for command in (["serve", "--config", broker.config], ["config", "show", "--config", broker.config],
                    ["config", "check", broker.config]):
        done = broker.run(*command)
        text = done.stdout + done.stderr
        assert done.returncode != 0 and said in text, text
        assert CANARY not in text


def test_a_file_that_others_may_read(make_broker):
    broker = secretive(make_broker)
    broker.prepare()
    (broker.home / "secrets" / "word").chmod(0o644)
    done = broker.run("config", "check", broker.config)
    assert "others than its owner may read" in done.stdout and "chmod 600" in done.stdout, done.stdout
    strict = secretive(make_broker, **{"secrets.permissions": "strict"})
    strict.prepare()
    strict.config.chmod(0o640)
    done = strict.run("serve", "--config", strict.config)
    assert done.returncode == 1 and f"chmod 600 {strict.config}" in done.stderr, done.stderr


def test_values_that_clients_set_are_taken_as_they_are(make_broker):
    broker = secretive(make_broker).start()
    admin = AdminClient({"bootstrap.servers": broker.address})

    def alter(name, value):
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        (altered,) = admin.incremental_alter_configs([resource]).values()
        altered.result()
    with pytest.raises(KafkaException):
        alter("log.cleaner.threads", "${env:CANARY_WORD}")
    with pytest.raises(KafkaException):
        alter("max.connections.per.ip.overrides", "${env:CANARY_WORD}")
    time.sleep(0.2)
    assert CANARY not in broker.log.read_text()
    assert broker.alive()
