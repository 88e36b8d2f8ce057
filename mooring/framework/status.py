"""What a plugin answers: a Status, or None for success.

Expected refusals are Status values; an exception is a bug or a failed call and becomes an Error status
that carries the plugin's name.
"""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """kube-scheduler's status codes, with its numbers."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def text(self) -> str:
        """The name as kube-scheduler prints it."""
        return _TEXT[self]


_TEXT = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}

_REJECTIONS = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


class Status:
    """A code, the reasons a person reads, and the plugin that gave it (filled in by the framework)."""

    __slots__ = ("code", "exception", "not_before", "ok", "plugin", "reasons", "timeout")

    def __init__(
        self,
        code: Code,
        *reasons: str,
        plugin: str = "",
        timeout: float = 0.0,
        not_before: float | None = None,
        exception: BaseException | None = None,
    ) -> None:
        self.code = code
        self.ok = code == Code.SUCCESS
        self.reasons = reasons
        self.plugin = plugin
        self.timeout = timeout  # Wait: seconds until the pod is refused
        self.not_before = not_before  # a refusal that ends at this time: the queue retries the pod then
        self.exception = exception

    @property
    def rejected(self) -> bool:
        """Whether the pod was refused, as opposed to something having gone wrong."""
        return self.code in _REJECTIONS

    @property
    def message(self) -> str:
        """The reasons as one text; what an API server would not take is replaced."""
        text = ", ".join(map(str, self.reasons))
        return text if text.isascii() else text.encode(errors="replace").decode()

    def by(self, plugin: str) -> Status:
        """Return a copy of the status with the name of the plugin (statuses are shared and immutable)."""
        if self.plugin == plugin:
            return self
        return Status(
            self.code,
            *self.reasons,
            plugin=plugin,
            timeout=self.timeout,
            not_before=self.not_before,
            exception=self.exception,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        return (self.code, self.reasons, self.plugin, self.not_before) == (
            other.code,
            other.reasons,
            other.plugin,
            other.not_before,
        )

    def __hash__(self) -> int:
        return hash((self.code, self.reasons, self.plugin, self.not_before))

    def __repr__(self) -> str:
        who = f" by {self.plugin}" if self.plugin else ""
        return f"<{self.code.text}{who}: {self.message}>" if self.reasons else f"<{self.code.text}{who}>"


SUCCESS = Status(Code.SUCCESS)
SKIP = Status(Code.SKIP)
SKIP_SHAPE = Status(Code.SKIP)  # distinguished from SKIP by identity


def unschedulable(*reasons: str, not_before: float | None = None) -> Status:
    """Refuse; removing other pods may help, so preemption is tried."""
    return Status(Code.UNSCHEDULABLE, *reasons, not_before=not_before)


def unresolvable(*reasons: str, not_before: float | None = None) -> Status:
    """Refuse, and no removal of other pods would help (UnschedulableAndUnresolvable)."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, *reasons, not_before=not_before)


def pending(*reasons: str) -> Status:
    """Refuse until an event that this plugin registered arrives; the pod then skips its backoff."""
    return Status(Code.PENDING, *reasons)


def error(reason: str, exception: BaseException | None = None) -> Status:
    """Something went wrong; the attempt fails and is retried after a backoff."""
    return Status(Code.ERROR, reason, exception=exception)


def skip(*, shape: bool = False) -> Status:
    """Take no part in this cycle (pre_filter, pre_score), or leave it to the next binder (bind).

    `shape=True` promises the same answer for every pod with this spec, labels and namespace, whatever else
    changes, so that the plugin need not be asked again.
    """
    return SKIP_SHAPE if shape else SKIP


def wait(timeout: float, *reasons: str) -> Status:
    """From permit: hold the pod until every waiting plugin allows it, at most `timeout` seconds."""
    return Status(Code.WAIT, *reasons, timeout=timeout)
