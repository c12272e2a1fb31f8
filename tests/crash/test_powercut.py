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


def torment(make_broker, request, tmp_path, rounds, properties, turns):
    """Loads a broker on a scratch disk and cuts the power; `turns` is called after each start."""
    seed = request.config.getoption("--seed")
    dice = random.Random(seed)
    with ScratchDisk() as disk:
        broker = make_broker(data=disk.path / "data", properties=properties).start()
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
                turns(load)
                print(f"round {turn + 1}: {load.total_acked()} acknowledged", flush=True)
            load.finish()
            load.check(everything=True)
        except BaseException:
            print(f"seed {seed}; ledger {tmp_path / 'ledger'}; broker log {broker.log}", flush=True)
            load.give_up()
            raise
        finally:
            admin.close()
            broker.end()
        assert load.total_acked() > 100 * rounds, "there was hardly any load"


@pytest.fixture(autouse=True)
def can_cut_power():
    why = scratch_disk.missing()
    if why:
        pytest.skip(f"NO POWER CUT WAS TESTED: {why}")


def test_powercut(make_broker, request, tmp_path):
    rounds = request.config.getoption("--rounds") or ROUNDS
    torment(make_broker, request, tmp_path, rounds, {}, Load.check)


def test_powercut_with_a_journal(make_broker, request, tmp_path):
    if request.config.getoption("--target") != "forebay":
        pytest.skip("about a setting of ours")
    rounds = request.config.getoption("--rounds") or ROUNDS
    torment(make_broker, request, tmp_path, rounds, {"journal.bytes": "2097152"}, Load.check)


def torment_the_journals_disk(make_broker, request, tmp_path, strike):
    """Loads a broker with its journal on a scratch disk; `strike` ends and starts it, by whatever happens to that disk."""
    if request.config.getoption("--target") != "forebay":
        pytest.skip("about a setting of ours")
    rounds = request.config.getoption("--rounds") or ROUNDS
    seed = request.config.getoption("--seed")
    dice = random.Random(seed)
    with ScratchDisk() as disk:
        properties = {"journal.bytes": "2097152", "journal.dir": str(disk.path / "rings")}
        broker = make_broker(properties=properties).start()
        admin = Client("librdkafka", broker.address)
        admin.create_topic(topic="torment", partitions=PARTITIONS, configs={"segment.bytes": "4194304"})
        load = Load(broker, "torment", PARTITIONS, tmp_path / "ledger", seed, PROMISED)
        try:
            for turn in range(rounds):
                time.sleep(dice.uniform(0.05, 1.5))  # the moment of the strike, not a wait for anything
                strike(broker, disk, dice)
                load.check()
                print(f"round {turn + 1}: {load.total_acked()} acknowledged", flush=True)
            load.finish()
            load.check(everything=True)
        except BaseException:
            print(f"seed {seed}; ledger {tmp_path / 'ledger'}; broker log {broker.log}", flush=True)
            load.give_up()
            raise
        finally:
            admin.close()
            broker.end()
        assert load.total_acked() > 100 * rounds, "there was hardly any load"


def test_powercut_of_the_disk_of_the_journal_alone(make_broker, request, tmp_path):
    """The broker goes on without its journal, and the next start finds what it needs, whatever the journal's disk has kept."""

    def strike(broker, disk, dice):
        disk.cut_power()
        time.sleep(dice.uniform(0.0, 1.0))
        broker.kill()
        disk.restore_power()
        broker.start()

    torment_the_journals_disk(make_broker, request, tmp_path, strike)


def test_the_disk_of_the_journal_is_gone_at_the_next_start(make_broker, request, tmp_path):
    """A start after a kill refuses and names the ring that it needs, changes nothing, and has everything once the disk is back."""

    def strike(broker, disk, _):
        broker.kill()
        disk.take_away()
        broker.spawn()
        assert broker.process.child.wait(60) != 0, "it serves without what only the ring has"
        said = broker.process.tail(5)
        assert "is not there, and it may have bytes that no log has" in said and str(disk.path / "rings") in said, said
        disk.bring_back()
        broker.start()

    torment_the_journals_disk(make_broker, request, tmp_path, strike)


def test_the_cut_is_felt(make_broker, request, tmp_path):
    """The canary: with durability=replicated nothing promises to survive, and the checks notice that something did not."""
    if request.config.getoption("--target") != "forebay":
        pytest.skip("about a setting of ours")
    with pytest.raises(AssertionError):
        torment(make_broker, request, tmp_path, 5, {"durability": "replicated"}, Load.check)
