"""Plugins that write down when they are called, and clusters that run nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mooring.framework import Plugin
from mooring.testing import Cluster, config_with, make_cluster, make_node

Answer = Any  # what a method returns, or a function of its arguments (without self) that gives it


def probe(name: str, calls: list[str] | None = None, **answers: Answer) -> type[Plugin]:
    """A plugin with these methods. Each writes "Name.method" into `calls`, and answers as told."""
    methods = {method: _method(name, method, answer, calls) for method, answer in answers.items()}
    return type(name, (Plugin,), {"name": name, **methods})


def _method(name: str, method: str, answer: Answer, calls: list[str] | None) -> Callable[..., Any]:
    def call(self: Plugin, *args: Any) -> Any:
        if calls is not None:
            calls.append(f"{name}.{method}")
        return answer(*args) if callable(answer) else answer

    return call


def raising(*args: Any) -> Any:
    raise ValueError("boom")


def only(*plugins: type[Plugin], nodes: Iterable[str] = ("a", "b"), **more: Any) -> Cluster:
    """A cluster whose profile runs these plugins, and of the default ones only PrioritySort and
    DefaultBinder."""
    config = config_with(plugins, defaults=False)
    return make_cluster([make_node(name) for name in nodes], plugins=plugins, config=config, **more)


def beside_defaults(*plugins: type[Plugin], nodes: Iterable[str] = ("a", "b"), **more: Any) -> Cluster:
    """A cluster whose profile runs these plugins after all the default ones."""
    return make_cluster([make_node(name) for name in nodes], plugins=plugins, **more)
