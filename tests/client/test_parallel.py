"""Threads that do not keep a process alive."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from mooring.client.parallel import DaemonThreads, Threads

HANGS = """
import threading
from mooring.client.parallel import DaemonThreads

begun = threading.Event()

def hang():
    begun.set()
    threading.Event().wait()

DaemonThreads(2, "test").submit(hang)
begun.wait()
print("ends", flush=True)
"""


def test_results_come_in_the_order_of_the_items() -> None:
    def work(number: int) -> int:
        return 10 // number

    threads = Threads(2)
    assert threads(work, [5, 2, 1]) == [2, 5, 10]
    with pytest.raises(ZeroDivisionError):
        threads(work, [1, 0])


def test_threads_work_at_the_same_time() -> None:
    meeting = threading.Barrier(3)
    assert sorted(Threads(3)(lambda _: meeting.wait(10), range(3))) == [0, 1, 2]


def test_no_more_threads_are_started_than_are_at_work() -> None:
    threads = DaemonThreads(1000, "few")
    for _ in range(20):
        threads.submit(threading.current_thread).result(10)
        assert sum(each.name.startswith("few-") for each in threading.enumerate()) < 10


def test_work_after_a_shutdown_starts_a_new_thread() -> None:
    threads = DaemonThreads(1, "test")
    first = threads.submit(threading.current_thread).result(10)
    threads.shutdown()
    first.join(10)
    assert not first.is_alive()
    assert threads.submit(threading.current_thread).result(10) is not first


def test_a_process_ends_although_a_thread_hangs() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "ends\n")
