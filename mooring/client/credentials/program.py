"""Running a program for what it prints, bounded in time and size."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

LARGEST_OUTPUT = 1024**2
TIME_LIMIT = 60.0  # seconds, for a program that needs no input
_END_IN = 5.0


class Printed(NamedTuple):
    """How a program ended; `errors` is what it wrote there, unless a person saw it at the terminal."""

    code: int
    output: bytes
    errors: bytes


async def run_program(
    command: str, args: list[str], environ: Mapping[str, str], interactive: bool
) -> Printed:
    """Run a program to its end; an interactive one shares our terminal, and may take its time.

    Raises OSError where it cannot be run, TimeoutError, or OverflowError where it prints too much.
    """
    process = await asyncio.create_subprocess_exec(
        command,
        *args,
        env=environ,
        stdin=None if interactive else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=None if interactive else asyncio.subprocess.PIPE,
        start_new_session=not interactive,  # a group of its own, so that its children can be ended with it
    )
    try:
        async with asyncio.timeout(None if interactive else TIME_LIMIT):
            printed = await _finish(process, interactive)
    except BaseException:
        _end(process, interactive)
        with suppress(TimeoutError):  # do not wait for other processes that keep its pipes open
            async with asyncio.timeout(_END_IN):  # `wait_for` of Python 3.11 may drop a cancellation
                await _finish(process, interactive)
        raise
    if len(printed.output) > LARGEST_OUTPUT:
        raise OverflowError
    return printed


async def _finish(process: asyncio.subprocess.Process, interactive: bool) -> Printed:
    """Read all that it prints until it ends; if that is too much, end it."""

    async def read(stream: asyncio.StreamReader | None) -> bytes:
        content = b""
        while stream is not None and (chunk := await stream.read(64 * 1024)):
            if len(content) <= LARGEST_OUTPUT:
                content += chunk
            else:  # and read on: asyncio sees the end of a process only behind its output
                _end(process, interactive)
        return content

    output, errors, code = await asyncio.gather(read(process.stdout), read(process.stderr), process.wait())
    return Printed(code, output, errors)


def _end(process: asyncio.subprocess.Process, interactive: bool) -> None:
    with suppress(ProcessLookupError):
        if interactive:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
