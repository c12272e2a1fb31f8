"""The report as a reader has it before him: on a phone and on a desk, light and dark, on paper, without scripts."""

import re
import struct
import zlib
from pathlib import Path

import pytest

from bench import browser as browsers

SAMPLES = ["cars", "quick", "bursts", "partial", "alone", "empty", "hostile"]
WINDOWS = {"phone": (390, 844), "tablet": (820, 1100), "desktop": (1280, 900)}
MEASURE = (Path(__file__).parent / "measure.js").read_text()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("sample", SAMPLES)
def test_layout(reports, browser, sample, window, dark):
    with browser.open(reports / sample / "report.html", *WINDOWS[window], dark=dark) as page:
        assert page.run(MEASURE) == []
        assert page.complaints() == []
        page.picture(reports / f"{sample}-{window}-{'dark' if dark else 'light'}.png", height=6000)


def test_every_chart_is_there(reports, browser):
    with browser.open(reports / "cars" / "report.html", *WINDOWS["desktop"]) as page:
        sections = page.run("[...document.querySelectorAll('section')].map((section) => section.id)")
        assert sections == ["ratios", "throughput", "cells", "latency", "time", "cpu", "limits", "setup", "figures"]
        empty = page.run("[...document.querySelectorAll('.panels')].filter((panels) => !panels.children.length).length")
        assert empty == 0


def test_colours_follow_the_reader(reports, browser):
    background = "getComputedStyle(document.body).backgroundColor"
    with browser.open(reports / "quick" / "report.html", 1280, 900) as page:
        light = page.run(background)
    with browser.open(reports / "quick" / "report.html", 1280, 900, dark=True) as page:
        assert light != page.run(background)


def test_it_reads_without_scripts(reports, browser):
    with browser.open(reports / "quick" / "report.html", *WINDOWS["phone"], scripts=False) as page:
        shown = page.ask("DOM.getOuterHTML", nodeId=page.ask("DOM.getDocument")["root"]["nodeId"])["outerHTML"]
        assert '<span class="chip"' in shown and "<button" not in shown, "the script did not run"
        assert "forebay against kafka" in shown
        assert re.search(r"<title>forebay: [0-9.]+ GB/s</title>", shown), "figures are there to be pointed at"


def test_it_fits_on_paper(reports, browser):
    with browser.open(reports / "cars" / "report.html", 760, 1000, media="print", dark=True) as page:
        assert page.run("document.documentElement.scrollWidth <= innerWidth")
        assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", "paper is white, even at night"
        assert page.run("dispatchEvent(new Event('beforeprint')), [...document.querySelectorAll('details')].every((one) => one.open)")


def test_pointing_shows_the_figure(reports, browser):
    with browser.open(reports / "cars" / "report.html", *WINDOWS["desktop"]) as page:
        place = page.run("""(() => {
            const mark = document.querySelector('#throughput circle.m');
            mark.scrollIntoView({ block: 'center' });
            const box = mark.getBoundingClientRect();
            return [box.left + box.width / 2, box.top + box.height / 2];
        })()""")
        page.run("new Promise((done) => setTimeout(done, 50))")
        page.ask("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])
        tip = page.run("document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent")
        assert tip.startswith("forebay: ") and "GB/s" in tip or "MB/s" in tip


def test_a_target_can_be_put_aside(reports, browser):
    with browser.open(reports / "cars" / "report.html", *WINDOWS["desktop"]) as page:
        count = "[...document.querySelectorAll('.panel svg .t1')].filter((one) => one.getClientRects().length).length"
        assert page.run(count) > 0
        page.run("document.querySelectorAll('button.chip')[1].click()")
        assert page.run(count) == 0
        assert page.run("document.querySelectorAll('button.chip')[1].getAttribute('aria-pressed')") == "false"
        page.run("document.querySelectorAll('button.chip')[1].click()")
        assert page.run(count) > 0


def test_hostile_texts_stay_texts(reports, browser):
    with browser.open(reports / "hostile" / "report.html", *WINDOWS["desktop"]) as page:
        assert page.run("document.querySelectorAll('img, script').length") == 1, "our own script"
        assert page.run("document.querySelector('h1').textContent").startswith("</title></script><script>alert(1)")


def test_the_layout_test_can_fail(reports, browser):
    """What it must find, it finds: a text moved onto another one, out of its panel, or into the colour of the paper."""
    with browser.open(reports / "cars" / "report.html", *WINDOWS["phone"]) as page:
        page.run("""(() => {
            const panels = document.querySelectorAll('#throughput .panel svg');
            const [one, two] = panels[6].querySelectorAll('text');
            two.setAttribute('x', one.getAttribute('x')); two.setAttribute('y', one.getAttribute('y'));
            panels[7].querySelector('text').setAttribute('x', '-30');
            panels[8].removeAttribute('aria-label');
            document.querySelector('h1').style.color = 'var(--paper)';
        })()""")
        wrong = "\n".join(page.run(MEASURE))
        for expected in ("overlap", "leaves its panel", "without a name", "has a contrast of 1.00"):
            assert expected in wrong, wrong


def test_a_missing_browser_is_said(monkeypatch):
    monkeypatch.setenv("CHROMIUM", "no-such-browser")
    with pytest.raises(browsers.BrowserError, match="apt install chromium-headless-shell"):
        browsers.find()


@pytest.mark.parametrize("look", ["light", "dark"])
def test_the_picture_in_the_documents_is_one(look):
    """It is made by `python3 tests/bench/pictures.py DIR`; here only that it is a whole PNG of a fitting size."""
    path = Path(__file__).resolve().parents[2] / "docs" / "images" / f"bench-quick-{look}.png"
    image = path.read_bytes()
    assert image[:8] == b"\x89PNG\r\n\x1a\n" and image[-8:-4] == b"IEND"
    assert zlib.crc32(image[12:29]) == struct.unpack(">I", image[29:33])[0]
    assert len(image) < 500_000
