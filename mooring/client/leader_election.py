"""Leader election on a Lease, by client-go's rules.

The holder of the lease renews it every other second. A candidate takes it over once it has seen no change of
it for the lease's duration, by its own clock: the times written in it are for people, since they come from
other machines. The holder begins to renew it a retry period after the last time, and stops leading when the
renew deadline has passed without success, in any case before the lease's duration. It counts from before it
sent what was its last successful renewal. The candidates saw that later and wait longer, so that two never
lead at once, as long as no clock runs a quarter faster than another (12 and 15 seconds, by default).
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable

import msgspec

from mooring.api.coordination import Lease, LeaseSpec
from mooring.api.kinds import LEASES
from mooring.api.meta import ObjectMeta
from mooring.api.times import format_time, go_duration
from mooring.client.api_errors import ApiError
from mooring.client.clocks import elapsed
from mooring.client.event_recorder import EventRecorder
from mooring.client.port import Cluster

log = logging.getLogger("mooring.leader_election")

JITTER = 1.2  # a candidate's waits are stretched by up to this much of their length
MOST_TRANSITIONS = 2**31 - 1  # of an int32
TOLERANCE = 20.0  # seconds that a lease may be overdue before the health check fails


class LeadershipLostError(Exception):
    """Another candidate leads, or may soon."""


def new_identity() -> str:
    """Unlike that of any other process, on this host or another."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """Runs something only while this process leads.

    `leading` goes by the clock alone. It is to be asked right before every act that only a leader may do:
    where the process was held up, it is false even before anybody noticed.
    """

    def __init__(
        self,
        cluster: Cluster,
        identity: str,
        *,
        namespace: str = "kube-system",
        name: str = "kube-scheduler",
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
        recorder: EventRecorder | None = None,
        clock: Callable[[], float] = elapsed,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.identity = identity
        self.leader = ""  # who held the lease when we looked last
        self._cluster = cluster
        self._namespace, self._name = namespace, name
        self._lease_duration = lease_duration
        self._renew_deadline = renew_deadline
        self._retry_period = retry_period
        self._hold_for = min(retry_period + renew_deadline, (renew_deadline + lease_duration) / 2)
        self._recorder = recorder
        self._clock = clock
        self._wall_clock = wall_clock
        self._lease: Lease | None = None  # as we saw it last
        self._seen_at = 0.0  # when it was first seen to be what it is
        self._renewed_at: float | None = None  # None where we do not lead
        self._leads_until = -math.inf
        self._complaint = ""
        if lease_duration <= renew_deadline:
            raise ValueError(
                f"leaderElection.leaseDuration: found {go_duration(lease_duration)}, expected more than "
                f"renewDeadline, {go_duration(renew_deadline)}"
            )
        if renew_deadline <= JITTER * retry_period:
            raise ValueError(
                f"leaderElection.renewDeadline: found {go_duration(renew_deadline)}, expected more than "
                f"{JITTER} times retryPeriod, {go_duration(retry_period)}"
            )

    @property
    def leading(self) -> bool:
        """Whether this process leads at this very moment."""
        return self._clock() < self._leads_until

    def check(self) -> str:
        """What is wrong, for a health check: a leader that neither renewed its lease nor stopped leading."""
        overdue_after = self._lease_duration + TOLERANCE
        if self._renewed_at is not None and self._clock() - self._renewed_at > overdue_after:
            return f"failed election to renew leadership on lease {self._name}"
        return ""

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait until this process leads, then `lead` until that returns, and give the lease back.

        Where leadership is lost before, `lead` is cancelled and LeadershipLostError raised when it has ended.
        The lease then runs out by itself, since cancelled requests may still take effect meanwhile.
        """
        await self._acquire()
        leading = asyncio.ensure_future(lead())
        keeping = asyncio.create_task(self._keep())
        lost = False
        try:
            await asyncio.wait({leading, keeping}, return_when=asyncio.FIRST_COMPLETED)
            lost = not leading.done()
        finally:
            leading.cancel()
            await asyncio.wait({leading})  # and the lease is renewed for as long as that takes
            keeping.cancel()
            await asyncio.wait({keeping})
            self._leads_until, self._renewed_at = -math.inf, None
            self._announce("stopped leading")
            if not lost:
                await self._release()
        if lost:
            cause = None if leading.cancelled() else leading.exception()
            raise LeadershipLostError(f"lease {self._namespace}/{self._name}: leadership lost") from cause
        leading.result()

    # ---- the two phases

    async def _acquire(self) -> None:
        log.info("attempting to acquire leader lease %s/%s", self._namespace, self._name)
        while not await self._attempt(self._renew_deadline) or not self.leading:
            await asyncio.sleep(self._retry_period * (1 + JITTER * random.random()))
        log.info("successfully acquired lease %s/%s", self._namespace, self._name)
        self._announce("became leader")

    async def _keep(self) -> None:
        """Renew the lease until another candidate has it, or renewals have failed for too long."""
        while self.leader == self.identity:
            until = self._leads_until
            left = until - self._clock()
            await asyncio.sleep(min(self._retry_period, left))
            if left <= self._retry_period:
                break
            await self._attempt(until - self._clock())
            if self._clock() >= until:  # whatever came of it: for a while we did not lead
                break
        self._leads_until = -math.inf
        ours = self.leader == self.identity
        cause = "not renewed in time" if ours else f'held by "{self.leader}"'
        log.error("lost lease %s/%s: %s", self._namespace, self._name, cause)

    async def _attempt(self, patience: float) -> bool:
        """Try once to get or to renew the lease; a server that does not answer gets a second chance."""
        try:
            async with asyncio.timeout(min(patience, self._renew_deadline / 2)):
                held = await self._acquire_or_renew()
        except Exception as failure:  # whatever it is: we do not have the lease
            self._complain(failure)
            return False
        self._complaint = ""
        return held

    # ---- the lease

    async def _acquire_or_renew(self) -> bool:
        if self._lease is not None and self.leading:
            try:
                return await self._take(self._lease)
            except ApiError as refusal:
                if not (refusal.conflict or refusal.not_found):
                    raise
        try:
            lease = await self._cluster.get(LEASES, self._name, self._namespace)
        except ApiError as refusal:
            if not refusal.not_found:
                raise
            return await self._create()
        self._see(lease)
        return not self._held_by_another(lease) and await self._take(lease)

    def _held_by_another(self, lease: Lease) -> bool:
        spec = lease.spec
        expires = self._seen_at + (spec.lease_duration_seconds or 0)
        return spec.holder_identity not in ("", self.identity) and self._clock() <= expires

    async def _create(self) -> bool:
        if self._lease is not None and self._held_by_another(self._lease):
            return False  # the lease was deleted, but its holder may not have noticed
        spec = self._spec(LeaseSpec())
        lease = Lease(
            api_version=LEASES.api_version,
            kind="Lease",
            metadata=ObjectMeta(name=self._name, namespace=self._namespace),
            spec=msgspec.structs.replace(spec, lease_transitions=0),
        )
        began = self._clock()
        self._hold(await self._cluster.create(LEASES, lease, self._namespace), began)
        return True

    async def _take(self, lease: Lease) -> bool:
        """Write ourselves into the lease, if it is still as we saw it."""
        lease = msgspec.structs.replace(lease, spec=self._spec(lease.spec))
        began = self._clock()
        self._hold(await self._cluster.update(LEASES, self._name, lease, self._namespace), began)
        return True

    def _spec(self, old: LeaseSpec) -> LeaseSpec:
        now = format_time(self._wall_clock(), micro=True)
        ours = old.holder_identity == self.identity
        return msgspec.structs.replace(
            old,
            holder_identity=self.identity,
            lease_duration_seconds=math.ceil(self._lease_duration),
            acquire_time=old.acquire_time if ours else now,
            renew_time=now,
            lease_transitions=min(old.lease_transitions + (not ours), MOST_TRANSITIONS),
        )

    def _hold(self, lease: Lease, began: float) -> None:
        self._see(lease)
        self._renewed_at = began
        self._leads_until = began + self._hold_for

    def _see(self, lease: Lease) -> None:
        if self._lease is None or lease.spec != self._lease.spec:
            self._seen_at = self._clock()
        self._lease = lease
        holder = lease.spec.holder_identity
        if holder != self.leader:
            self.leader = holder
            if holder not in ("", self.identity):
                log.info("leader of %s/%s is %s", self._namespace, self._name, holder)

    async def _release(self) -> None:
        """Release the lease, so that another candidate can take over at once. Call it after leading has
        stopped."""
        try:
            async with asyncio.timeout(self._renew_deadline):
                lease = await self._cluster.get(LEASES, self._name, self._namespace)
                if lease.spec.holder_identity != self.identity:
                    return
                now = format_time(self._wall_clock(), micro=True)
                spec = LeaseSpec(
                    lease_duration_seconds=1,
                    acquire_time=now,
                    renew_time=now,
                    lease_transitions=lease.spec.lease_transitions,
                )
                released = msgspec.structs.replace(lease, spec=spec)
                await self._cluster.update(LEASES, self._name, released, self._namespace)
        except Exception as failure:  # it runs out by itself
            log.warning("cannot release lease %s/%s: %s", self._namespace, self._name, _text(failure))

    # ---- words

    def _announce(self, what: str) -> None:
        if self._recorder is None or self._lease is None:
            return
        regarding = self._lease.reference("Lease", LEASES.api_version)
        note = f"{self.identity} {what}"
        self._recorder.emit(regarding, "Normal", "LeaderElection", "LeaderElection", note)

    def _complain(self, failure: Exception) -> None:
        """Once for each cause in a row."""
        cause = _text(failure)
        if cause == self._complaint or (isinstance(failure, ApiError) and failure.conflict):
            return
        self._complaint = cause
        hint = ""
        if isinstance(failure, ApiError) and failure.code == 403:
            hint = f'; grant the verbs "get", "create" and "update" on "leases" in API group "{LEASES.group}"'
        log.warning("cannot get or renew lease %s/%s: %s%s", self._namespace, self._name, cause, hint)


def _text(failure: Exception) -> str:
    return "timed out" if isinstance(failure, TimeoutError) else str(failure)
