"""Apache Kafka from Maven Central: the reference broker and every command-line tool of it. Needs java 17+ and mvn.

    python3 tests/peers/kafka.py install              fetch the jars, once, into the user's cache
    python3 tests/peers/kafka.py serve [key=value..]  run a one-node broker until Ctrl-C; prints its address
    python3 tests/peers/kafka.py TOOL ARGS..          run a tool (topics, groups, dump-log, ..) or a class by full name
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers.broker import Broker
from peers.process import Process, die_with_parent, free_port

VERSION = "4.3.0"
HERE = Path(__file__).resolve().parent
CLUSTER_ID = "q1Hw3ZrSQOyTgU0m7Fg8sA"

TOOLS = {
    "broker": "kafka.Kafka",
    "storage": "kafka.tools.StorageTool",
    "configs": "kafka.admin.ConfigCommand",
    **{
        tool: f"org.apache.kafka.tools.{name}"
        for tool, name in {
            "topics": "TopicCommand",
            "groups": "consumer.group.ConsumerGroupCommand",
            "console-producer": "ConsoleProducer",
            "console-consumer": "consumer.ConsoleConsumer",
            "producer-perf": "ProducerPerformance",
            "consumer-perf": "ConsumerPerformance",
            "verifiable-producer": "VerifiableProducer",
            "verifiable-consumer": "VerifiableConsumer",
            "get-offsets": "GetOffsetShell",
            "delete-records": "DeleteRecordsCommand",
            "log-dirs": "LogDirsCommand",
            "cluster": "ClusterTool",
            "api-versions": "BrokerApiVersionsCommand",
            "dump-log": "DumpLogSegments",
            "transactions": "TransactionsCommand",
            "features": "FeatureCommand",
            "metadata-quorum": "MetadataQuorumCommand",
            "leader-election": "LeaderElectionCommand",
            "reassign-partitions": "reassign.ReassignPartitionsCommand",
            "client-metrics": "ClientMetricsCommand",
            "acls": "AclCommand",
            "delegation-tokens": "DelegationTokenCommand",
            "txn-copier": "TransactionalMessageCopier",
        }.items()
    },
}


def cache():
    """Where the jars live: below XDG_CACHE_HOME, shared by all clones on the machine."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "forebay"


def install():
    """Copies the class path out of Maven Central; does nothing when it is already there."""
    jars = cache() / f"kafka-{VERSION}"
    if (jars / ".complete").exists():
        return jars
    for needed in ("java", "mvn"):
        if not shutil.which(needed):
            raise SystemExit(f"{needed} is missing: the reference Kafka needs java 17+ and mvn")
    jars.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["mvn", "-q", "-B", "-Dstyle.color=never", "-f", HERE / "pom.xml", f"-Dkafka.version={VERSION}",
         "dependency:copy-dependencies", f"-DoutputDirectory={jars}"],
        check=True, stdout=sys.stderr,
    )
    (jars / ".complete").touch()
    _archive_classes()
    return jars


def _archive_classes():
    """Lets the JVM keep the loaded classes of one tool run on disk: later runs start in a third of the time."""
    with Kafka() as kafka:
        arguments = ("--bootstrap-server", kafka.address, "--list")
        command = java("topics", *arguments, archive=f"-XX:ArchiveClassesAtExit={_class_archive()}")
        subprocess.run(command, check=True, capture_output=True)


def _class_archive():
    return cache() / f"kafka-{VERSION}.jsa"


def java(tool, *args, heap="-Xmx256m", short_lived=True, archive=None):
    """The command line for a tool, by its name here or by its class."""
    # A tool runs for a second or two: one compiler tier and the serial collector start it fastest.
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] if short_lived else ["-XX:+UseG1GC"]
    if archive is None and short_lived:
        # Ignored when it is missing or does not fit the JVM.
        archive = f"-XX:SharedArchiveFile={_class_archive()}"
    if archive:
        options.append(archive)
    config = f"-Dlog4j2.configurationFile={HERE / 'log4j2.xml'}"
    return ["java", *heap.split(), *options, "-Xshare:auto", config, "-cp", f"{install()}/*",
            TOOLS.get(tool, tool), *(str(arg) for arg in args)]


class ToolFailed(AssertionError):
    """A tool ended with an error; the message holds its output."""


def run(tool, *args, stdin=None, seconds=120, check=True, **options):
    """Runs a tool to its end and returns what it printed (standard output, and standard error after it)."""
    done = subprocess.run(
        java(tool, *args, **options), input=stdin, capture_output=True, text=True, timeout=seconds,
        preexec_fn=die_with_parent,
    )
    if check and done.returncode != 0:
        raise ToolFailed(f"{tool} {' '.join(map(str, args))} -> {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


def spawn(tool, *args, log, **options):
    """Starts a tool that runs until it is stopped."""
    return Process(java(tool, *args, **options), log)


class Kafka(Broker):
    """One node that is broker and controller. Formats its directory unless that already has a `meta.properties`."""

    name = "kafka"

    def __init__(self, *args, node_id=1, **kwargs):
        super().__init__(*args, **kwargs)
        self.node_id = node_id
        self.controller_port = free_port()

    def settings(self):
        return {
            "process.roles": "broker,controller",
            "node.id": self.node_id,
            "controller.quorum.voters": f"{self.node_id}@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": self.data,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            **self.properties,
        }

    @property
    def config(self):
        return self.home / "server.properties"

    def prepare(self):
        self.config.write_text("".join(f"{key}={value}\n" for key, value in self.settings().items()))
        if not (self.data / "meta.properties").exists():
            run("storage", "format", "-t", CLUSTER_ID, "-c", self.config)

    def argv(self):
        return java("broker", self.config, heap="-Xms512m -Xmx1g", short_lived=False)

def main(argv):
    if not argv or argv[0] in ("-h", "--help"):
        raise SystemExit(__doc__)
    if argv[0] == "install":
        print(install())
    elif argv[0] == "serve":
        kafka = Kafka(properties=dict(pair.split("=", 1) for pair in argv[1:]))
        with kafka:
            print(kafka.address, kafka.home, flush=True)
            kafka.process.child.wait()
    else:
        raise SystemExit(subprocess.run(java(*argv)).returncode)


if __name__ == "__main__":
    main(sys.argv[1:])
