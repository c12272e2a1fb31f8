"""Pictures of a report for the documents, light and dark.

    python3 tests/bench/pictures.py DIR        DIR/report.html (or an address: http://..) to docs/images/bench-quick-light.png and -dark.png
    --name NAME                                docs/images/NAME-light.png instead
    --height PIXELS                            how much of the page from its top (default 1290)
    --width PIXELS                             of the window (default 1180)
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.browser import Browser  # noqa: E402

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"


class Address(str):
    """What a browser opens, where it is no file."""

    def resolve(self):
        return self

    def as_uri(self):
        return self


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("--name", default="bench-quick")
    parser.add_argument("--height", type=int, default=1290)
    parser.add_argument("--width", type=int, default=1180)
    options = parser.parse_args()
    shown = Address(options.dir) if options.dir.startswith("http://") else Path(options.dir) / "report.html"
    IMAGES.mkdir(parents=True, exist_ok=True)
    with Browser() as browser:
        for look in ("light", "dark"):
            with browser.open(shown, options.width, 900, dark=look == "dark", scale=1.5) as page:
                path = IMAGES / f"{options.name}-{look}.png"
                page.picture(path, height=options.height)
                print(path)


main()
