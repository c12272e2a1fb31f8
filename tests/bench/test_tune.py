"""Pages of `forebay tune report` as a reader has them: on a phone and on a desk, light and dark, without scripts."""

import subprocess

import pytest

from bench.test_plan import MEASURE, WINDOWS, binary


# One browser.
pytestmark = pytest.mark.xdist_group("tune report")


@pytest.fixture(scope="session")
def samples(tmp_path_factory):
    page = tmp_path_factory.mktemp("tune") / "samples.html"
    subprocess.run([binary(), "tune", "report", "--samples", "-o", page], check=True)
    return page


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("window", WINDOWS)
def test_samples_layout(samples, browser, window, dark):
    with browser.open(samples, *WINDOWS[window], dark=dark) as page:
        assert page.run(MEASURE) == []
        assert page.complaints() == []


def test_samples_show_the_published_figures_without_scripts(samples, browser):
    with browser.open(samples, *WINDOWS["phone"], scripts=False) as page:
        shown = page.ask("DOM.getOuterHTML", nodeId=page.ask("DOM.getDocument")["root"]["nodeId"])["outerHTML"]
        for words in ("nothing here was measured", "13.75x", "6.75x", "-51 %", "-95 %", "-98 %", "+10 to +40 %"):
            assert words in shown, words
