"""The pace of a demo: on a terminal, time to read what was printed; elsewhere none."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty

SECONDS_PER_LINE = 0.3
SHORTEST, LONGEST = 1.0, 6.0


def pause(lines: int) -> None:
    """Wait until a person has read so many lines, or presses a key."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    sys.stdout.flush()
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        seconds = min(max(lines * SECONDS_PER_LINE, SHORTEST), LONGEST)
        if select.select([sys.stdin], [], [], seconds)[0]:
            os.read(descriptor, 1024)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
