"""Every command of ours typed against Apache Kafka and against us: what it says and how it ends, and the facts of Kafka's own tools.

Every difference must have its reason in commands/reasons.toml; every command must have a case in commands/cases.py.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from clients.cli import Cli
from clients.commands import cases, compare, tools, tree
from clients.commands.compare import Answer, Own
from peers.broker import Forebay
from peers.kafka import Kafka
from peers.process import free_port
from peers.rights import AUTHORIZER

# Records with old times stay; the open transaction stays open; one partition for each of the internal topics. A broker that gets no
# processor for a while keeps its place in the cluster.
PATIENCE = {Kafka: {"broker.session.timeout.ms": 120_000}, Forebay: {}}
SETTINGS = {"offsets.topic.num.partitions": 1, "log.retention.ms": -1, "transaction.state.log.num.partitions": 1, "num.partitions": 1,
            "transaction.max.timeout.ms": 900_000, "authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}
BOTH = (Kafka, Forebay)

pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("commands")]


class Typist:
    """Types all cases at one broker, and keeps the answers."""

    def __init__(self, kind, make_broker, home):
        self.home = home / kind.name
        self.home.mkdir()
        # Kafka has no admin endpoint: the commands for it meet its listener.
        admin = {"admin.listener": f"127.0.0.1:{free_port()}"} if kind is Forebay else {}
        self.broker = make_broker(kind, properties={**SETTINGS, **PATIENCE[kind], **admin})
        self.admin = admin.get("admin.listener", self.broker.address)
        self.cli = Cli(self.broker.address, self.home)
        self.answers = {}
        self.facts = {}

    def words(self):
        """What stands for what in the cases."""
        return {"address": self.broker.address, "port": self.broker.port, "dir": self.broker.data, "home": self.home, "admin": self.admin,
                "tmp": "/nowhere", "large": "x" * 5000}

    def own(self):
        texts = {key: value for key, value in self.words().items() if key not in ("tmp", "large")}
        return Own(**texts, broker_home=self.broker.home)

    def type_all(self, stage):
        own = self.own()
        for number, case in enumerate(cases.STAGES[stage]):
            words = [word.format(**self.words()) if "{" in word and " " not in word else word for word in case.words()]
            for format_ in ("text", "json") if case.json else (None,):
                option = ["--format", format_] if format_ else []
                done = self.cli.run(*words, *option, stdin=case.stdin, brokers=case.brokers)
                is_json = format_ == "json" or words[-2:] == ["--format", "json"]
                answer = Answer(own, done.returncode, done.stdout, done.stderr, case.only, is_json)
                self.answers[stage, number, case.line, format_ or "text"] = answer

    def open_transaction(self):
        producer = Producer({"bootstrap.servers": self.broker.address, "transactional.id": "writer", "transaction.timeout.ms": 600_000})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce("bikes", b"open", partition=0, timestamp=cases.AT)
        producer.flush(60)
        return producer

    def run(self):
        self.broker.start()
        self.type_all("make")
        producer = self.open_transaction()
        # What Kafka's threads do a moment after an answer is done.
        time.sleep(1)
        self.type_all("look")
        pair = tools.Pair(self.broker, self.cli, self.home)
        for fact in tools.FACTS:
            try:
                self.facts[fact.__name__] = fact(pair)
            except (AssertionError, KeyError, IndexError, StopIteration, ValueError, TypeError) as error:
                # The other facts and cases go on.
                self.facts[fact.__name__] = error
        self.type_all("end")
        del producer
        self.broker.stop()
        (self.home / "data.properties").write_text(f"log.dirs={self.broker.data}\nnode.id=1\n")
        self.type_all("files")
        return self


@pytest.fixture(scope="module")
def typed(request, make_broker, tmp_path_factory):
    """Both brokers, at which all cases were typed."""
    if request.config.getoption("--target") != "forebay":
        pytest.skip("asks both brokers, whatever the target")
    home = tmp_path_factory.mktemp("commands")
    typists = [Typist(kind, make_broker, home) for kind in BOTH]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(Typist.run, typists))


def test_every_command_has_a_case():
    known = tree.of_binary()
    have_cases = cases.commands(known)

    def is_alone(command):
        return any(f"{command} ".startswith(f"{one} ") for one in cases.ALONE)

    missing = [command for command in known.leaves() if command not in have_cases and not is_alone(command)]
    assert not missing, f"no case in commands/cases.py: {missing}"
    gone = [one for one in cases.ALONE if not any(f"{command} ".startswith(f"{one} ") for command in known.leaves())]
    needless = [one for one in have_cases if is_alone(one)]
    assert not gone and not needless, f"commands/cases.py leaves out what there is not, or what has a case: {gone} {needless}"


def test_every_difference_has_a_reason(typed):
    kafka, forebay = typed
    assert kafka.answers.keys() == forebay.answers.keys()
    reasons, left, found = compare.Reasons(), [], 0
    for key, theirs in kafka.answers.items():
        _, _, line, format_ = key
        for where, of_kafka, ours in compare.differences(theirs, forebay.answers[key]):
            found += 1
            if not reasons.explains(line, where, of_kafka, ours):
                left.append(f"{line} ({format_}): {where}\n    Kafka: {of_kafka}\n    ours:  {ours}")
    known = tree.of_binary()
    print(f"{len(cases.commands(known))} of {len(known.leaves())} commands, {len(kafka.answers)} answers, {found} differences, {len(left)} without a reason")
    assert not left, f"{len(left)} differences without a reason\n" + "\n".join(left)
    assert not reasons.unused(), f"nothing differs any more as reasons.toml says: {reasons.unused()}"


@pytest.mark.parametrize("fact", [fact.__name__ for fact in tools.FACTS])
@pytest.mark.parametrize("kind", [kind.name for kind in BOTH])
def test_our_commands_say_what_kafkas_tools_say(typed, kind, fact):
    found = typed[[one.name for one in BOTH].index(kind)].facts[fact]
    assert not isinstance(found, Exception), repr(found)
    theirs, ours = found
    assert theirs, f"{fact}: Kafka's tool was not understood"
    different = {key: (theirs.get(key), ours.get(key)) for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key)}
    assert not different, f"{fact}: what Kafka's tool says, and what our command says"


def test_a_command_without_a_case_would_be_missed():
    def case(above, word, function):
        return f'            forebay{above},{word})\n                cmd="forebay{function}"\n                ;;\n'

    topic = "__subcmd__topic"
    script = (case("", "topic", topic) + case("", "topics", topic) + case(topic, "add-parts", f"{topic}__subcmd__add__subcmd__parts")
              + case("", "help", "__subcmd__help") + case("__subcmd__help", "topic", "__subcmd__help__subcmd__topic"))
    found = tree.Tree(script)
    assert found.leaves() == ["topic add-parts"] and found.command(["topics", "add-parts", "x"]) == "topic add-parts"
    with pytest.raises(AssertionError, match="none of our commands"):
        found.command(["topic", "fly"])
