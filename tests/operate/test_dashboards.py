"""The dashboards that are shipped, against a broker that works and a Prometheus that scrapes it: every query has an answer."""

import time

import pytest

from operate import panels, prometheus
from operate.load import Busy
from operate.prometheus import Prometheus
from peers.process import wait_until

# Panels that stay empty here: this broker has no listener with tokens and no audit file, nothing hangs or is refused, and no tier
# fills up.
EMPTY = {
    "Oldest operation", "Time to full", "Tokens refused", "Keys of the identity provider, readings", "Audit events",
}

pytestmark = pytest.mark.skipif(not prometheus.find(), reason="there is no Prometheus: ./test operate fetches it")


@pytest.fixture(scope="module")
def scraped(request, tmp_path_factory):
    if request.config.getoption("--target") != "forebay":
        pytest.skip("about our own process")
    with Busy(tmp_path_factory.mktemp("busy")) as busy:
        home = tmp_path_factory.mktemp("prometheus")
        with Prometheus(home, [busy.admin]) as started:
            client, begin = busy.client(), time.time()
            for number in range(1, 13):
                busy.turn(client, number)
            busy.settled()
            wait_until(lambda: time.time() > begin + 20, "some scrapes", 60, every=0.5)
            yield started, begin
            client.close()


@pytest.mark.parametrize("board", panels.boards())
def test_every_panel_has_an_answer(scraped, board):
    started, begin = scraped
    empty = set()
    for panel in panels.panels(panels.boards()[board]):
        if not panels.series(panel, started, begin, time.time(), 1):
            empty.add(panel["title"])
    assert empty <= EMPTY, f"{board}: no series for {sorted(empty - EMPTY)}"


def test_the_names_of_series_tell_them_apart(scraped):
    started, begin = scraped
    for name, board in panels.boards().items():
        for panel in panels.panels(board):
            names = [name for name, _ in panels.series(panel, started, begin, time.time(), 1)]
            assert len(set(names)) == len(names), f"{name}: {panel['title']}: {sorted(names)}"
