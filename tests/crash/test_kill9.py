"""`kill -9` in a loop under load: nothing acknowledged is lost, nothing is there twice, order holds; on one tier, on
two between which segments move all the time, and with a journal."""

import random
import time

import pytest
from clients.client import Client
from crash.load import Load

ROUNDS = 50
TIERED_ROUNDS = 8
JOURNALED_ROUNDS = 20
PARTITIONS = 3
SMALL_SEGMENTS = {"segment.bytes": "4194304", "index.interval.bytes": "1024"}
# Rolled ten times a second, so that something is sealed and on its way at any moment.
BRIEF_SEGMENTS = {"segment.bytes": "1048576", "segment.ms": "100", "index.interval.bytes": "1024"}


def test_kill9(make_broker, request, tmp_path):
    rounds = request.config.getoption("--rounds") or ROUNDS
    torment(make_broker().start(), rounds, SMALL_SEGMENTS, request, tmp_path)


def test_kill9_while_segments_move(make_broker, request, tmp_path):
    rounds = request.config.getoption("--rounds") or TIERED_ROUNDS
    broker = make_broker()
    if broker.name != "forebay":
        pytest.skip("it has no tiers")
    bulk = tmp_path / "bulk"
    broker.properties |= {
        "storage.tiers": "fast,bulk",
        "storage.tier.fast.paths": str(broker.data),
        "storage.tier.fast.capacity": "10000000",
        "storage.tier.bulk.paths": str(bulk),
        "storage.migrate.threshold": "0.1",
        "storage.migrate.residency.ms": "0",
        "storage.migrate.heat.ms": "0",
    }
    torment(broker.start(), rounds, BRIEF_SEGMENTS, request, tmp_path)
    moved = list(bulk.glob("torment-*/*.log"))
    assert len(moved) > PARTITIONS, "hardly anything has moved"


def test_kill9_with_a_journal(make_broker, request, tmp_path):
    rounds = request.config.getoption("--rounds") or JOURNALED_ROUNDS
    broker = make_broker()
    if broker.name != "forebay":
        pytest.skip("it has no journal")
    # Small, so that its room is used again and again.
    broker.properties |= {"journal.bytes": "2097152", "journal.dir": str(tmp_path / "rings")}
    torment(broker.start(), rounds, SMALL_SEGMENTS, request, tmp_path)


def torment(broker, rounds, segments, request, tmp_path):
    seed = request.config.getoption("--seed")
    dice = random.Random(seed)
    admin = Client("librdkafka", broker.address)
    admin.create_topic(topic="torment", partitions=PARTITIONS, configs=segments)
    load = Load(broker, "torment", PARTITIONS, tmp_path / "ledger", seed)
    try:
        for turn in range(rounds):
            time.sleep(dice.uniform(0.05, 1.5))  # the moment of death, not a wait for anything
            if turn % 10 == 9:
                broker.stop()
            else:
                broker.kill()
            if turn % 5 == 4:
                # Once more, in the middle of the recovery.
                broker.spawn()
                time.sleep(dice.uniform(0.0, 0.05))
                broker.kill()
            if broker.name == "forebay":
                broker.properties["disk.engine"] = dice.choice(["io_uring", "threads"])
            broker.start()
            load.check()
            print(f"round {turn + 1}: {load.total_acked()} acknowledged", flush=True)
        load.finish()
        load.check(everything=True)
    except BaseException:
        print(f"seed {seed}; ledger {tmp_path / 'ledger'}; broker log {broker.log}; data {broker.data}", flush=True)
        load.give_up()
        raise
    finally:
        admin.close()
    assert load.total_acked() > 100 * rounds, "there was hardly any load"
