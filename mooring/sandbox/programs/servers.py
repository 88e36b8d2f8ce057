"""Programs that serve: what they listen on, and how their pods are reached from this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from mooring.serving.messages import Answer

AnswerPost = Callable[[str, bytes], Awaitable[Answer]]
"""Answers a request by its path and body."""


class Server(NamedTuple):
    """What a container serves over HTTPS while it runs. The certificate and its key are PEM."""

    port: int
    certificate: str
    key: str
    answer: AnswerPost


class PodServers:
    """Where the servers of pods listen. There is no network between pods, so each has a port of this machine
    instead."""

    def __init__(self) -> None:
        self._addresses: dict[tuple[str, int], tuple[str, int]] = {}

    def add(self, pod_ip: str, port: int, host: str, local_port: int) -> None:
        self._addresses[pod_ip, port] = host, local_port

    def remove(self, pod_ip: str, port: int) -> None:
        self._addresses.pop((pod_ip, port), None)

    def find(self, pod_ip: str, port: int) -> tuple[str, int] | None:
        """Return the host and port on this machine that a port of a pod stands for."""
        return self._addresses.get((pod_ip, port))
