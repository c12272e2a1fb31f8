"""Kafka Connect standalone: a file becomes a topic, the topic becomes a file, over a restart of the worker."""

from clients.suites import jvm
from clients.suites.outcome import Outcome
from peers import secured
from peers.process import free_port, wait_until

PROGRAM = "org.apache.kafka.connect.cli.ConnectStandalone"
CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
LINES = 2000


def clients_of(broker):
    """Settings of the worker and of the clients that it makes for its connectors."""
    each = [secured.java(broker, f"{kind}.", address=False) for kind in ("producer", "consumer", "admin")]
    found = secured.java(broker)
    for settings in each:
        found |= settings
    return found


def configs(broker, folder):
    worker = jvm.properties(
        folder / "worker.properties", **clients_of(broker), key__converter=CONVERTER, value__converter=CONVERTER,
        offset__storage__file__filename=folder / "offsets", offset__flush__interval__ms=500, plugin__discovery="service_load",
        listeners=f"HTTP://127.0.0.1:{free_port()}")
    source = jvm.properties(
        folder / "source.properties", name="file-source", tasks__max=1, file=folder / "in.txt", topic="lines",
        **{"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector"})
    sink = jvm.properties(
        folder / "sink.properties", name="file-sink", tasks__max=1, file=folder / "out.txt", topics="lines",
        **{"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector"})
    return worker, source, sink


def connect(broker, log, short):
    outcome, folder = Outcome("connect"), log.parent / "connect-work"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("in.txt", "out.txt", "offsets"):
        (folder / name).unlink(missing_ok=True)
    (folder / "in.txt").touch()
    files = configs(broker, folder)
    wanted = []
    for end in ("stop", "stay"):
        worker = jvm.spawn(PROGRAM, *files, log=log)
        try:
            fresh = [f"{end} {i}" for i in range(LINES)]
            with open(folder / "in.txt", "a") as out:
                out.writelines(f"{line}\n" for line in fresh)
            wanted += fresh

            def arrived():
                assert worker.alive(), worker.tail()
                path = folder / "out.txt"
                return path.exists() and len(path.read_text().splitlines()) >= len(wanted)

            wait_until(arrived, "all lines in the file of the sink", 180, every=0.2)
            worker.stop()
        finally:
            worker.kill()
        same = (folder / "out.txt").read_text().splitlines() == wanted
        outcome.say(f"file to topic to file, {end}", "pass" if same else "fail")
    return outcome.judge()
