"""`kill -9` in a loop under load: nothing acknowledged is lost, nothing is there twice, order holds."""

import random
import time

from clients.client import Client
from crash.load import Load

ROUNDS = 50
PARTITIONS = 3
SMALL_SEGMENTS = {"segment.bytes": "4194304", "index.interval.bytes": "1024"}


def test_kill9(make_broker, request, tmp_path):
    rounds = request.config.getoption("--rounds") or ROUNDS
    seed = request.config.getoption("--seed")
    dice = random.Random(seed)
    broker = make_broker().start()
    admin = Client("librdkafka", broker.address)
    admin.create_topic(topic="torment", partitions=PARTITIONS, configs=SMALL_SEGMENTS)
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
        raise
    finally:
        load.ending.set()
        admin.close()
    assert load.total_acked() > 100 * rounds, "there was hardly any load"
