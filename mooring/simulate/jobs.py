"""Jobs at depth `core`: pods until there are enough completions, as the Job controller of the sandbox creates
them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from math import floor, inf

from mooring.api.jobs import Job
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.sandbox.controllers.job import BATCH, OURS
from mooring.sandbox.controllers.job_indexes import parse_indexes
from mooring.sandbox.controllers.job_pods import COMPLETION_INDEX, Backoff
from mooring.simulate.arrivals import Template
from mooring.simulate.controlled import Controlled
from mooring.simulate.engine import CoreRun
from mooring.simulate.lives import Life
from mooring.simulate.pod_log import Outcome

NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")


class CoreJob(Controlled, kw_only=True):
    """A Job, what its pods are made of, and how long they run. Those that are `labelled` have the labels of
    the API server, with the name of their Job."""

    job: Job
    template: Template
    life: Life
    labelled: bool = True

    def begin(self, run: CoreRun) -> JobRun:
        run.templates.append(self.template)
        return JobRun(run, self, self.job.name, len(run.templates) - 1)


class JobRun:
    """A Job during a run. Changes of its pods are gathered for a second, as the Job controller does."""

    __slots__ = (
        "_active", "_backoff", "_counted_indexes", "_deadline", "_deadline_timer", "_done", "_done_indexes",
        "_failed", "_gathered", "_labels", "_life", "_made", "_name", "_new_failed", "_new_succeeded",
        "_on_finish", "_run", "_spec", "_sync_at", "_template", "_timer", "finished",
    )  # fmt: skip

    def __init__(
        self,
        run: CoreRun,
        plan: CoreJob,
        name: str,
        template: int,
        on_finish: Callable[[], None] | None = None,
    ) -> None:
        job, now = plan.job, run.clock.now
        self._run, self._name, self._template, self._on_finish = run, name, template, on_finish
        self._spec, self._life = job.spec, plan.life
        self._labels: dict[str, str] | None = None
        if plan.labelled:
            uid = f"Job/{job.namespace}/{name}"
            self._labels = dict.fromkeys(NAME_LABELS, name) | dict.fromkeys(UID_LABELS, uid)
        self._active: dict[int, int | None] = {}  # row → completion index
        self._done = job.status.succeeded
        self._counted_indexes = parse_indexes(job.status.completed_indexes, job.spec.completions or 0)
        self._done_indexes: set[int] = set()  # in addition
        self._failed = job.status.failed
        self._backoff = Backoff()
        self._new_succeeded: list[float] = []
        self._new_failed: list[float] = []
        self._made = 0
        limit = job.spec.active_deadline_seconds
        self._deadline = inf if limit is None else floor(now) + limit
        self._gathered = now  # when the changes so far are looked at; needs no event if none is an end
        self._sync_at = inf
        self.finished = job.finished is not None or job.spec.managed_by != OURS
        self._timer = self._deadline_timer = 0
        if not self.finished:
            self._plan_sync(now)
            if self._deadline < inf:
                self._deadline_timer = run.start_timer(self._deadline, self._fail)

    # ---- what happens to its pods

    def changed(self) -> None:
        now = self._run.clock.now
        if now >= self._gathered:
            self._gathered = min(now + BATCH, self._sync_at)

    def ended(self, row: int, outcome: Outcome) -> None:
        if row not in self._active or self.finished:
            return
        index = self._active.pop(row)
        second = floor(round(self._run.clock.now, 6))  # a status has whole seconds
        if outcome is Outcome.REJECTED or (outcome is Outcome.FINISHED and not self._life.fails):
            # A pod that may be tried once only is not tried again.
            self._done += 1
            self._new_succeeded.append(second)
            if index is not None:
                self._done_indexes.add(index)
        else:
            self._failed += 1
            self._new_failed.append(second)
        self.changed()
        if self._on_finish is None and not self._active and self._is_complete():
            self._finish()  # a second later no other object would see it
        else:
            self._plan_sync(self._gathered)

    def adopt(self, row: int, pod: Pod) -> None:
        index = pod.metadata.labels.get(COMPLETION_INDEX)
        self._active[row] = int(index) if index is not None and index.isdecimal() else None
        self._run.own(row, self)

    # ---- what the Job does about it

    def change(self, obj: KubeObject) -> None:
        assert isinstance(obj, CoreJob)
        self._spec = obj.job.spec
        if not self.finished:
            self._plan_sync(self._run.clock.now)

    def stop(self) -> None:
        self._on_finish = None
        self._fail()

    def _plan_sync(self, time: float) -> None:
        """Have the Job looked at; of several times to come the first counts."""
        if time < self._sync_at:
            if self._sync_at < inf:
                self._run.cancel_timer(self._timer)
            self._sync_at = time
            self._timer = self._run.start_timer(time, self._sync)

    def _sync(self) -> None:
        now = self._gathered = self._run.clock.now
        self._sync_at = inf
        self._backoff = self._backoff.after(self._new_succeeded, self._new_failed)
        self._new_succeeded.clear()
        self._new_failed.clear()
        if self._failed > self._spec.backoff_limit:
            self._fail()
            return
        missing = self._desired() - len(self._active)
        if missing < 0:
            self._delete(-missing)
        elif missing > 0:
            wait = self._backoff.remaining(now)
            if wait > 0:
                self._plan_sync(now + max(wait, BATCH))
            else:
                self._create(missing)
        elif not self._active and self._is_complete():
            self._finish()

    def _desired(self) -> int:
        """How many pods are to be active."""
        spec = self._spec
        if spec.suspend:
            return 0
        if spec.completions is None:
            return len(self._active) if self._done else spec.parallelism
        return max(0, min(spec.completions - self._done, spec.parallelism))

    def _is_complete(self) -> bool:
        completions = self._spec.completions
        return self._done > 0 if completions is None else self._done >= completions

    def _fail(self) -> None:
        self._delete(len(self._active))
        self._finish()

    def _finish(self) -> None:
        if self.finished:
            return
        self.finished = True
        if self._sync_at < inf:
            self._run.cancel_timer(self._timer)
        if self._run.clock.now < self._deadline < inf:
            self._run.cancel_timer(self._deadline_timer)
        if self._on_finish is not None:
            self._on_finish()

    def _create(self, count: int) -> None:
        indexed = self._spec.completion_mode == "Indexed"
        for index in list(islice(self._free_indexes(), count)) if indexed else [None] * count:
            name, labels = f"{self._name}-{self._made}", self._labels
            if index is not None:
                name = f"{self._name}-{index}-{self._made}"
                labels = {**(labels or {}), COMPLETION_INDEX: str(index)}
            self._made += 1
            row = self._run.create(self._template, name, self._life.run_time, labels=labels, owner=self)
            self._active[row] = index
        self.changed()

    def _free_indexes(self) -> Iterator[int]:
        taken = {*self._done_indexes, *self._active.values()}
        missing = self._counted_indexes.missing(self._spec.completions or 0)
        return (index for index in missing if index not in taken)

    def _delete(self, count: int) -> None:
        """Delete pods: those without a node first, then the youngest."""
        bound = self._run.log.bound
        rows = sorted(self._active, key=lambda row: (bound[row] == bound[row], -row))
        for row in rows[:count]:
            del self._active[row]
            self._run.remove(row)
