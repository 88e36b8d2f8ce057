"""Claims as they will be once writes under way have arrived, and the devices they hold."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from mooring.api.devices import DeviceResult, ResourceClaim
from mooring.plugins.dynamic_resources.inventory import DeviceId, Inventory
from mooring.plugins.dynamic_resources.usage import Usage
from mooring.runtime.engine_handle import EngineListers, ObjectChanges

_NOTHING: Sequence[DeviceResult] = ()


class ClaimTracker:
    """Three layers, the later ones on top: claims as the API server has them, claims as it answered our
    writes (until it is seen to have something newer), and allocations that are still to be written."""

    def __init__(self, listers: EngineListers, inventory: Inventory) -> None:
        self._listers = listers
        self._inventory = inventory
        self._feed: ObjectChanges[ResourceClaim] = listers.changes(ResourceClaim)
        self._assumed: dict[str, ResourceClaim] = {}  # by key
        self._in_flight: dict[str, tuple[ResourceClaim, int]] = {}  # by uid, with how many share it
        self._held: dict[str, Sequence[DeviceResult]] = {}  # by uid: what counts as in use
        self._order: dict[str, int] = {}  # by uid of allocated claims: the order in which they were seen
        self._events = 0
        self.usage = Usage()

    # ---- reading

    def get(self, name: str, namespace: str) -> ResourceClaim | None:
        seen = self._listers.get(ResourceClaim, name, namespace)
        if seen is None or not self._assumed:
            return seen
        assumed = self._assumed.get(seen.key)
        return seen if assumed is None or not is_newer(assumed, seen) else assumed

    def all(self) -> Iterator[ResourceClaim]:
        for seen in self._listers.list(ResourceClaim):
            claim = self.get(seen.name, seen.namespace)
            if claim is not None:
                yield claim

    def holder(self, device: DeviceId) -> str:
        """The key of a claim that holds a device; "" where none does."""
        if not self.usage.holds(device):
            return ""
        for claim in self.all():
            held = self._held.get(claim.uid, _NOTHING)
            if any((each.driver, each.pool, each.device) == device for each in held):
                return claim.key
        return ""

    def is_in_flight(self, uid: str) -> bool:
        return uid in self._in_flight

    def has_seen(self, claim: ResourceClaim) -> bool:
        """Whether the API server is known to have this version of a claim, a later one, or none any more."""
        seen = self._listers.get(ResourceClaim, claim.name, claim.namespace)
        return seen is None or seen.uid != claim.uid or not is_newer(claim, seen)

    def earlier_holder(self, claim: ResourceClaim, devices: Collection[DeviceId]) -> str | None:
        """The key of a claim that got one of these devices before a given claim got its own."""
        own = self._order.get(claim.uid, self._events + 1)
        for other in self._listers.list(ResourceClaim):
            order = self._order.get(other.uid)
            if order is None or other.uid == claim.uid or (order > own and is_newer(other, claim)):
                continue
            held = self._held.get(other.uid, _NOTHING)
            if any((r.driver, r.pool, r.device) in devices for r in held if not r.admin_access):
                return other.key
        return None

    # ---- writes under way

    def allocate(self, claim: ResourceClaim) -> None:
        """Count a claim's new allocation before it is written."""
        first, sharers = self._in_flight.get(claim.uid, (claim, 0))
        self._in_flight[claim.uid] = (first, sharers + 1)
        self._hold(claim.uid)

    def settle(self, uid: str, *, force: bool = False) -> bool:
        """The allocation was written, or will not be; whether that was the last one that waited for it."""
        entry = self._in_flight.get(uid)
        if entry is None:
            return False
        claim, sharers = entry
        if sharers > 1 and not force:
            self._in_flight[uid] = (claim, sharers - 1)
            return False
        del self._in_flight[uid]
        self._hold(uid, self._listers.get(ResourceClaim, claim.name, claim.namespace))
        return True

    def assume(self, claim: ResourceClaim) -> bool:
        """Take a claim as the API server returned it; False where it is unknown or newer already."""
        seen = self._listers.get(ResourceClaim, claim.name, claim.namespace)
        if seen is None or is_newer(seen, claim):
            return False
        if seen is not claim:
            self._assumed[claim.key] = claim
        self._hold(claim.uid, claim)
        return True

    def restore(self, claim: ResourceClaim) -> None:
        """Go back to what the API server is known to have."""
        if self._assumed.pop(claim.key, None) is not None:
            self._hold(claim.uid, self._listers.get(ResourceClaim, claim.name, claim.namespace))

    # ---- what was seen

    def refresh(self) -> None:
        """Take in what changed since the last call."""
        for old, new in self._feed.take():
            self._events += 1
            claim = new or old
            assert claim is not None
            assumed = self._assumed.get(claim.key)
            if assumed is not None and (new is None or not is_newer(assumed, new)):
                del self._assumed[claim.key]
            if old is not None and (new is None or old.uid != new.uid):
                self._hold(old.uid, None)
                self._order.pop(old.uid, None)
            if new is not None:
                if new.allocation is None:
                    self._order.pop(new.uid, None)
                else:
                    self._order.setdefault(new.uid, self._events)
                self._hold(new.uid, self.get(new.name, new.namespace))

    def _hold(self, uid: str, claim: ResourceClaim | None = None) -> None:
        """Bring the devices that a claim holds up to date."""
        in_flight = self._in_flight.get(uid)
        if in_flight is not None:
            claim = in_flight[0]
        if claim is not None and claim.uid != uid:
            claim = None
        allocation = None if claim is None else claim.allocation
        before = self._held.get(uid, _NOTHING)
        after = _NOTHING if allocation is None else allocation.devices.results
        if before is after or (before and before == after):
            return  # only whether there is an allocation can change, not which
        if before:
            self.usage.remove(before)
        if after:
            self.usage.add(after)
            self._held[uid] = after
        else:
            self._held.pop(uid, None)
        for pool in {(result.driver, result.pool) for result in (*before, *after)}:
            self._inventory.in_use_changed(pool)


def is_newer(claim: ResourceClaim, than: ResourceClaim) -> bool:
    """Whether a claim is of a later version than another sighting of it."""
    mine, other = claim.metadata.resource_version, than.metadata.resource_version
    return mine.isdecimal() and other.isdecimal() and int(mine) > int(other)
