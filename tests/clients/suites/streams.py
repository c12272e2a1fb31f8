"""Kafka Streams' own smoke test: a driver writes for 90 seconds while an application with a dozen stores and twenty
repartitions and change logs works on it, exactly once; the driver then computes what must have come out.

Three applications follow each other, as in Kafka's system test: the first is stopped, the second is killed. The driver has
no settings of its own for TLS and logins: it uses the listener without them.
"""

from clients.client import Client
from clients.suites import jvm
from clients.suites.outcome import Outcome
from peers import secured

PROGRAM = "org.apache.kafka.streams.tests.StreamsSmokeTest"
TOPICS = ["data", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum", "sws-raw", "sws-suppressed", "cnt", "avg",
          "wcnt", "tagg", "fk"]
SECONDS = 600


def application(broker, folder, number, guarantee):
    """One instance with stores of its own."""
    config = jvm.properties(
        folder / f"streams-{number}.properties", **secured.java(broker), processing__guarantee=guarantee,
        state__dir=folder / f"state-{number}", num__stream__threads=3, replication__factor=1, num__standby__replicas=0,
        buffered__records__per__partition=100, commit__interval__ms=1000, auto__offset__reset="earliest", acks="all",
        acceptable__recovery__lag="9223372036854775807", session__timeout__ms=10000)
    started = jvm.spawn(PROGRAM, config, "process", log=folder / f"streams-{number}.log")
    jvm.wait_for(started, "REBALANCING -> RUNNING", 180)
    jvm.wait_for(started, "processed", 180)
    return started


def smoke(broker, log, guarantee):
    """What the driver printed."""
    folder = log.parent / f"{log.stem}-work"
    folder.mkdir(parents=True, exist_ok=True)
    admin = Client("librdkafka", broker.address)
    for topic in TOPICS:
        admin.create_topic(topic=topic, partitions=5, configs={})
    admin.close()
    log.unlink(missing_ok=True)
    config = jvm.properties(folder / "driver.properties", bootstrap__servers=broker.address)
    driver = jvm.spawn(PROGRAM, config, "run", log=log)
    running = [driver]
    try:
        for number, end in enumerate(("stop", "kill", "stay")):
            running.append(application(broker, folder, number, guarantee))
            if end == "stop":
                assert running[-1].stop() == 143, running[-1].tail()
            elif end == "kill":
                running[-1].kill()
        driver.child.wait(SECONDS)
    finally:
        for process in running:
            process.kill()
    return log.read_text(errors="replace")


def streams(broker, log, short):
    outcome = Outcome("streams")
    text = smoke(broker, log, "exactly_once_v2")
    good = "SUCCESS" in text and "ALL-RECORDS-DELIVERED" in text
    outcome.say("smoke test, exactly_once_v2, one application stopped and one killed", "pass" if good else "fail")
    return outcome.judge()
