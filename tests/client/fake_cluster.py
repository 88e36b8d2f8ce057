"""A small API server in memory: resource versions, paging, watches with bookmarks, compaction, and trouble.

Objects are kept as the trees that were sent, and read into structs on the way out, so that objects which
make no sense can be kept too, as a real store does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from mooring.api.complaints import malformed
from mooring.api.errors import ObjectError
from mooring.api.kinds import ApiResource
from mooring.api.patches import merge_patch
from mooring.client.api_errors import ApiError, Unreachable
from mooring.client.port import Change, Obj, Page, PatchType, ServedKind

Tree = dict[str, Any]
Kind = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
BOOKMARK_EVERY = 60.0


class _Entry(msgspec.Struct):
    """One change in the history: the object before and after it."""

    revision: int
    resource: str
    before: Tree | None
    after: Tree | None


class Watch:
    """One open watch. `cut`, `end` and `stall` make its trouble."""

    def __init__(self, resource: str, namespace: str, selector: str) -> None:
        self.resource = resource
        self.namespace = namespace
        self.selector = selector
        self.items: deque[tuple[Kind, Tree] | Exception] = deque()
        self.wake = asyncio.Event()
        self.stalled = False

    def put(self, item: tuple[Kind, Tree] | Exception) -> None:
        self.items.append(item)
        self.wake.set()

    def cut(self) -> None:
        self.put(Unreachable("fake", "connection reset by peer"))

    def end(self) -> None:
        self.put(StopAsyncIteration())

    def stall(self) -> None:
        self.stalled = True

    def see(self, entry: _Entry) -> None:
        if entry.resource != self.resource:
            return
        before = entry.before if self._wants(entry.before) else None
        after = entry.after if self._wants(entry.after) else None
        if after is not None:
            self.put(("ADDED" if before is None else "MODIFIED", after))
        elif before is not None:
            version = {**before["metadata"], "resourceVersion": str(entry.revision)}
            self.put(("DELETED", {**before, "metadata": version}))

    def _wants(self, tree: Tree | None) -> bool:
        return tree is not None and _selected(tree, self.namespace, self.selector)


class FakeCluster:
    """A Cluster. `refusals` answer requests with an error, by (verb, plural); `meddle` runs before a request
    is carried out and again before it is answered, and may wait or raise."""

    def __init__(self) -> None:
        self.revision = 100
        self.compacted = 0
        self.objects: dict[tuple[str, str, str], Tree] = {}
        self.history: list[_Entry] = []
        self.watches: list[Watch] = []
        self.refusals: dict[tuple[str, str], Exception] = {}
        self.down: Unreachable | None = None  # why no request gets through
        self.requests: list[tuple[str, str]] = []
        self.meddle: Callable[[str, bool], Awaitable[None]] | None = None
        self._pages: dict[str, tuple[int, list[Tree]]] = {}

    # ---- what tests do to it

    def put(self, resource: ApiResource[Any], tree: Mapping[str, Any]) -> Tree:
        """Create or replace an object, by whoever."""
        metadata = tree["metadata"]
        key = (resource.name, metadata.get("namespace", ""), metadata["name"])
        before = self.objects.get(key)
        uid = before["metadata"]["uid"] if before else f"uid-{self.revision + 1}"
        stored = {**tree, "metadata": {"uid": uid, **metadata, "resourceVersion": str(self.revision + 1)}}
        self._commit(key, stored)
        return stored

    def remove(self, resource: ApiResource[Any], name: str, namespace: str = "") -> None:
        self._commit((resource.name, namespace, name), None)

    def compact(self) -> None:
        """Forget all that is past: older versions and continue tokens are gone."""
        self.revision += 1
        self.compacted = self.revision

    def go_down(self) -> None:
        self.down = Unreachable("fake", "connection refused", sent=False)
        for watch in self.watches:
            watch.cut()

    def stall_watches(self) -> None:
        """Send nothing until `resume_watches`."""
        for watch in self.watches:
            watch.stall()

    def resume_watches(self) -> None:
        for watch in self.watches:
            watch.stalled = False
            watch.wake.set()

    def asked(self, verb: str) -> list[str]:
        return [detail for asked, detail in self.requests if asked == verb]

    def _commit(self, key: tuple[str, str, str], after: Tree | None) -> None:
        self.revision += 1
        before = self.objects.pop(key, None)
        if after is not None:
            self.objects[key] = after
        entry = _Entry(self.revision, key[0], before, after)
        self.history.append(entry)
        for watch in self.watches:
            watch.see(entry)

    # ---- the port

    async def list(
        self,
        resource: ApiResource[Obj],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page[Obj]:
        await self._receive("list", resource, f"{resource.name} limit={limit} continue={continue_token}")
        if continue_token:
            revision, trees = self._pages[continue_token]
            if revision < self.compacted:
                raise _gone()
        else:
            revision = self.revision
            trees = [
                tree
                for key, tree in sorted(self.objects.items())
                if key[0] == resource.name and _selected(tree, namespace, field_selector)
            ]
        page: Page[Obj] = Page([], str(revision), malformed=[])
        for tree in trees[:limit] if limit else trees:
            decoded = _decoded(resource, tree)
            page.malformed.append(decoded) if isinstance(decoded, ObjectError) else page.items.append(decoded)
        if limit and trees[limit:]:
            page.continue_token = f"{revision}-{len(self._pages)}"
            self._pages[page.continue_token] = (revision, trees[limit:])
        return page

    async def watch(
        self,
        resource: ApiResource[Obj],
        resource_version: str,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 0,
    ) -> AsyncIterator[Change[Obj]]:
        await self._receive("watch", resource, f"{resource.name} {resource_version}")
        if int(resource_version) < self.compacted:
            raise _gone()
        watch = Watch(resource.name, namespace, field_selector)
        for entry in self.history:
            if entry.revision > int(resource_version):
                watch.see(entry)
        self.watches.append(watch)
        loop = asyncio.get_running_loop()
        loop.call_later(timeout_seconds or 1800, watch.end)
        try:
            while True:
                item = await self._next(watch)
                if isinstance(item, StopAsyncIteration):
                    return
                if isinstance(item, Exception):
                    raise item
                yield _change(resource, *item)
        finally:
            self.watches.remove(watch)

    async def _next(self, watch: Watch) -> tuple[Kind, Tree] | Exception:
        while not watch.items or watch.stalled:
            watch.wake.clear()
            try:
                async with asyncio.timeout(BOOKMARK_EVERY):  # wait_for of Python 3.11 may lose a cancellation
                    await watch.wake.wait()
            except TimeoutError:
                watch.items.append(("BOOKMARK", {"metadata": {"resourceVersion": str(self.revision)}}))
        return watch.items.popleft()

    async def get(
        self, resource: ApiResource[Obj], name: str, namespace: str = "", subresource: str = ""
    ) -> Obj:
        await self._receive("get", resource, f"{resource.name} {namespace}/{name}")
        tree = self._tree(resource, name, namespace)
        return await self._answer("get", resource, tree)

    async def create(self, resource: ApiResource[Obj], body: Any, namespace: str = "") -> Obj:
        tree: Tree = msgspec.to_builtins(body)
        name = tree["metadata"]["name"]
        await self._receive("create", resource, f"{resource.name} {namespace}/{name}")
        if (resource.name, namespace, name) in self.objects:
            raise ApiError(409, "AlreadyExists", f'{resource.name} "{name}" already exists')
        created = self.put(resource, {**tree, "metadata": {**tree["metadata"], "namespace": namespace}})
        return await self._answer("create", resource, created)

    async def update(
        self, resource: ApiResource[Obj], name: str, body: Any, namespace: str = "", subresource: str = ""
    ) -> Obj:
        tree: Tree = msgspec.to_builtins(body)
        await self._receive("update", resource, f"{resource.name} {namespace}/{name}")
        current = self._tree(resource, name, namespace)
        wanted = tree["metadata"].get("resourceVersion", "")
        if wanted and wanted != current["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", f'Operation cannot be fulfilled on {resource.name} "{name}"')
        updated = self.put(resource, tree) if tree != current else current
        return await self._answer("update", resource, updated)

    async def patch(
        self,
        resource: ApiResource[Obj],
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        subresource: str = "",
        kind: PatchType = PatchType.MERGE,
    ) -> Obj:
        await self._receive("patch", resource, f"{resource.name} {namespace}/{name}")
        current = self._tree(resource, name, namespace)
        patched = self.put(resource, merge_patch(current, msgspec.to_builtins(patch)))
        return await self._answer("patch", resource, patched)

    async def post(
        self, resource: ApiResource[Any], name: str, subresource: str, body: Any, namespace: str = ""
    ) -> None:
        if name or subresource:
            raise NotImplementedError(subresource)
        await self.create(resource, body, namespace)

    async def delete(
        self,
        resource: ApiResource[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
    ) -> None:
        await self._receive("delete", resource, f"{resource.name} {namespace}/{name}")
        self._tree(resource, name, namespace)
        self.remove(resource, name, namespace)

    async def served_kinds(self) -> Sequence[ServedKind]:
        raise NotImplementedError

    async def close(self) -> None:
        for watch in self.watches:
            watch.cut()

    async def _receive(self, verb: str, resource: ApiResource[Any], detail: str) -> None:
        self.requests.append((verb, detail))
        if self.meddle is not None:
            await self.meddle(verb, False)
        refusal = self.down or self.refusals.get((verb, resource.plural))
        if refusal is not None:
            raise refusal

    async def _answer(self, verb: str, resource: ApiResource[Obj], tree: Tree) -> Obj:
        if self.meddle is not None:
            await self.meddle(verb, True)
        decoded = _decoded(resource, tree)
        if isinstance(decoded, ObjectError):
            raise decoded
        return decoded

    def _tree(self, resource: ApiResource[Any], name: str, namespace: str) -> Tree:
        try:
            return self.objects[resource.name, namespace, name]
        except KeyError:
            raise ApiError(404, "NotFound", f'{resource.name} "{name}" not found') from None


def _gone() -> ApiError:
    return ApiError(410, "Expired", "too old resource version")


def _selected(tree: Tree, namespace: str, selector: str) -> bool:
    """Whether it is in a namespace and its phase is none of those that the selector excludes."""
    if namespace and tree["metadata"].get("namespace") != namespace:
        return False
    phase = tree.get("status", {}).get("phase", "") if isinstance(tree.get("status", {}), dict) else ""
    return not any(term == f"status.phase!={phase}" for term in selector.split(",") if term)


def _decoded(resource: ApiResource[Obj], tree: Tree) -> Obj | ObjectError:
    try:
        return msgspec.convert(tree, resource.model)
    except msgspec.ValidationError as error:
        return malformed(resource.model.__name__, tree, str(error))


def _change(resource: ApiResource[Obj], kind: Kind, tree: Tree) -> Change[Obj]:
    version = cast(str, tree["metadata"]["resourceVersion"])
    if kind == "BOOKMARK":
        return Change(kind, version)
    decoded = _decoded(resource, tree)
    if isinstance(decoded, ObjectError):
        return Change(kind, version, malformed=decoded)
    return Change(kind, version, decoded)
