"""Commands as the pages have them, so that a test types what an operator types, and a page that rots fails it.

A block of a page is a run of lines that are indented by four or more: one script. In pages that tests type, blocks hold commands
and nothing else; what a file has to hold goes into a table or into the text.
"""

import re
import textwrap
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def section(page, heading):
    """The lines under a heading, down to the next of its rank or above."""
    lines = (DOCS / page).read_text().splitlines()
    try:
        begin = next(at for at, line in enumerate(lines) if re.fullmatch(rf"#+ {re.escape(heading)}", line))
    except StopIteration:
        raise LookupError(f"docs/{page} has no heading {heading!r}") from None
    rank = len(lines[begin]) - len(lines[begin].lstrip("#"))
    ends = (at for at, line in enumerate(lines[begin + 1:], begin + 1) if re.match(rf"#{{1,{rank}}} ", line))
    return lines[begin + 1:next(ends, len(lines))]


def blocks(page, heading):
    """The scripts of a section, in order."""
    found, block = [], []
    for line in [*section(page, heading), ""]:
        if line.startswith("    ") or (block and not line.strip() and block[-1].endswith("\\")):
            block.append(line)
        elif block:
            found.append(textwrap.dedent("\n".join(block)))
            block = []
    if not found:
        raise LookupError(f"docs/{page}: {heading!r} has no commands")
    return found


def commands(page, heading):
    """The commands of a section one by one; a line that ends with a backslash goes on."""
    return [line for block in blocks(page, heading) for line in block.replace("\\\n", " ").splitlines() if line.strip()]
