"""Planted bugs, which the checker must find: a check of the checker."""

from __future__ import annotations

import itertools
import multiprocessing
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import msgspec

from mooring.api.kinds import PODS
from mooring.api.objects import Node
from mooring.client.informers import Informer
from mooring.client.leader_election import LeaderElector
from mooring.core.effects import Evict
from mooring.core.intake import Intake
from mooring.core.queue import SchedulingQueue
from mooring.plugins.dynamic_resources.tracker import ClaimTracker
from mooring.plugins.node_ports import NodePorts
from mooring.plugins.node_resources_fit.node_resources_fit import NodeResourcesFit
from mooring.plugins.node_volume_limits.node_volume_limits import NodeVolumeLimits
from mooring.process import client
from mooring.process.aside import Aside
from mooring.process.client import LiveClient
from mooring.process.driver import Driver
from mooring.process.live_scheduler import LiveScheduler
from mooring.process.status_writer import StatusWriter
from mooring.sandbox.apiserver.admission import quota_admission
from mooring.sandbox.apiserver.store.sqlite import SqliteJournal
from mooring.sandbox.apiserver.store.store import Store
from mooring.sandbox.apiserver.store.table import Table
from mooring.sandbox.apiserver.store.watch import Watch
from mooring.sandbox.apiserver.subresources import binding, eviction
from mooring.sandbox.apiserver.verbs import updating
from mooring.sandbox.kubelet.admission import Room
from mooring.state.cluster import ClusterState
from tests.faults.runs import run_seed

Plant = Callable[[], None]

MUTATIONS: dict[str, Plant] = {}
OF_THREADS: set[str] = set()
"""Those that have no effect on virtual time."""


def mutation(plant: Plant) -> Plant:
    MUTATIONS[plant.__name__.replace("_", "-")] = plant
    return plant


def mutation_of_threads(plant: Plant) -> Plant:
    OF_THREADS.add(plant.__name__.replace("_", "-"))
    return mutation(plant)


def _put(owner: Any, name: str, new: Any) -> None:
    assert hasattr(owner, name)
    setattr(owner, name, new)


def _nothing(*_: Any, **__: Any) -> None:
    return None


async def _at_once(*_: Any, **__: Any) -> None:
    return None


# ---- leadership


@mutation
def leader_ignores_the_clock() -> None:
    _put(LeaderElector, "leading", property(lambda self: self._renewed_at is not None))


@mutation
def candidates_take_a_held_lease() -> None:
    _put(LeaderElector, "_held_by_another", lambda *_: False)


@mutation
def lost_leases_are_released() -> None:
    """While cancelled requests are still on their way."""
    keep = LeaderElector._keep

    async def keep_and_release(self: LeaderElector) -> None:
        await keep(self)
        await self._release()

    _put(LeaderElector, "_keep", keep_and_release)


@mutation
def new_leader_trusts_its_watch() -> None:
    async def lead(self: LiveScheduler) -> None:
        await self.driver.run()

    _put(LiveScheduler, "lead", lead)


# ---- binding


@mutation
def failed_bindings_stay_assumed() -> None:
    _put(ClusterState, "forget", _nothing)


@mutation
def bindings_have_no_uid() -> None:
    original = client._BindingMeta
    _put(client, "_BindingMeta", lambda name, namespace, uid: original(name, namespace, ""))


@mutation
def lost_answers_count_as_failures() -> None:
    async def post(self: LiveClient, pod: Any, body: Any) -> None:
        await self._cluster.post(PODS, pod.name, "binding", body, pod.namespace)

    _put(LiveClient, "_may_recover", lambda *_: False)
    _put(LiveClient, "_post_binding", post)


@mutation
def failures_are_written_after_the_binding() -> None:
    original = StatusWriter.__init__

    def init(self: StatusWriter, *args: Any) -> None:
        original(self, *args)
        self._is_pending = lambda _: True

    _put(StatusWriter, "__init__", init)
    _put(StatusWriter, "settled", _at_once)


@mutation
def preemptions_are_reported_before_they_happen() -> None:
    evict = Driver._evict

    async def report_first(self: Driver, effect: Evict) -> None:
        if effect.event is not None:
            self._emit(effect.event)
        await evict(self, msgspec.structs.replace(effect, event=None))

    _put(Driver, "_evict", report_first)


@mutation
def bindings_keep_the_nomination() -> None:
    assign = binding._assign

    def keep(write: Any, pod: Any, body: Any, node: str) -> None:
        nominated = pod["status"].get("nominatedNodeName")
        assign(write, pod, body, node)
        pod["status"]["nominatedNodeName"] = nominated or ""

    _put(binding, "_assign", keep)


@mutation
def failed_pods_are_not_queued_again() -> None:
    _put(
        SchedulingQueue,
        "add_unschedulable_if_not_present",
        lambda self, queued, now: self.done(queued.pod.uid),
    )


@mutation
def backoff_goes_by_the_wall_clock() -> None:
    original = LiveScheduler.__init__

    def init(self: LiveScheduler, *args: Any, **more: Any) -> None:
        original(self, *args, **{**more, "clock": more["wall_clock"]})

    _put(LiveScheduler, "__init__", init)


@mutation
def driver_sleeps_through_events() -> None:
    _put(Driver, "apply", lambda self, obj: self.scheduler.apply(obj))


# ---- the scheduler's memory


@mutation
def one_change_in_fifty_is_dropped() -> None:
    take, count = Informer._take, itertools.count(1)

    def drop(self: Informer[Any], change: Any) -> None:
        if next(count) % 50:
            take(self, change)
        else:
            self._version = change.resource_version

    _put(Informer, "_take", drop)


@mutation
def deletions_during_an_outage_are_missed() -> None:
    _put(Informer, "_delete_others", _at_once)


@mutation
def deleted_nodes_stay() -> None:
    delete = Intake.delete
    _put(Intake, "delete", lambda self, obj: () if isinstance(obj, Node) else delete(self, obj))


@mutation
def deleted_pods_stay_on_their_nodes() -> None:
    _put(ClusterState, "remove_pod", _nothing)


@mutation
def confirmed_pods_stay_assumed() -> None:
    def add_pod(self: ClusterState, pod: Any) -> None:
        placed = self._placed.get(pod.uid)
        if placed is None:
            self._place(pod)
        else:
            self._replace(placed, pod)

    _put(ClusterState, "add_pod", add_pod)


# ---- plugins


@mutation
def requests_are_ignored() -> None:
    _put(NodeResourcesFit, "filter_nodes", _nothing)


@mutation
def host_ports_are_ignored() -> None:
    _put(NodePorts, "filter_nodes", _nothing)


@mutation
def allocated_devices_stay_free() -> None:
    """Until the allocation has been seen."""
    _put(ClaimTracker, "allocate", _nothing)


@mutation
def volume_limits_are_ignored() -> None:
    _put(NodeVolumeLimits, "filter_nodes", _nothing)


# ---- the core's thread


@mutation_of_threads
def changes_during_attempts_are_dropped() -> None:
    _put(Aside, "do", lambda self, change: None if self.busy else change())


# ---- the API server


@mutation
def versions_of_failed_writes_are_shown() -> None:
    def fail(self: Store) -> bool:
        version, succeeded = self.version, commit(self)
        if not succeeded:  # `flush` goes back to what is visible
            self.visible = version
        return succeeded

    commit = Store._commit
    _put(Store, "_commit", fail)


@mutation
def answers_do_not_wait_for_the_commit() -> None:
    _put(Store, "settled", _at_once)


@mutation
def failed_commits_are_not_undone() -> None:
    _put(Table, "undo", lambda self: setattr(self, "visible", self.end))


@mutation
def journal_forgets_one_write_in_twenty() -> None:
    append, count = SqliteJournal.append, itertools.count(1)

    def forget(self: SqliteJournal, table: str, event: Any) -> None:
        if next(count) % 20:
            append(self, table, event)

    _put(SqliteJournal, "append", forget)


@mutation
def bound_pods_can_be_bound_again() -> None:
    assign = binding._assign

    def again(write: Any, pod: Any, body: Any, node: str) -> None:
        pod["spec"].pop("nodeName", None)
        assign(write, pod, body, node)

    _put(binding, "_assign", again)


@mutation
def stale_updates_are_accepted() -> None:
    _put(updating, "_check_concurrency", _nothing)


@mutation
def watches_skip_a_change_when_resumed() -> None:
    position_after = Table.position_after

    def skip(self: Table, version: int) -> int:
        return min(position_after(self, version) + 1, self.end)

    _put(Table, "position_after", skip)


@mutation
def watches_deliver_batches_backwards() -> None:
    take = Watch.take
    _put(Watch, "take", lambda self, limit: take(self, limit)[::-1])


@mutation
def evictions_ignore_budgets() -> None:
    _put(eviction, "_ask_budgets", _nothing)


@mutation
def resizes_need_no_room() -> None:
    _put(Room, "defer", _nothing)


@mutation
def resizes_are_not_seen() -> None:
    """By the scheduler, of pods that it has bound."""
    _put(ClusterState, "_replace", _nothing)


@mutation
def quotas_are_not_charged() -> None:
    _put(quota_admission, "_write_used", _nothing)


class Finding(NamedTuple):
    """How a planted bug was found, if it was."""

    name: str
    seeds: int
    steps: int
    invariant: str
    seconds: float


def find(name: str, steps: int, seeds: int) -> Finding:
    """Plant a bug in this process and run seeds until an invariant is violated."""
    MUTATIONS[name]()
    began, total = time.monotonic(), 0
    for seed in range(seeds):
        result = run_seed(seed, steps, threads=name in OF_THREADS)
        total += result.requests
        if result.violations:
            return Finding(name, seed + 1, total, result.violations[0].invariant, time.monotonic() - began)
    return Finding(name, seeds, total, "", time.monotonic() - began)


def check_mutations(steps: int, seeds: int, workers: int) -> int:
    """Print how each planted bug is found; return 1 if one is not."""
    context = multiprocessing.get_context("spawn")
    missed = 0
    with context.Pool(workers, maxtasksperchild=1) as pool:
        for found in pool.imap_unordered(partial(find, steps=steps, seeds=seeds), MUTATIONS):
            missed += not found.invariant
            outcome = f'violates "{found.invariant}"' if found.invariant else "NOT FOUND"
            print(f"{found.name:45} {outcome} after {found.steps} steps, {found.seeds} seeds", flush=True)
    print(f"{len(MUTATIONS) - missed} of {len(MUTATIONS)} planted bugs found")
    return 1 if missed else 0
