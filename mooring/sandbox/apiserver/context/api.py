"""The state that all request handlers share."""

from __future__ import annotations

import asyncio
import copy
import random
import secrets
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from mooring.api.times import format_time
from mooring.sandbox.apiserver.authorization.rbac import Rbac
from mooring.sandbox.apiserver.context.admission import Admission
from mooring.sandbox.apiserver.context.calls import ACTIVE, Calls
from mooring.sandbox.apiserver.context.compaction import Compaction
from mooring.sandbox.apiserver.context.evaluations import Evaluations
from mooring.sandbox.apiserver.context.resource import Registry, Resource
from mooring.sandbox.apiserver.context.turns import Turns
from mooring.sandbox.apiserver.objects import Tree, decode_record, read_all
from mooring.sandbox.apiserver.store.draft import Draft
from mooring.sandbox.apiserver.store.record import Record, key_of
from mooring.sandbox.apiserver.store.store import Store
from mooring.sandbox.apiserver.store.table import Table
from mooring.sandbox.network.network import Network
from mooring.sandbox.programs.executing import Containers, NoContainers
from mooring.sandbox.programs.loads import Loads
from mooring.sandbox.programs.runs import Runs
from mooring.sandbox.programs.servers import PodServers

_WEBHOOKS = (
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
)
_POLICIES = (
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    *_WEBHOOKS,
)
_MOST_CALLS = 64
"""Calls to webhooks at the same time."""
_MOST_DRAFTS = 3
"""Requests that are handled in threads at the same time; fewer than asyncio has threads."""


class Api:
    """Store, registry, admission, authorization, clock and randomness."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        admission: Admission,
        *,
        clock: Callable[[], float],
        seed: int | None = None,
        token: str = "",
        features: Collection[str] = (),
    ) -> None:
        self.store = store
        self.registry = registry
        self.admission = admission
        self.rbac = Rbac(store)
        self.webhooks = store.presence(_WEBHOOKS)
        """Whether a request may have to wait for webhooks."""
        self.policies = store.presence(_POLICIES)
        """Whether admission depends on more than the object and its namespace."""
        self.clock = clock
        self.features = features
        """The alpha features that are enabled, by the names of their gates."""
        self.token = token or secrets.token_urlsafe(32)
        """Authenticates the administrator, and signs the tokens of service accounts."""
        self.calls: Calls | None = None
        """The calls to webhooks of the request that is handled now; without any, webhooks are not called."""
        self.may_take_long = False
        """Whether the request is handled where it does not delay others."""
        self.webhook_turns = Turns(_MOST_CALLS, _MOST_CALLS // 4)
        self.draft_turns = Turns(_MOST_DRAFTS, 1)
        """For requests that are handled in a thread: of several users, so that none waits for long ones of
        another; one of each user, since more would only wait for each other."""
        self.following: dict[str, asyncio.Task[None]] = {}
        """What serves large definitions, by their names, while it is at work."""
        self.compaction = Compaction()
        self.runs = Runs()
        """What the containers of fake nodes print."""
        self.loads = Loads()
        """What clients of these containers have them use."""
        self.containers: Containers = NoContainers()
        """The containers of fake nodes, for commands that clients run in them."""
        self.network: Network | None = None
        """What containers reach and serve; None without fake nodes."""
        self.servers = PodServers()
        """Where the containers of fake nodes serve."""
        self.evaluations = Evaluations()
        """Of what they serve and of commands in them, for clients."""
        self._random = random.Random(seed)
        self._second, self._now = -1, ""

    def table(self, resource: Resource) -> Table:
        return self.store.table(resource.storage)

    def unhurried(self) -> Api:
        """Return this state for a request that may take long."""
        unhurried = copy.copy(self)
        unhurried.may_take_long = True
        return unhurried

    def draft(self) -> tuple[Api, Draft]:
        """Return this state for a request that is handled in a thread, and the draft that it writes to."""
        drafted, draft = self.unhurried(), Draft(self.store)
        drafted.store, drafted.rbac = draft, self.rbac.over(draft)
        return drafted, draft

    def new_calls(self) -> Calls:
        """Return the calls of a new request."""
        return Calls(self._random.getrandbits(64), self.now())

    @contextmanager
    def attempt(self, calls: Calls) -> Iterator[None]:
        """Handle a request, perhaps again: with the same names, uids and time as before."""
        kept, self._random = self._random, random.Random(calls.seed)
        self.calls = calls
        token = ACTIVE.set(calls)
        try:
            yield
        finally:
            ACTIVE.reset(token)
            self._random, self.calls = kept, None

    def now(self) -> str:
        """Return the current time in whole seconds, as objects carry it; the text is shared by writes."""
        if self.calls is not None:
            return self.calls.now
        second = int(self.clock())
        if second != self._second:
            self._second, self._now = second, format_time(second)
        return self._now

    def new_uid(self) -> str:
        """Return a random UUID of version 4."""
        bits = self._random.getrandbits
        parts = bits(32), bits(16), bits(12), 1 << 15 | bits(14), bits(48)
        return "%08x-%04x-4%03x-%04x-%012x" % parts  # noqa: UP031 (with every write, and much quicker)

    def random_name(self, base: str) -> str:
        """Return a name for `generateName`, with the letters that Kubernetes uses: they spell no words."""
        suffix = "".join(self._random.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
        return base[: 63 - len(suffix)] + suffix

    # ---- other objects, as admission and strategies look at them -----------------------------------

    def record(self, storage: str, name: str, namespace: str = "") -> Record | None:
        return self.store.table(storage).get(key_of(namespace, name))

    def read(self, storage: str, name: str, namespace: str = "") -> Tree | None:
        """Decode an object by the name of its table ("pods", "priorityclasses.scheduling.k8s.io"), without
        kind."""
        record = self.record(storage, name, namespace)
        return None if record is None else decode_record(record, "", "")

    def read_all(self, storage: str, namespace: str = "") -> Iterator[Tree]:
        """Decode all objects of a table, or those of one namespace, in order."""
        return read_all(self.store.table(storage), namespace)
