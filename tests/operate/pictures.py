"""Pictures for the operator's pages: the dashboards that are shipped, `group lag --watch`, and `config check`.

    TEST_BROKER=target/release/forebay PYTHON -m operate.pictures [--minutes 4] [--looks DIR]     from tests/

writes docs/images/operate-*.svg: what a broker, a Prometheus and a terminal really showed. It takes the Python of the tests. With
`--looks` a headless browser draws each, light and dark, into DIR, for the one who has to look at them.
"""

import argparse
import tempfile
import time
from pathlib import Path

from bench.browser import Browser
from operate import draw, panels, terminal
from operate.load import Busy
from operate.prometheus import Prometheus
from peers.broker import forebay_binary

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
POINTS = 120
# What a Kafka broker's file in production may look like.
PRODUCTION = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@kafka-1:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
controller.listener.names=CONTROLLER
log.dirs=/var/lib/kafka/data
num.io.threads=16
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
log.retention.hrs=168
super.users=User:admin
group.coordinator.rebalance.protocols=classic,consumer,share
"""


def write(name, content):
    path = IMAGES / f"operate-{name}.svg"
    path.write_text(content)
    print(f"{path.relative_to(ROOT)}: {len(content.encode()) // 1024} KiB")


def dashboards(prometheus, begin):
    end = time.time()
    step = max(1, round((end - begin) / POINTS))
    for name, board in panels.boards().items():
        answers = {at: panels.series(panel, prometheus, begin, end, step)
                   for at, panel in enumerate(board["panels"]) if panel["type"] != "row"}
        write(name.removeprefix("forebay-"), draw.board(board, answers, begin, end))


def watching(busy):
    """The last look of a watch."""
    command = ["group", "lag", "--watch", "--every", "1", "--times", "3"]
    said = terminal.shown([forebay_binary(), *command, "--brokers", busy.broker.address], rows=30)
    write("group-lag", terminal.picture("forebay group lag", "forebay group lag --watch", terminal.screen(said)))


def checking(home):
    (home / "server.properties").write_text(PRODUCTION)
    said = terminal.shown(["env", "-C", home, forebay_binary(), "config", "check", "server.properties"], columns=120)
    lines = [line for line in said.replace("\r", "").split("\n")]
    write("config-check", terminal.picture("forebay config check", "forebay config check server.properties", lines[:-1], columns=120))


def look(into):
    into.mkdir(parents=True, exist_ok=True)
    with Browser() as browser:
        for path in sorted(IMAGES.glob("operate-*.svg")):
            for dark in (False, True):
                with browser.open(path, 1240, 900, dark=dark) as page:
                    page.picture(into / f"{path.stem}-{'dark' if dark else 'light'}.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=4)
    parser.add_argument("--looks", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="forebay-pictures-") as scratch:
        home = Path(scratch)
        (home / "prometheus").mkdir()
        checking(home)
        with Busy(home / "broker") as busy, Prometheus(home / "prometheus", [busy.admin]) as prometheus:
            client, begin, number = busy.client(), time.time(), 0
            while time.time() < begin + 60 * options.minutes:
                number += 1
                busy.turn(client, number)
                time.sleep(0.3)
            dashboards(prometheus, begin + 15)
            watching(busy)
            client.close()
    if options.looks:
        look(options.looks)


if __name__ == "__main__":
    main()
