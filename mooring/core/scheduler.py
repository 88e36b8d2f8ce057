"""The scheduler: a deterministic state machine.

Events come in (`apply`, `delete`, `tick`, `bindings.finished`), `schedule_one` makes one attempt, and what is
to be done in the cluster goes out as `effects`. It never sleeps, opens no socket and reads no clock but the
one it was given, so the same core runs live, embedded, simulated, and replayed from a seed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import contextmanager
from typing import Any, TypeVar

from mooring.api.events import truncate_note
from mooring.api.meta import Condition, KubeObject
from mooring.config import FeatureGates, KubeSchedulerConfiguration, LoadedConfig, default_config, resolve
from mooring.core import decision as records
from mooring.core.algorithm import NO_NODES, Algorithm, Choice
from mooring.core.binding import BindingCycle
from mooring.core.bindings import Bindings
from mooring.core.build import build_profile, registry_with
from mooring.core.decision import Decision, Recorder
from mooring.core.diagnosis import DiagnosedStatuses, Diagnosis
from mooring.core.effects import Effect, EmitEvent, PatchPodStatus
from mooring.core.event_map import registrations
from mooring.core.eviction import Evictions
from mooring.core.extenders import Extenders
from mooring.core.groups.cycle import GroupCycle
from mooring.core.groups.dialects import group_reader
from mooring.core.groups.members import GroupMembers
from mooring.core.groups.slices import Sliced
from mooring.core.groups.waits import GroupWaits
from mooring.core.intake import Intake
from mooring.core.nominator import Nominator
from mooring.core.queue import Place, QueuedPodInfo, SchedulingQueue, sort_key_of
from mooring.core.queue.hints import hint_timer
from mooring.core.waiting import WaitingPods
from mooring.framework.handle import Client
from mooring.framework.plugin import Plugin, PostFilterResult
from mooring.framework.pod import GroupKey, PodInfo
from mooring.framework.status import Code, Status
from mooring.runtime.containment import CONTAINED, reraise_if_from_outside, text_of
from mooring.runtime.extender import Extender
from mooring.runtime.observer import Observer
from mooring.runtime.profile import Profile
from mooring.runtime.registry import Registry
from mooring.runtime.runners import PluginError
from mooring.state.cluster import ClusterState
from mooring.state.store import ObjectStore

Item = TypeVar("Item")
Result = TypeVar("Result")

logger = logging.getLogger("mooring.core")

_ATTEMPTS = logging.INFO - 3  # klog's verbosity 3
UNSCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "SchedulerError"


def one_by_one(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The parallel helper where there are no threads."""
    return [work(item) for item in items]


def first_of(n: int) -> int:
    """The choice among n where none is to be made."""
    return 0


class Scheduler:
    """All profiles of a configuration over one queue and one cluster.

    `plugins` are classes to register in addition to the default ones (kube-scheduler's WithPlugin); `pick(n)`
    is a random index below n, from a seeded generator; `reuse=False` disables caching between cycles.
    `record` records every decision in full, including scores that the choice did not need; `log` keeps
    decisions, in full if it requests that, and does not influence them. `observer` receives events and
    durations. `extenders` are the clients of the configuration's extenders; attempts block on their
    responses.
    """

    def __init__(
        self,
        config: LoadedConfig | KubeSchedulerConfiguration | None = None,
        *,
        clock: Callable[[], float],
        pick: Callable[[int], int],
        plugins: Iterable[type[Plugin]] = (),
        registry: Registry | None = None,
        client: Client | None = None,
        extenders: Iterable[Extender] = (),
        reuse: bool = True,
        record: bool = False,
        log: Recorder | None = None,
        observer: Observer | None = None,
        pod_max_in_unschedulable_pods_duration: float = 300.0,
        parallelize: Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]] = one_by_one,
    ) -> None:
        self.clock = clock
        self.pick = pick
        self.client = client
        self.record = record
        self.log = log
        self.observer = observer
        self.parallelize = parallelize
        self.extenders = Extenders(extenders, parallelize)
        self.cluster = ClusterState()
        self.store = ObjectStore()
        self.effects: list[Effect] = []
        self.shared: dict[type[Any], Any] = {}  # what the plugins of all profiles have in common
        self.waiting = WaitingPods()
        loaded = default_config() if config is None else config
        settings = loaded.config if isinstance(loaded, LoadedConfig) else loaded
        self.feature_gates = FeatureGates(settings.feature_gates)
        self.members = GroupMembers(self.cluster, self.store)
        registry = registry_with() if registry is None else registry
        for cls in plugins:
            registry.register(cls)
        self.profiles: dict[str, Profile] = {}
        for resolved in resolve(loaded, registry):
            self.profiles[resolved.scheduler_name] = build_profile(resolved, registry, self, reuse, observer)
        self.cluster.group_of = group_reader(
            self.feature_gates.is_enabled("GenericWorkload"),
            {name for name, profile in self.profiles.items() if "Coscheduling" in profile.plugins},
        )
        self.queue = self._make_queue(settings, pod_max_in_unschedulable_pods_duration)
        self.intake = Intake(self)
        self.algorithm = Algorithm(
            self.cluster,
            self.queue.nominator,
            pick,
            settings.percentage_of_nodes_to_score or 0,
            self.extenders,
            self.clock,
        )
        self.bindings = Bindings(self)
        self.evictions = Evictions(self)
        self.group_waits = GroupWaits(self)
        self._groups = GroupCycle(self)
        self._paused: deque[tuple[GroupKey, Sliced[list[Decision]]]] = deque()  # long attempts at groups
        self._slices = False  # whether these pause
        self._decided: deque[Decision] = deque()  # about members of a group, to be reported one by one

    def _make_queue(self, settings: KubeSchedulerConfiguration, max_wait: float) -> SchedulingQueue:
        first, observer = next(iter(self.profiles.values())), self.observer
        sort_key = sort_key_of(first.at("queueSort")[0])
        if self.cluster.group_of is not None:
            sort_key = self.members.ordered(sort_key)
        return SchedulingQueue(
            sort_key,
            clock=self.clock,
            pre_enqueue={name: profile.pre_enqueue for name, profile in self.profiles.items()},
            hints={
                name: registrations(profile.plugins.values(), extenders=len(self.extenders) > 0)
                for name, profile in self.profiles.items()
            },
            initial_backoff=settings.pod_initial_backoff_seconds,
            max_backoff=settings.pod_max_backoff_seconds,
            max_in_unschedulable=max_wait,
            nominator=Nominator(is_pending=self._is_pending, changed=self.cluster.touch),
            observe=None if observer is None else observer.pod_queued,
            time_hint=None if observer is None else hint_timer(observer),
            still_refused=None if self.cluster.group_of is None else self._still_refused,
        )

    def _still_refused(self, pod: PodInfo) -> bool:
        return pod.group is not None and self._groups.would_fail(pod.group)

    def _is_pending(self, pod: PodInfo) -> bool:
        return self.cluster.placed(pod.uid) is None

    # ---- events in

    def apply(self, obj: KubeObject) -> None:
        """Apply an added or changed object; raises MalformedObject if it is invalid."""
        observer = self.observer
        if observer is None:
            self.intake.apply(obj)
        else:
            began = observer.timer()
            observer.events_handled(self.intake.apply(obj), observer.timer() - began)

    def delete(self, obj: KubeObject) -> None:
        """An object is gone."""
        observer = self.observer
        if observer is None:
            self.intake.delete(obj)
        else:
            began = observer.timer()
            observer.events_handled(self.intake.delete(obj), observer.timer() - began)

    def prefer(self, node_of: Callable[[PodInfo], str]) -> None:
        """Take the node that `node_of` names, where it is one of the best, instead of a random one."""
        self.algorithm.prefer = node_of

    def forget_shapes(self) -> None:
        """Drop what was cached for pods: device classes decide whether nodes need to have a resource."""
        for profile in self.profiles.values():
            profile.forget_all()

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to try, to wait for or to carry out."""
        groups = self.bindings.groups.next_time(), self.group_waits.next_time()
        return not (self.queue or self._decided or self.effects or self.waiting) and groups == (None, None)

    @property
    def has_next(self) -> bool:
        """Whether there is something to try now."""
        return bool(self._decided or self._paused) or self.queue.peek() is not None

    def tick(self) -> None:
        """Time has passed: end backoffs and waits that are over."""
        now = self.clock()
        self.queue.flush(now)
        self.waiting.expire(now)
        self.bindings.groups.tick(now)
        self.group_waits.tick(now)

    def next_wake(self) -> float | None:
        """When `tick` next has something to do; None: not before another event."""
        queue = self.queue.next_wake(self.clock())
        groups = self.bindings.groups.next_time(), self.group_waits.next_time()
        times = [queue, self.waiting.next_deadline(), *groups]
        return min((time for time in times if time is not None), default=None)

    def take_effects(self) -> list[Effect]:
        """What is to be done, in order; the list is the caller's."""
        effects, self.effects = self.effects, []
        return effects

    # ---- one attempt

    def schedule_one(self) -> Decision | None:
        """Try the first pod of the queue, or its group; None where there is nothing to try.

        A group is tried as a whole, and its members' decisions are returned one after another.
        """
        while not self._decided:
            if self._paused and not self._slices:
                self._continue(*self._paused.popleft())
                continue
            queued = self.queue.pop()
            if queued is None:
                return None
            if queued.pod.group is not None:
                self._attempt_group(queued, queued.pod.group)
            elif not self.skipped(queued):
                return self._attempt(queued)
        return self._decided.popleft()

    def schedule_slice(self) -> Decision | None:
        """Continue a long attempt until its next pause, if there is one, and then do as `schedule_one`.

        None where there is nothing else to try; attempts may be in a pause, see `is_paused`.
        """
        self._slices = True
        try:
            if self._paused and not self._decided:
                self._continue(*self._paused.popleft())
            return self.schedule_one()
        finally:
            self._slices = False

    @property
    def is_paused(self) -> bool:
        """Whether an attempt at a group is in a pause."""
        return bool(self._paused)

    def _attempt_group(self, queued: QueuedPodInfo, group: GroupKey) -> None:
        self._continue(group, self._groups.attempt(queued, group))

    def _continue(self, group: GroupKey, attempt: Sliced[list[Decision]]) -> None:
        """Go on with an attempt at a group to its end, or to its next pause where that is asked for."""
        try:
            next(attempt)
            while not self._slices:
                next(attempt)
            self._paused.append((group, attempt))
            return
        except StopIteration as done:
            decisions: list[Decision] = done.value
        self._decided.extend(decisions)
        if self.log is not None:
            for decision in decisions:
                pod = self.intake.pod_named(group, decision.pod)
                if pod is not None:
                    self.log.add(pod, decision, self.clock())

    def skipped(self, queued: QueuedPodInfo) -> bool:
        """Return whether this pod needs no attempt: it is being deleted, is assigned, or has no profile
        here."""
        pod = queued.pod
        if pod.terminating:
            note = f"skip schedule deleting pod: {pod.key}"
            self.effects.append(EmitEvent(pod, "Warning", "FailedScheduling", "Scheduling", note))
        elif pod.scheduler_name in self.profiles and self.cluster.placed(pod.uid) is None:
            return False
        self.queue.done(pod.uid)
        return True

    def _attempt(self, queued: QueuedPodInfo) -> Decision:
        if logger.isEnabledFor(_ATTEMPTS):
            logger.log(_ATTEMPTS, "Attempting to schedule pod", extra={"fields": {"pod": queued.pod.key}})
        decision = records.start(queued.pod, queued.attempts, len(self.cluster.table.nodes))
        in_full = self.records_all()
        profile = self.profiles[queued.pod.scheduler_name]
        if profile.stopwatch is not None:
            queued.began = profile.stopwatch.timer()
            profile.stopwatch.laps = [queued.began]
        try:
            self._decide(queued, profile, decision, in_full)
        except CONTAINED as bug:
            reraise_if_from_outside(bug)
            self._broken_off(queued, profile, decision, bug)
        if self.log is not None:
            self.log.add(queued.pod, decision, self.clock())
        return decision

    def _decide(self, queued: QueuedPodInfo, profile: Profile, decision: Decision, in_full: bool) -> None:
        try:
            choice = self.algorithm.choose(profile, queued.pod, score_anyway=self.record)
        except PluginError as failure:
            self._failed(queued, profile, failure, decision)
        else:
            self._follow(queued, profile, choice, decision, in_full)

    def _failed(
        self, queued: QueuedPodInfo, profile: Profile, failure: PluginError, decision: Decision
    ) -> None:
        """End an attempt in which a plugin failed."""
        if profile.stopwatch is not None:
            profile.stopwatch.failed()
        self.fail(queued, Status(Code.ERROR, str(failure), plugin=failure.plugin), "", decision)

    def _broken_off(
        self, queued: QueuedPodInfo, profile: Profile, decision: Decision, bug: BaseException
    ) -> None:
        """Handle a bug outside of any plugin: retry this pod without cached results, in case they are the
        cause. Other pods are not affected."""
        logger.error("scheduling pod %s", queued.pod.key, exc_info=bug)
        profile.forget(queued.pod.shape)
        if queued.place is Place.IN_FLIGHT:
            self.fail(queued, Status(Code.ERROR, text_of(bug)), "", decision)

    def _follow(
        self, queued: QueuedPodInfo, profile: Profile, choice: Choice, decision: Decision, in_full: bool
    ) -> None:
        """Record a choice, and do what follows from it."""
        self.record_choice(decision, choice, in_full)
        if choice.failure is not None:
            self._failed(queued, profile, choice.failure, decision)
        elif choice.row is None:
            self._does_not_fit(queued, profile, choice, decision, in_full)
        else:
            self._place(queued, profile, choice, decision)

    def record_choice(self, decision: Decision, choice: Choice, in_full: bool) -> None:
        """Put down what the filters and scores said, as far as it is wanted."""
        if in_full or self.log is not None:
            records.summarize(decision, choice, self.cluster.table.names)
        if in_full:
            records.record_choice(decision, choice, self.cluster.table.names)

    def records_all(self) -> bool:
        """Whether the attempt that starts now is recorded in full."""
        return self.record or (self.log is not None and self.log.wants_all())

    def rehearse(self, pod: PodInfo, *, score: bool = True, without: Set[str] = frozenset()) -> Choice:
        """What an attempt at a pod would come to now, over all nodes, or if the plugins of `without` did not
        filter. It leaves no trace: nothing is assumed or queued, and no random number is taken that later
        decisions would miss. Raises PluginError."""
        profile = self.profiles[pod.scheduler_name]
        with self.in_rehearsal():
            return self.algorithm.rehearse(profile, pod, score, without)

    @contextmanager
    def in_rehearsal(self) -> Iterator[None]:
        """While this lasts, what plugins draw and emit through their handle counts for nothing."""
        pick, effects = self.pick, self.effects
        self.pick, self.effects = first_of, []
        try:
            yield
        finally:
            self.pick, self.effects = pick, effects

    def _does_not_fit(
        self, queued: QueuedPodInfo, profile: Profile, choice: Choice, decision: Decision, in_full: bool
    ) -> None:
        diagnosis, stopwatch = choice.diagnosis, profile.stopwatch
        if diagnosis.total == 0:
            if stopwatch is not None:
                stopwatch.no_node()
            status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, NO_NODES)
            self.fail(queued, status, "", decision)
            return
        if stopwatch is not None:
            stopwatch.no_fit(choice.state, diagnosis.pre_filter)
        nominate: str | None = ""
        suffix = ""
        if profile.points.get("postFilter"):
            result = profile.post_filter(choice.state, queued.pod, DiagnosedStatuses(diagnosis))
            nominate = result.nominated_node
            suffix = "" if result.status is None else result.status.message
            self.record_post_filter(decision, result, in_full)
            if result.victims:
                self.evictions.preempt(queued.pod, result)
        if stopwatch is not None:
            stopwatch.no_node()
        status = Status(Code.UNSCHEDULABLE, diagnosis.message(suffix))
        self.fail(queued, status, nominate, decision, diagnosis)

    def record_post_filter(self, decision: Decision, result: PostFilterResult, in_full: bool) -> None:
        if in_full or (self.log is not None and result.victims):
            decision.post_filter = records.record_post_filter(result, in_full)

    def _place(self, queued: QueuedPodInfo, profile: Profile, choice: Choice, decision: Decision) -> None:
        """Assume the pod on its node, and hand it to the binding cycle."""
        pod, node_name = queued.pod, choice.node_name
        decision.node, decision.result = node_name, "scheduled"
        placed = pod.placed_on(node_name)
        self.cluster.assume(placed, node_name)
        self.queue.nominator.delete(pod.uid)
        cycle = BindingCycle(profile, choice.state, queued, placed, node_name)
        if self.extenders:
            cycle.binders = self.extenders.binding(pod)
        try:
            self.bindings.hand_over(cycle, decision)
        except BaseException:
            self.bindings.undo(cycle)
            raise

    # ---- failures

    def fail(
        self,
        queued: QueuedPodInfo,
        status: Status,
        nominate: str | None,
        decision: Decision,
        diagnosis: Diagnosis | None = None,
        *,
        bound_elsewhere: bool = False,
        waits_for: Set[str] = frozenset(),
        backs_off: bool = False,
    ) -> None:
        """Put the pod back, and say why it was not scheduled.

        A member of a group `waits_for` events of plugins that refused it or others; they skip its backoff.
        One that `backs_off` waits for no event, unless pre_enqueue holds it back, as while its victims leave.
        """
        reason = UNSCHEDULABLE if status.rejected else SCHEDULER_ERROR
        decision.tried_node, decision.node = decision.node, ""
        decision.reason, decision.message = reason, status.message
        decision.result = "unschedulable" if status.rejected else "error"
        if self.observer is not None:
            seconds = self.observer.timer() - queued.began
            self.observer.attempt_failed(queued.pod.scheduler_name, decision.result, seconds)
        if diagnosis is None:
            queued.refused_by()
        else:
            decision.unschedulable_plugins = sorted(diagnosis.unschedulable_plugins)
            decision.pending_plugins = sorted(diagnosis.pending_plugins)
            queued.refused_by(
                diagnosis.unschedulable_plugins, diagnosis.pending_plugins, diagnosis.not_before()
            )
        if waits_for:
            not_before = None if diagnosis is None else diagnosis.not_before()
            queued.refused_by((), waits_for, not_before)
        if backs_off:
            queued.refused_by()
        current = self.intake.pod(queued.pod.uid)
        if current is None or current.node_name or bound_elsewhere:
            self.queue.done(queued.pod.uid)
            return  # gone, or bound by another: a condition written now would hide the binding
        queued.pod = current
        place = self.queue.add_unschedulable_if_not_present(queued, self.clock())
        if backs_off and place is Place.UNSCHEDULABLE:
            self.queue.also_wait_for(queued, waits_for)
        if nominate is not None:
            self.queue.nominator.add(current, nominate)
        note = truncate_note(status.message)
        self.effects.append(EmitEvent(current, "Warning", "FailedScheduling", "Scheduling", note))
        self._patch_condition(current, reason, status.message, nominate)

    def _patch_condition(self, pod: PodInfo, reason: str, message: str, nominate: str | None) -> None:
        current = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        same = current is not None and (current.status, current.reason, current.message) == (
            "False",
            reason,
            message,
        )
        if nominate == pod.status.nominated_node_name:
            nominate = None
        if same and nominate is None:
            return
        condition = Condition(
            type="PodScheduled",
            status="False",
            reason=reason,
            message=message,
            observed_generation=pod.pod.metadata.generation,
        )
        self.effects.append(PatchPodStatus(pod, condition, nominate))
