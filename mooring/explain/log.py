"""Bounded log of recent decisions, by pod."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from mooring.core.decision import Decision
from mooring.framework.pod import PodInfo

LONGEST_MESSAGE = 4096  # characters kept of a message; the counts by plugin and reason are kept beside it

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Decision).decode


class Recording(StrEnum):
    """How much is kept of each attempt."""

    OFF = "off"
    SUMMARY = "summary"
    SAMPLED = "sampled"  # one attempt in so many in full, the others as a summary
    FULL = "full"


class Attempt(msgspec.Struct, gc=False):
    """An outcome, and how often it occurred in a row.

    Held encoded: a decision is many small objects, and most of the thousands of decisions are never read.
    """

    uid: str
    result: str
    message: str
    first: float
    last: float
    summary: bytes
    count: int = 1
    full: bytes | None = None  # of the last of them that was told in full

    def repeated(self, decision: Decision, now: float) -> bool:
        """Count a decision that came to the same; False where it did not."""
        if decision.message != self.message or decision.result != self.result or decision.node:
            return False
        self.last = now
        self.count += 1
        self.summary = _encode(decision)
        return True

    @property
    def decision(self) -> Decision:
        """The last of them, as fully as it was kept."""
        return _decode(self.summary if self.full is None else self.full)


class DecisionLog:
    """Recent decisions by pod; deleted pods stay until others need the space.

    Bounded by the number of pods, of different outcomes kept for each, and of bytes in full records.
    `sample` is the N of "one attempt in N".
    """

    def __init__(
        self,
        recording: Recording = Recording.SUMMARY,
        *,
        sample: int = 100,
        pods: int = 10_000,
        attempts: int = 5,
        full_bytes: int = 64 << 20,
    ) -> None:
        if recording is Recording.OFF:
            raise ValueError("a scheduler that records nothing has no log")
        if min(sample, pods, attempts) < 1:
            raise ValueError(f"sample={sample}, pods={pods}, attempts={attempts}: expected at least 1 each")
        self._every = {Recording.SUMMARY: 0, Recording.SAMPLED: sample, Recording.FULL: 1}[recording]
        self._started = 0
        self._most_pods = pods
        self._most_attempts = attempts
        self._most_bytes = full_bytes
        self._pods: dict[str, list[Attempt]] = {}  # by key, the one tried last at the end
        self._told_in_full: deque[tuple[Attempt, bytes]] = deque()
        self._full_bytes = 0

    # ---- recording

    def wants_all(self) -> bool:
        if not self._every:
            return False
        self._started += 1
        return self._started % self._every == 0

    def add(self, pod: PodInfo, decision: Decision, now: float) -> None:
        key, uid = pod.key, pod.uid
        attempts = self._pods.pop(key, None)
        if attempts is None or attempts[-1].uid != uid:  # created anew under its name: another pod
            attempts = []
        self._pods[key] = attempts
        if decision.tried_node:
            _take_choice(attempts, decision)
        full = _encode(decision) if decision.full and self._every else None
        if decision.full or len(decision.message) > LONGEST_MESSAGE:
            decision = _summary_of(decision)
        if not attempts or not attempts[-1].repeated(decision, now):
            result, message = decision.result, decision.message
            attempts.append(Attempt(uid, result, message, now, now, _encode(decision)))
            if len(attempts) > self._most_attempts:
                del attempts[0]
            if len(self._pods) > self._most_pods:
                del self._pods[next(iter(self._pods))]
        if full is not None:
            self._keep(attempts[-1], full)

    def _keep(self, attempt: Attempt, full: bytes) -> None:
        """Keep a full record, and of the oldest ones only the summary where there are too many bytes."""
        attempt.full = full
        self._told_in_full.append((attempt, full))
        self._full_bytes += len(full)
        while self._full_bytes > self._most_bytes:
            oldest, record = self._told_in_full.popleft()
            self._full_bytes -= len(record)
            if oldest.full is record:
                oldest.full = None

    # ---- looking in

    def of(self, key: str) -> Sequence[Attempt]:
        """The last attempts at the pod of that "namespace/name", oldest first."""
        return self._pods.get(key, ())

    def __iter__(self) -> Iterator[str]:
        """The keys of all pods, the one tried last first."""
        return reversed(self._pods)

    def __len__(self) -> int:
        return len(self._pods)


def _take_choice(attempts: list[Attempt], failure: Decision) -> None:
    """Join what failed after a node was chosen with the record of the choice: they are one attempt."""
    last = attempts[-1].decision if attempts else None
    if last is None or last.node != failure.tried_node or last.attempts != failure.attempts:
        return
    attempts.pop()
    failure.feasible_nodes, failure.best_nodes = last.feasible_nodes, last.best_nodes
    failure.scored_by, failure.ranking = last.scored_by, last.ranking


def _summary_of(decision: Decision) -> Decision:
    message, post_filter = decision.message, decision.post_filter
    if post_filter is not None:
        post_filter = msgspec.structs.replace(post_filter, candidates={}, best=[])
    if len(message) > LONGEST_MESSAGE:
        message = message[: LONGEST_MESSAGE - 1] + "…"
    return msgspec.structs.replace(
        decision,
        message=message,
        full=False,
        pre_filter=None,
        pre_filter_nodes=None,
        skipped_filters=[],
        refusals={},
        feasible=[],
        skipped_scores=[],
        scores={},
        total=[],
        best=[],
        post_filter=post_filter,
    )
