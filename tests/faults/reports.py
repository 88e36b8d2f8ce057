"""Events that schedulers wrote: what they report has happened."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from tests.faults.history import Entry
from tests.faults.pods import Pod, Tree

_ASSIGNED = re.compile(r"Successfully assigned \S+ to (\S+)")
_PREEMPTED = re.compile(r"Preempted by (?:pod|podgroup) \S+ on node (\S+)")
_IN_MEMORY = " (in kube-scheduler memory)."


class Reports:
    """Where pods were bound, and from where they were deleted, by uid. Deletion by anyone counts: a scheduler
    may delete a victim that is being deleted already, which changes nothing."""

    def __init__(self) -> None:
        self._bound: dict[str, str] = {}
        self._bound_at: dict[str, float] = {}
        self._deleted: dict[str, str] = {}

    def bound(self, pod: Pod, at: float) -> None:
        self._bound[pod.uid] = pod.node
        self._bound_at[pod.uid] = at

    def deleted(self, pod: Pod) -> None:
        self._deleted[pod.uid] = pod.node

    def problems_of(self, entry: Entry, event: Tree) -> Iterator[str]:
        """Yield what an event reports although it did not happen. A victim may be one that is still being
        bound. Nothing in the API shows that one was preempted in memory, but it is not bound by then."""
        if not entry.client.startswith("scheduler"):
            return
        uid, message = event["involvedObject"].get("uid", ""), event.get("message", "")
        if message.endswith(_IN_MEMORY):
            recorded = datetime.fromisoformat(event["eventTime"]).timestamp()
            if self._bound_at.get(uid, recorded) < recorded:
                yield f"{entry.key}: {message!r}, but it was bound to {self._bound[uid]!r} before"
            return
        for reason, pattern, happened in (
            ("Scheduled", _ASSIGNED, self._bound),
            ("Preempted", _PREEMPTED, self._deleted),
        ):
            if event.get("reason") == reason:
                match = pattern.fullmatch(message)
                on_its_way = reason == "Preempted" and happened.get(uid) == ""
                if match is None or not (on_its_way or happened.get(uid) == match[1]):
                    yield f"{entry.key}: {message!r}, but {happened.get(uid, 'nothing')!r}"
