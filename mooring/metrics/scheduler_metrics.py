"""The Observer that keeps the scheduler's counters and histograms."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from prometheus_client.core import Metric

from mooring.framework.events import ClusterEvent
from mooring.framework.status import Code
from mooring.metrics import catalogue
from mooring.metrics.evaluations import Evaluations
from mooring.metrics.families import Counters, Floats, Histogram, Histograms, Ints
from mooring.runtime.engine_state import EngineState
from mooring.runtime.observer import Laps, Observer, Points, Record, Scheduled

PENDING = 512  # observations that are kept before they are counted together
_MOST_ATTEMPTS = 15  # from here on attempts share a label


class SchedulerMetrics(Observer):
    """What happened so far. Give it to a Scheduler as its observer, and to a SchedulerCollector."""

    def __init__(self, timer: Callable[[], float] = time.perf_counter, sample_every: int = 10) -> None:
        super().__init__(timer, sample_every)
        self.attempts = Counters(catalogue.SCHEDULE_ATTEMPTS)
        self.attempt_duration = Histograms(catalogue.SCHEDULING_ATTEMPT_DURATION)
        self.algorithm_duration = Histograms(catalogue.SCHEDULING_ALGORITHM_DURATION)
        self.event_duration = Histograms(catalogue.EVENT_HANDLING_DURATION)
        self.queue_incoming = Counters(catalogue.QUEUE_INCOMING_PODS)
        self.sli_duration = Histograms(catalogue.POD_SCHEDULING_SLI_DURATION)
        self.pod_attempts = Histograms(catalogue.POD_SCHEDULING_ATTEMPTS)
        self.after_flush = Counters(catalogue.POD_SCHEDULED_AFTER_FLUSH)
        self.point_duration = Histograms(catalogue.EXTENSION_POINT_DURATION)
        self.plugin_duration = Histograms(catalogue.PLUGIN_EXECUTION_DURATION)
        self.hint_duration = Histograms(catalogue.QUEUEING_HINT_DURATION)
        self.permit_wait = Histograms(catalogue.PERMIT_WAIT_DURATION)
        self.victims = Histograms(catalogue.PREEMPTION_VICTIMS)
        self.preemptions = Counters(catalogue.PREEMPTION_ATTEMPTS)
        self.preemption_duration = Histograms(catalogue.PREEMPTION_DURATION)
        self.preemption_execution = Counters(catalogue.PREEMPTION_EXECUTION)
        self.claim_creates = Counters(catalogue.RESOURCE_CLAIM_CREATES)
        self.device_allocations = Counters(catalogue.BINDING_CONDITIONS_ALLOCATIONS)
        self.device_waits = Histograms(catalogue.BINDING_CONDITIONS_WAIT)
        self.group_attempts = Counters(catalogue.POD_GROUP_ATTEMPTS)
        self.group_attempt_duration = Histograms(catalogue.POD_GROUP_ATTEMPT_DURATION)
        self.group_algorithm_duration = Histograms(catalogue.POD_GROUP_ALGORITHM_DURATION)
        self._of_groups = (
            self.group_attempts,
            self.group_attempt_duration,
            self.group_algorithm_duration,
        )
        self._has_groups = False
        self._families = [each for each in vars(self).values() if isinstance(each, Counters | Histograms)]
        self.evaluations = Evaluations()
        self._pending: list[ScheduledPods] = []
        self._handled: list[tuple[Sequence[ClusterEvent], float]] = []
        self._incoming = self.queue_incoming.values
        self._expose_from_the_start()

    def _expose_from_the_start(self) -> None:
        """Metrics without labels are there, as zero, before anything happens."""
        for histograms in (self.algorithm_duration, self.pod_attempts, self.victims):
            histograms.of()
        for counters in (self.after_flush, self.preemptions):
            counters.add(0)

    def collect(self) -> Iterator[Metric]:
        self._count_events()
        for pending in self._pending:
            pending.count()
        for family in self._families:
            if self._has_groups or family not in self._of_groups:
                yield family.collect()

    # ---- asked at start-up

    def scheduled(self, profile: str, points: Points) -> Scheduled:
        pods = ScheduledPods(self, profile, points)
        self._pending.append(pods)
        return pods.bound

    def extension_point(self, profile: str, point: str) -> Record:
        return _by_code(lambda status: self.point_duration.of(point, status, profile))

    def plugin(self, plugin: str, point: str) -> Record:
        return _by_code(lambda status: self.plugin_duration.of(plugin, point, status))

    def hint(self, plugin: str, event: str) -> Callable[[str, float], None]:
        family = self.hint_duration
        return lambda answer, seconds: family.of(plugin, event, answer).observe(seconds)

    # ---- told when it happens

    def broken_off(
        self, profile: str, points: Points, laps: Laps, code: Code, state: EngineState | None
    ) -> None:
        reached = points[: len(laps) - 1]
        for index, point in enumerate(reached):
            if not point:
                continue
            status = code.text if index == len(reached) - 1 else Code.SUCCESS.text
            self.point_duration.of(point, status, profile).observe(laps[index + 1] - laps[index])
        if "Reserve" in reached:
            self.algorithm_duration.of().observe(laps[points.index("Reserve")] - laps[0])
        if state is not None:
            self.evaluations.add(1, profile, reached, state.skip_filter, state.skip_score)

    def events_handled(self, events: Sequence[ClusterEvent], seconds: float) -> None:
        handled = self._handled
        handled.append((events, seconds))
        if len(handled) >= PENDING:
            self._count_events()

    def _count_events(self) -> None:
        alike: defaultdict[int, list[float]] = defaultdict(list)  # mostly the same few sequences
        kinds = {id(events): events for events, _ in self._handled}
        for events, seconds in self._handled:
            alike[id(events)].append(seconds)
        for kind, durations in alike.items():
            for event in kinds[kind]:
                self.event_duration.of(event.name).observe_all(np.array(durations))
        self._handled.clear()

    def pod_queued(self, queue: str, event: str) -> None:
        self._incoming[queue, event] += 1

    def algorithm_failed(self, seconds: float) -> None:
        self.algorithm_duration.of().observe(seconds)

    def attempt_failed(self, profile: str, result: str, seconds: float) -> None:
        self.attempts.add(1, result, profile)
        self.attempt_duration.of(result, profile).observe(seconds)

    def scheduled_after_flush(self) -> None:
        self.after_flush.add(1)

    def permit_waited(self, code: Code, seconds: float) -> None:
        self.permit_wait.of(code.text).observe(seconds)

    def preemption_attempted(self) -> None:
        self.preemptions.add(1)

    def victims_selected(self, count: int) -> None:
        self.victims.of().observe(count)

    def preemption_ended(self, result: str, seconds: float) -> None:
        self.preemption_duration.of(result).observe(seconds)
        self.preemption_execution.add(1, result)

    def groups_enabled(self) -> None:
        self._has_groups = True
        self.group_algorithm_duration.of()

    def group_planned(self, seconds: float) -> None:
        self.group_algorithm_duration.of().observe(seconds)

    def group_attempted(self, profile: str, result: str, seconds: float) -> None:
        self.group_attempts.add(1, result, profile)
        self.group_attempt_duration.of(result, profile).observe(seconds)

    def claim_created(self, result: str) -> None:
        self.claim_creates.add(1, result)

    def devices_waited(
        self, profile: str, drivers: Sequence[tuple[str, bool]], result: str, seconds: float
    ) -> None:
        for driver, has_conditions in drivers:
            self.device_waits.of(profile, driver, result).observe(seconds)
            if has_conditions:
                self.device_allocations.add(1, profile, driver, result)


class ScheduledPods:
    """Attempts that went well, kept until there are enough of them to be counted together."""

    def __init__(self, metrics: SchedulerMetrics, profile: str, points: Points) -> None:
        self._metrics = metrics
        self._profile = profile
        self._points = points
        self._timed = [index for index, point in enumerate(points) if point]
        self._laps: list[float] = []  # of one attempt after the other
        self._pods: list[tuple[float, int, float, frozenset[str], frozenset[str]]] = []

    def bound(self, laps: Laps, began: float, attempts: int, since_first: float, state: EngineState) -> None:
        self._laps.extend(laps)
        pods = self._pods
        pods.append((began, attempts, since_first, state.skip_filter, state.skip_score))
        if len(pods) >= PENDING:
            self.count()

    def count(self) -> None:
        if not self._pods:
            return
        laps = np.array(self._laps).reshape(len(self._pods), -1)
        began, attempts, since_first, skip_filter, skip_score = zip(*self._pods, strict=True)
        self._laps, self._pods = [], []
        self._count_points(laps)
        if "Reserve" in self._points:
            skipped = Counter(zip(skip_filter, skip_score, strict=True))
            for (by_filter, by_score), count in skipped.items():
                self._metrics.evaluations.add(count, self._profile, self._points, by_filter, by_score)
        self._count_pods(laps[:, -1] - np.array(began), np.array(attempts), np.array(since_first))

    def _count_points(self, laps: Floats) -> None:
        metrics, points, success = self._metrics, self._points, Code.SUCCESS.text
        family = metrics.point_duration
        children = [family.of(point, success, self._profile) for point in points if point]
        family.observe_columns(children, np.diff(laps)[:, self._timed])
        if "Reserve" in points:
            metrics.algorithm_duration.of().observe_all(laps[:, points.index("Reserve")] - laps[:, 0])

    def _count_pods(self, seconds: Floats, attempts: Ints, since_first: Floats) -> None:
        metrics = self._metrics
        metrics.attempts.add(len(seconds), "scheduled", self._profile)
        metrics.attempt_duration.of("scheduled", self._profile).observe_all(seconds)
        metrics.pod_attempts.of().observe_all(attempts)
        capped = np.minimum(attempts, _MOST_ATTEMPTS)
        for count in set(capped.tolist()):
            label = str(count) if count < _MOST_ATTEMPTS else f"{_MOST_ATTEMPTS}+"
            metrics.sli_duration.of(label).observe_all(since_first[capped == count])


def _by_code(child_for: Callable[[str], Histogram]) -> Record:
    """Children by status, each made when first needed; `observe` is written out, as this is called often."""
    children: list[Histogram | None] = [None] * len(Code)

    def record(code: Code, seconds: float) -> None:
        child = children[code]
        if child is None:
            child = children[code] = child_for(code.text)
        pending = child.pending
        pending.append(seconds)
        if len(pending) >= PENDING:
            child.sort_in()

    return record
