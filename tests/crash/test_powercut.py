"""The power fails under load: what was acknowledged with acks=all had been synced, so it is there."""

import random
import time

import pytest

from clients.client import Client
from crash import scratch_disk
from crash.load import Load
from crash.scratch_disk import ScratchDisk

ROUNDS = 20
PARTITIONS = 3
# acks=1 is answered when the write has completed: it does not promise to survive this.
PROMISED = ("idempotent", "idempotent-lz4", "plain")


def test_powercut(make_broker, request, tmp_path):
    why = scratch_disk.missing()
    if why:
        pytest.skip(f"NO POWER CUT WAS TESTED: {why}")
    rounds = request.config.getoption("--rounds") or ROUNDS
    seed = request.config.getoption("--seed")
    dice = random.Random(seed)
    with ScratchDisk() as disk:
        broker = make_broker(data=disk.path / "data").start()
        admin = Client("librdkafka", broker.address)
        admin.create_topic(topic="torment", partitions=PARTITIONS, configs={"segment.bytes": "4194304"})
        load = Load(broker, "torment", PARTITIONS, tmp_path / "ledger", seed, PROMISED)
        try:
            for turn in range(rounds):
                time.sleep(dice.uniform(0.05, 1.5))  # the moment of the cut, not a wait for anything
                disk.cut_power()
                time.sleep(dice.uniform(0.0, 0.1))
                broker.kill()
                disk.restore_power()
                broker.start()
                load.check()
                print(f"round {turn + 1}: {load.total_acked()} acknowledged", flush=True)
            load.finish()
            load.check(everything=True)
        except BaseException:
            print(f"seed {seed}; ledger {tmp_path / 'ledger'}; broker log {broker.log}", flush=True)
            raise
        finally:
            load.ending.set()
            admin.close()
            broker.end()
        assert load.total_acked() > 100 * rounds, "there was hardly any load"
