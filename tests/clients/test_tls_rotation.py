"""Certificates that are renewed each second under load, torn and wrong files among them: no record is lost or there twice, and
every handshake succeeds.

    pytest clients/test_tls_rotation.py --seconds 300
"""

import random
import shutil
import socket
import ssl
import struct
import threading
import time
import urllib.request

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from peers.broker import Forebay
from peers.process import free_port, wait_until
from peers.secured import Secured

SUBJECT = "/CN=server/O=Example"
TOPIC, PARTITIONS = "rotated", 3

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


class Prober(threading.Thread):
    """Connects anew, again and again, verifies what it is shown, and asks something."""

    def __init__(self, secured, stop):
        super().__init__(daemon=True)
        self.secured, self.stop = secured, stop
        self.failed, self.serials = [], set()
        self.count = 0

    def run(self):
        while not self.stop.is_set():
            begun = time.time()
            try:
                self.serials.add(self.once())
            except (OSError, AssertionError) as error:
                self.failed.append((begun, repr(error)))
            self.count += 1
            time.sleep(0.02)

    def once(self):
        host, port = self.secured.tls.split(":")
        # A context of its own each time: nothing is resumed.
        context = ssl.create_default_context(cafile=self.secured.keys.ca)
        with socket.create_connection((host, int(port)), timeout=20) as plain:
            with context.wrap_socket(plain, server_hostname=host) as secured:
                secured.sendall(struct.pack(">ihhih", 10, 18, 0, 7, -1))
                assert len(secured.recv(4)) == 4, "no answer"
                return secured.getpeercert()["serialNumber"]


class Load(threading.Thread):
    """A producer that numbers what it sends; `acknowledged` are those that it was told are written."""

    def __init__(self, number, settings, stop):
        super().__init__(daemon=True)
        self.number, self.settings, self.stop = number, settings, stop
        self.acknowledged, self.refused = [], []

    def run(self):
        sent = 0
        while not self.stop.is_set():
            # A new connection now and then, for the certificate of the moment.
            producer = Producer({**self.settings, "enable.idempotence": True, "linger.ms": 5})
            for _ in range(random.randint(200, 2000)):
                if self.stop.is_set():
                    break
                value = f"{self.number}:{sent}"
                producer.produce(TOPIC, value, on_delivery=self.told)
                sent += 1
                producer.poll(0.001)
            assert producer.flush(60) == 0

    def told(self, error, message):
        if error:
            self.refused.append(str(error))
        else:
            self.acknowledged.append(message.value().decode())


def renew(keys, number):
    """What an operator, or a script of his, puts in the place of the certificate; whether it ought to be taken."""
    place = keys.home / "server.pem"
    kind = ["whole", "torn", "whole", "mixed", "whole", "absent", "whole", "other", "whole", "in pieces"][number % 10]
    if kind == "whole":
        keys.issue("server", SUBJECT)
    elif kind == "torn":
        text = keys.issue("next", SUBJECT).read_text()
        place.write_text(text[:random.randrange(len(text))])
    elif kind == "mixed":
        keys.issue("next", SUBJECT)
        place.write_text((keys.home / "next.key").read_text() + (keys.home / "ca.pem").read_text())
    elif kind == "absent":
        place.unlink()
    elif kind == "other":
        keys.issue("next", "/CN=elsewhere/O=Example").rename(place)
    else:
        text = keys.issue("next", SUBJECT).read_text()
        with open(place, "w") as out:
            for begin in range(0, len(text), 200):
                out.write(text[begin:begin + 200])
                out.flush()
                time.sleep(0.05)
    return kind in ("whole", "in pieces")


def read_all(settings, wanted):
    """Every record of the topic, by a reader that comes in the end."""
    consumer = Consumer({**settings, "group.id": "last", "auto.offset.reset": "earliest", "enable.partition.eof": False})
    consumer.subscribe([TOPIC])
    values = []
    deadline = time.monotonic() + 120
    quiet = time.monotonic() + 5
    while time.monotonic() < deadline and (len(values) < wanted or time.monotonic() < quiet):
        got = consumer.consume(1000, 0.2)
        values += [message.value().decode() for message in got if not message.error()]
        if got:
            quiet = time.monotonic() + 2
    consumer.close()
    return values


def test_certificates_are_renewed_each_second_under_load(request, make_broker, tmp_path):
    if request.config.getoption("--target") != "forebay":
        pytest.skip("Kafka looks at no file by itself")
    seconds = request.config.getoption("--seconds")
    admin_port = free_port()
    broker = make_broker(Forebay, properties={"admin.listener": f"127.0.0.1:{admin_port}"})
    secured = Secured(broker, tmp_path / "keys", **{"ssl.reload.interval.ms": 200, "listener.name.tls.ssl.keystore.location": tmp_path / "keys/server.pem"})
    broker.start()
    secured.open()
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    stop = threading.Event()
    prober = Prober(secured, stop)
    loads = [Load(0, {"bootstrap.servers": secured.tls, "security.protocol": "SSL", "ssl.ca.location": str(secured.keys.ca)}, stop),
             Load(1, secured.librdkafka(), stop)]
    for thread in (prober, *loads):
        thread.start()
    until, number, good = time.monotonic() + seconds, 0, 0
    while time.monotonic() < until:
        begun = time.monotonic()
        good += renew(secured.keys, number)
        number += 1
        time.sleep(max(0, 1 - (time.monotonic() - begun)))
    secured.keys.issue("server", SUBJECT)
    stop.set()
    for thread in (prober, *loads):
        thread.join(120)
    with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/metrics", timeout=30) as answer:
        metrics = answer.read().decode()
    acknowledged = [value for load in loads for value in load.acknowledged]
    read = read_all(secured.librdkafka(), len(acknowledged))
    reloads = {result: int(metrics.split(f'forebay_tls_reloads_total{{listener="TLS",result="{result}"}} ')[1].split()[0])
               for result in ("success", "failure")}
    print(f"{number} files in {seconds:.0f} s ({good} whole), {reloads}, {prober.count} handshakes with {len(prober.serials)} certificates, "
          f"{len(acknowledged)} records")
    assert not prober.failed, prober.failed[:5]
    assert not any(load.refused for load in loads), [load.refused[:3] for load in loads]
    assert sorted(read) == sorted(acknowledged), f"{len(read)} read, {len(acknowledged)} acknowledged"
    assert len(acknowledged) > 100 * seconds
    # Each good one was taken, and the bad ones were seen.
    assert reloads["success"] >= good * 0.8 and reloads["failure"] > 0, reloads
    assert len(prober.serials) >= good * 0.6
    # What is wrong was told of, and the broker is well.
    wait_until(lambda: "those before stay in force" in broker.log.read_text(), "the line")
    assert broker.stop() == 0

