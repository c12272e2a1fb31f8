"""What a command shows on a terminal, as one SVG."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from xml.sax.saxutils import escape

CELL, LINE = 7.83, 18
STYLE = "text{font:13px ui-monospace,DejaVu Sans Mono,Menlo,Consolas,monospace;fill:#e6edf3;white-space:pre}.prompt{fill:#7ee787}"


def shown(command, columns=100, rows=40, seconds=60, env=None):
    """Everything that a command writes to a terminal of this size."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", **(env or {})}
    process = subprocess.Popen([str(part) for part in command], stdin=follower, stdout=follower, stderr=follower, env=environment,
                               start_new_session=True)
    os.close(follower)
    said, deadline = b"", time.monotonic() + seconds
    while time.monotonic() < deadline:
        ready, _, _ = select.select([leader], [], [], 0.2)
        try:
            read = os.read(leader, 65536) if ready else b""
        except OSError:
            break  # the other side is closed
        said += read
    process.wait(10)
    os.close(leader)
    return said.decode(errors="replace")


def screen(said):
    """The lines that are left on the screen: what came after it was cleared last."""
    lines = said.split("\x1b[2J")[-1].replace("\r", "").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def wrapped(line, columns):
    """A line as a terminal breaks it."""
    return [line[at:at + columns] for at in range(0, max(len(line), 1), columns)]


def picture(title, prompt, lines, columns=100):
    """A window with a prompt and what followed it."""
    width = round(columns * CELL) + 32
    rows = [f"$ {prompt}", *(part for line in lines for part in wrapped(line, columns))]
    height = 44 + LINE * len(rows) + 12
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"><style>{STYLE}</style>',
             f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/><rect width="{width}" height="30" rx="8" fill="#21262d"/>',
             f'<text x="{width / 2:.0f}" y="20" text-anchor="middle" style="fill:#8b949e">{escape(title)}</text>']
    for at, row in enumerate(rows):
        kind = ' class="prompt"' if at == 0 else ""
        parts.append(f'<text x="16" y="{54 + at * LINE}"{kind} xml:space="preserve">{escape(row)}</text>')
    return "".join([*parts, "</svg>\n"])
