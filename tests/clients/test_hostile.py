"""Clients that mean harm, one way after the other: others are served, and what the broker holds for it is bounded.

Nothing here depends on speed: `./test hostile` does the same for long, beside a load that is measured.
"""

import os
import shutil
import urllib.request

import pytest

from peers import hostile, rawwire
from peers.broker import Forebay
from peers.hostile import TOPIC, Prey
from peers.process import free_port, wait_until
from peers.rawbatch import batch, simple_record

pytestmark = pytest.mark.xdist_group("hostile")

# Bounds that are small, so that what goes beyond them shows.
SETTINGS = {"log.cache.bytes": 64 << 20, "queued.max.request.bytes": 256 << 20, "message.max.bytes": 2 << 20,
            "offsets.topic.num.partitions": 2, "transaction.state.log.num.partitions": 2, "log.retention.check.interval.ms": 1000}
MB = 1 << 20


@pytest.fixture(autouse=True)
def only_ours(request):
    if request.config.getoption("--target") != "forebay":
        pytest.skip("about bounds of ours")


class Crowded(Forebay):
    """With few descriptors."""

    def argv(self):
        return ["prlimit", "--nofile=300:300", *super().argv()]


@pytest.fixture(scope="module")
def victim(make_broker):
    """A broker of its own, with an admin port that is known, and records of two leader epochs."""
    broker = make_broker(Forebay, properties={**SETTINGS, "admin.listener": f"127.0.0.1:{free_port()}"}).start()
    Prey(broker.port).prepare()
    broker.kill()
    broker.start()
    Prey(broker.port).prepare()
    yield broker
    assert broker.alive(), broker.process.tail()
    assert broker.stop() == 0


@pytest.fixture
def prey(victim):
    """Asked about afterwards: the broker lives, and every connection is served. One that a test has ended is made anew."""
    if not answers(victim):
        victim.end()
        shutil.rmtree(victim.data)
        victim.start()
        Prey(victim.port).prepare()
    admin = int(victim.properties["admin.listener"].rsplit(":", 1)[1])
    target = Prey(victim.port, admin, size=0.2)
    yield target
    serves(victim)


def answers(broker):
    try:
        return all(rawwire.brokers(broker.port, 5) == 1 for _ in range(4))
    except (OSError, rawwire.Closed):
        return False


def serves(broker):
    """Answers on connections of all shards, and takes records."""
    assert broker.alive(), broker.process.tail(80)
    for _ in range(6):
        assert rawwire.brokers(broker.port, 20) == 1
    with Prey(broker.port).client() as client:
        assert client.produce(TOPIC, [(0, batch()), (1, batch())]) == [0, 0]


def resident(broker):
    with open(f"/proc/{broker.process.pid}/statm") as pages:
        return int(pages.read().split()[1]) * 4096


def descriptors(broker):
    return len(os.listdir(f"/proc/{broker.process.pid}/fd"))


def test_a_fetch_may_name_a_diverging_partition_seventy_thousand_times(prey):
    prey.size = 1
    hostile.fetch_of_one_diverging_partition(prey)


def test_members_without_time_for_a_rebalance_hold_nobody(prey):
    for _ in range(2):
        hostile.static_members_without_patience(prey)


def test_telemetry_with_long_names_is_not_kept(prey, victim):
    prey.size = 1
    before = resident(victim)
    hostile.telemetry_with_long_names(prey, pushes=10)
    assert resident(victim) - before < 150 * MB


@pytest.mark.parametrize("attack", [hostile.list_of_names_for_a_setting, hostile.settings_of_many_resources,
                                    hostile.directories_of_many_topics, hostile.members_with_many_protocols], ids=lambda one: one.__name__)
def test_many_small_things_in_a_request_cost_what_they_weigh(prey, victim, attack):
    before = processor_seconds(victim)
    attack(prey)
    # In seconds of a processor, which other tests do not take: the square of so many things took minutes.
    assert processor_seconds(victim) - before < 5


def processor_seconds(broker):
    with open(f"/proc/{broker.process.pid}/stat") as stat:
        fields = stat.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_frames_that_are_announced_and_never_come_keep_nobody_out(prey, victim):
    prey.size = 1
    hostile.sleepy_frames(prey, look=lambda: serves(victim))


def test_readers_that_fall_asleep_hold_no_memory_and_stop_no_producer(prey, victim):
    hostile.fill(prey, 48)
    before = resident(victim)

    def look():
        serves(victim)
        return resident(victim) - before

    prey.size = 1
    assert hostile.sleepy_readers(prey, look=look) < 600 * MB


def test_no_batch_is_taken_into_a_transaction_that_has_ended_meanwhile(prey):
    for _ in range(3):
        hostile.transaction_that_ends_while_it_is_checked(prey)
    with prey.client() as client:
        for partition in (0, 1):
            wait_until(lambda partition=partition: client.end_offset(TOPIC, partition, 1) == client.end_offset(TOPIC, partition, 0),
                       "readers of committed records to get to the end", 20)


def test_logs_get_on_when_connections_have_taken_all_descriptors(make_broker):
    broker = make_broker(Crowded, properties=SETTINGS).start()
    prey = Prey(broker.port).prepare()
    with prey.client() as client:
        client.create_topic("rolling", 4, {"segment.bytes": MB})
        million = batch([simple_record(0, bytes(900_000))])
        wait_until(lambda: client.produce("rolling", [(0, million)]) == [0], "the topic")

        def roll():
            return [client.produce("rolling", [(partition, million)]) for partition in range(4) for _ in range(3)]

        hostile.crowd(prey, 400, look=roll)
        wait_until(lambda: roll() == [[0]] * 12, "all partitions to take records", 20)
        client.create_topic("made-afterwards")
    wait_until(lambda: prey.client().create_topic("and-another") in (0, 36), "topics to be made", 20)
    serves(broker)
    assert broker.stop() == 0, broker.process.tail()


def test_a_fetch_ends_with_its_client(prey, victim):
    before = descriptors(victim)
    hostile.fetches_that_nobody_waits_for(prey)
    wait_until(lambda: descriptors(victim) <= before + 10, "the connections to be forgotten", 20)


def test_whoever_is_on_the_same_machine_can_take_back_what_shuts_all_out(prey):
    quota, back, _, reset = hostile.no_more_connections(prey)
    assert quota != 0, "a rate below one in the life of the universe"
    assert (back, reset) == (0, 0)


def test_probes_are_answered_whoever_holds_the_admin_port(prey):
    def look():
        with urllib.request.urlopen(f"http://127.0.0.1:{prey.admin}/livez", timeout=5) as answer:
            return answer.status

    assert hostile.admin_port_half_asked(prey, look=look) == 200


def test_fetches_that_wait_for_more_than_comes_do_not_slow_producers(prey, victim):
    def look():
        before = processor_seconds(victim)
        with prey.client() as client:
            for _ in range(50):
                assert client.produce(TOPIC, [(0, batch())]) == [0]
        return processor_seconds(victim) - before

    assert hostile.herd(prey, look=look) < 5


def test_producer_ids_that_nobody_gave_out_are_bounded(prey, victim):
    before = resident(victim)
    answer = hostile.producers_that_nobody_knows(prey)
    assert len(answer) < 16 * MB
    assert resident(victim) - before < 200 * MB


def test_fetch_sessions_of_what_is_not_there_are_bounded(prey, victim):
    before = resident(victim)
    for _ in range(4):
        hostile.sessions_of_what_is_not_there(prey)
    assert resident(victim) - before < 200 * MB


def test_groups_that_nobody_comes_back_to_are_forgotten(prey, victim):
    before = resident(victim)
    hostile.groups_of_nobody(prey)
    assert resident(victim) - before < 200 * MB


def test_a_reader_of_committed_records_is_told_of_the_aborted_ones_it_gets(prey):
    with prey.client() as client:
        start = client.end_offset(TOPIC)
        hostile.many_aborted_transactions(prey, 60)
        answer = client.fetch(TOPIC, [(0, start, 100)], isolation=1, most=100)
    # One small batch and one aborted transaction; each further one would be 16 bytes.
    assert len(answer) < 600


def test_a_quota_that_is_no_number_is_refused(prey):
    with prey.client() as client:
        assert client.alter_quota(("client-id", "anybody"), "producer_byte_rate", float("nan")) != 0
        assert client.produce(TOPIC, [(0, batch())]) == [0]


def test_restarts_on_what_all_this_left(victim):
    """Last in this file: killed and started again."""
    victim.kill()
    victim.start()
    serves(victim)
