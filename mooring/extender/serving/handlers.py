"""Writing an extender: decorate a function, and `mooring extender FILE.py` serves it.

    from mooring import extender

    @extender.filter
    def has_gpu(pod, node):
        if "gpu" not in node.metadata.labels:
            return "node(s) had no gpu"

    @extender.prioritize
    def newest(pod, nodes):
        return {node.name: int(node.metadata.labels["year"]) - 2020 for node in nodes}

The names of a function's parameters choose what it is called with: the `pod`, one `node` at a time or all
`nodes` at once, the `victims` of a preemption, the `client` to write to the cluster with, or the `request` as
it came. One that has to wait for something is an `async def`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from itertools import repeat
from typing import Any, NamedTuple, TypeVar, overload

import msgspec

from mooring.api.objects import Pod

F = TypeVar("F", bound=Callable[..., Any])

MARK = "__mooring_extender__"


class HandlerError(TypeError):
    """A function that cannot be a handler; the message says what would be right."""


class ExtenderError(Exception):
    """Raised by a handler to let the attempt fail with this message, which the pod's event then shows."""


class Victims(msgspec.Struct):
    """The pods that preemption would evict from one node. Where the scheduler sent nothing but their uids and
    the extender keeps no pods itself, they have nothing but a uid."""

    pods: list[Pod]
    num_pdb_violations: int = 0


class Handler(NamedTuple):
    """A function behind a path."""

    verb: str
    path: str
    function: Callable[..., Any]
    parameters: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def each(self) -> bool:
        """Whether it is called with one node at a time."""
        return self.verb != "bind" and "node" in self.parameters

    def ask_each(self, nodes: Iterable[Any], shown: dict[str, Any]) -> list[Any]:
        """Call the function once for each node. There may be thousands, so without any overhead."""
        columns = [nodes if name == "node" else repeat(shown[name]) for name in self.parameters]
        return list(map(self.function, *columns))

    async def call(self, **available: Any) -> Any:
        """Call the function with those of the values that its parameters name."""
        answer = self.function(*(available[name] for name in self.parameters))
        return await answer if isinstance(answer, Awaitable) else answer


class Decorator:
    """`@extender.filter` or, behind another path than the verb's, `@extender.filter("/path")`."""

    def __init__(self, verb: str, example: str, *parameters: str) -> None:
        self._verb = verb
        self._example = example
        self._parameters = parameters

    @overload
    def __call__(self, function: F) -> F: ...
    @overload
    def __call__(self, function: str) -> Callable[[F], F]: ...
    def __call__(self, function: F | str) -> F | Callable[[F], F]:
        if not isinstance(function, str):
            return self._mark(function, f"/{self._verb}")
        path = function
        if not path.startswith("/") or not path.isascii() or any(sign in path for sign in " ?#%"):
            raise HandlerError(f'@extender.{self._verb}("{path}"): expected a plain path such as "/{path}"')
        return lambda decorated: self._mark(decorated, path)

    def _mark(self, function: F, path: str) -> F:
        if not inspect.isfunction(function):
            raise HandlerError(f"@extender.{self._verb}: found {function!r}, expected a function")
        handler = Handler(self._verb, path, function, self._parameters_of(function))
        setattr(function, MARK, (*getattr(function, MARK, ()), handler))
        return function

    def _parameters_of(self, function: Callable[..., Any]) -> tuple[str, ...]:
        """Return the names of the parameters without a default, in order. Raises HandlerError."""
        signature = inspect.signature(function)
        where = f"{function.__module__}.{function.__qualname__}{signature}"
        names = []
        for name, parameter in signature.parameters.items():
            if parameter.default is not parameter.empty:
                break
            if name not in self._parameters or parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
                valid = ", ".join(self._parameters)
                raise HandlerError(
                    f"{where}: unknown parameter {name}; use some of {valid}, e.g. {self._example}"
                )
            names.append(name)
        if {"node", "nodes"} <= set(self._parameters) and len({"node", "nodes"}.intersection(names)) != 1:
            raise HandlerError(f"{where}: expected either node or nodes, e.g. {self._example}")
        if "nodes" in self._parameters and "node" in names and inspect.iscoroutinefunction(function):
            raise HandlerError(f"{where}: use nodes: an async handler is called with all of them at once")
        return tuple(names)


filter = Decorator("filter", "def fits(pod, node)", "pod", "node", "nodes", "request")
"""Which nodes may the pod go to?

Of one `node`: None or True lets it pass; False, or a text, or a Status refuses it, and the text is what
`kubectl describe` shows. Of all `nodes`: those that pass, as nodes or names, or a mapping from the names of
those that do not to the reason.
"""

prioritize = Decorator("prioritize", "def score(pod, node)", "pod", "node", "nodes", "request")
"""How good is each node? An integer, by convention 0 to 10, for one `node`; for all `nodes` one for each in
their order, or a mapping from names."""

bind = Decorator("bind", "def bind(pod, node, client)", "pod", "node", "client", "request")
"""Bind the pod, which has only metadata.name, namespace and uid, to the node of that name."""

preempt = Decorator("preempt", "def preempt(pod, victims)", "pod", "victims", "request")
"""Which of these nodes may pods be evicted from? `victims` has the Victims of each node by its name. Answer
the names of the nodes that may remain, or a mapping from them to the pods, or their uids, that should go."""


def handlers_of(function: object) -> tuple[Handler, ...]:
    """Return the handlers that a function was decorated as."""
    handlers: tuple[Handler, ...] = getattr(function, MARK, ()) if inspect.isfunction(function) else ()
    return handlers
