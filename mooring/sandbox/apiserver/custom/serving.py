"""Serving what definitions define, from the moment they are written until they are deleted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

import msgspec

from mooring.client.api_errors import ApiError
from mooring.sandbox.apiserver.authorization.users import User
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.context.calls import without_calls
from mooring.sandbox.apiserver.context.drafting import LARGE, has_threads, run_drafted
from mooring.sandbox.apiserver.context.options import DeleteOptions, WriteOptions
from mooring.sandbox.apiserver.context.resource import Resource
from mooring.sandbox.apiserver.context.write import Write
from mooring.sandbox.apiserver.custom.defined_resources import resources_of, stored_resource, stored_schema
from mooring.sandbox.apiserver.custom.definition_codec import DefinitionCodec
from mooring.sandbox.apiserver.custom.definition_names import accept_names
from mooring.sandbox.apiserver.custom.definition_strategy import (
    CLEANUP,
    STORAGE,
    DefinitionStrategy,
    set_condition,
    settle_names,
)
from mooring.sandbox.apiserver.custom.definition_validation import condition
from mooring.sandbox.apiserver.custom.pruning import TooManyDefaultsError, fill_in
from mooring.sandbox.apiserver.custom.schema import Schema
from mooring.sandbox.apiserver.derived import publish_group_versions
from mooring.sandbox.apiserver.objects import Tree, decode_record, dig, encode_tail
from mooring.sandbox.apiserver.store.draft import OutdatedError
from mooring.sandbox.apiserver.store.record import Event, Record
from mooring.sandbox.apiserver.store.table import Table
from mooring.sandbox.apiserver.verbs.deleting import delete
from mooring.sandbox.apiserver.verbs.updating import change

_SYSTEM: Final = User("system:apiserver", ("system:masters",))
_OPTIONS: Final = WriteOptions(field_manager="kube-apiserver")
log = logging.getLogger("mooring.apiserver")


def serve_definitions(api: Api) -> None:
    """Serve what the definitions in the store define, and follow their changes from now on."""
    Definitions(api).begin()


class Definitions:
    """Follows the table of definitions, from within its writes.

    It does what three controllers do in kube-apiserver: grants names, serves resources, and removes the
    objects of deleted definitions. Its own writes to definitions notify it like all others. What takes long
    is done later, as there: large definitions in a thread, many objects in several turns of the loop.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        resource = api.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert resource is not None
        self._definitions: Resource = resource
        self._table = api.store.table(STORAGE)
        self._served: dict[str, list[Resource]] = {}
        self._served_for: dict[str, Record] = {}
        """The definitions that the resources were made for."""
        self._watched: set[str] = set()
        self._changing: set[asyncio.Task[None]] = set()
        self._cleaning: set[str] = set()
        """Deleted definitions whose objects are being deleted."""

    def begin(self) -> None:
        self._definitions.codec = DefinitionCodec()
        self._definitions.strategy = DefinitionStrategy(
            self._definitions.strategy.traits._replace(any_finalizer=True)
        )
        self._table.listeners.append(self._happened)
        for record in list(self._table.records.values()):
            self._follow(record)

    def _happened(self, event: Event) -> None:
        name = event.record.name
        if event.type == "DELETED":
            self._withdraw(name)
            publish_group_versions(self._api)
            self._reconsider_names(event.record.name.partition(".")[2])
        elif not _is_for_thread(event.record):
            self._follow(event.record)
        elif name not in self._api.following:
            self._api.following[name] = asyncio.create_task(self._follow_large(name))

    def _follow(self, record: Record) -> None:
        view = _examine(record, self._served_for.get(record.name))
        if view.serving is not None:
            self._serve(record, view.serving)
        if view.wants_names:
            _give_names(self._api, record.name)
        if view.is_deleted:
            self._clean_up(record.name)

    async def _follow_large(self, name: str) -> None:
        """Follow a large definition until it changes no more, with the long work in a thread."""
        followed: Record | None = None
        try:
            while (record := self._table.get(name)) is not None and record is not followed:
                view = await asyncio.to_thread(_examine, record, self._served_for.get(name))
                if self._table.get(name) is not record:
                    continue
                if view.serving is not None:
                    self._serve(record, view.serving)
                if view.wants_names:
                    await self._serve_named(name)
                if view.is_deleted:
                    self._clean_up(name)
                followed = record
        finally:
            del self._api.following[name]

    async def _serve_named(self, name: str) -> None:
        """Grant names to a large definition. What it then defines is served in the same turn of the loop:
        those who watch definitions look for it at once."""

        def work(api: Api) -> tuple[Record, _View]:
            record = _give_names(api, name)
            return record, _examine(record, self._served_for.get(name))

        with contextlib.suppress(OutdatedError, ApiError):  # such as a definition that is gone
            (drafted, view), stored = await run_drafted(self._api, _SYSTEM.name, work)
            if drafted in stored and view.serving is not None:
                self._serve(stored[drafted], view.serving)

    def _reconsider_names(self, group: str) -> None:
        """Grant the names of a deleted definition to others."""
        for record in _of_group(self._api, group):
            if condition(_with_status(record), "NamesAccepted") == "False":
                self._change(record.name, partial(_give_names, name=record.name))

    # ---- resources ---------------------------------------------------------------------------------

    def _serve(self, record: Record, serving: _Serving) -> None:
        name, registry = record.name, self._api.registry
        self._withdraw(name)
        resources = [one for one in serving.resources if not self._is_builtin(one)]
        for resource in resources:
            registry.add(resource)
        publish_group_versions(self._api)
        self._served[name], self._served_for[name] = resources, record
        if resources:
            table = self._api.table(resources[0])
            if serving.changes_objects:
                _in_turns(_bring_up_to_date(table, resources[0], serving), _size(table))
            if table.name not in self._watched:
                self._watched.add(table.name)
                table.listeners.append(partial(self._object_changed, name))

    def _withdraw(self, name: str) -> None:
        self._served_for.pop(name, None)
        for resource in self._served.pop(name, ()):
            self._api.registry.remove(resource)

    def _is_builtin(self, resource: Resource) -> bool:
        """Built-in kinds are never replaced."""
        return any(not one.custom and one.storage == resource.storage for one in self._api.registry)

    # ---- the end -----------------------------------------------------------------------------------

    def _clean_up(self, name: str) -> None:
        """Delete the objects of a deleted definition, and remove it when there are none left."""
        if name in self._cleaning:
            return
        definition = self._api.read(STORAGE, name)
        assert definition is not None
        if condition(definition, "Established") == "True":
            resource = stored_resource(definition)
            table = self._api.table(resource)
            if table.records and not self._is_builtin(resource):
                self._cleaning.add(name)
                _in_turns(self._delete_objects(name, resource, table), _size(table))
                return
        self._let_go(name)

    def _delete_objects(self, name: str, resource: Resource, table: Table) -> Iterator[int]:
        """Delete the objects of a definition; yield the size of each."""
        for record in list(table.records.values()):
            write = Write(self._api, resource, record.namespace, record.name, _SYSTEM, _OPTIONS, "DELETE")
            with contextlib.suppress(ApiError):  # others may have deleted it meanwhile
                delete(write, DeleteOptions())
            yield len(record.tail)
        self._cleaning.discard(name)
        if table.records:
            self._change(name, partial(_report_progress, name=name))
        else:
            self._let_go(name)

    def _object_changed(self, name: str, event: Event) -> None:
        if event.type != "DELETED" or self._api.store.table(name).records:  # it has the definition's name
            return
        definition = self._api.read(STORAGE, name)
        if definition is not None and _is_deleted(definition):
            self._let_go(name)

    def _let_go(self, name: str) -> None:
        self._change(name, partial(_let_go, name=name))

    # ---- writes ------------------------------------------------------------------------------------

    def _change(self, name: str, work: Callable[[Api], object]) -> None:
        """Write to a definition: now, or later if it is large."""
        record = self._table.get(name)
        if record is None or not _is_for_thread(record):
            work(self._api)
            return
        task = asyncio.create_task(self._draft(work))
        self._changing.add(task)
        task.add_done_callback(self._changing.discard)

    async def _draft(self, work: Callable[[Api], object]) -> None:
        while True:
            try:
                await run_drafted(self._api, _SYSTEM.name, work)
            except OutdatedError:
                continue
            except ApiError as error:  # such as a definition that is gone
                log.debug("definition not written: %s", error)
            return


class _Serving(NamedTuple):
    """What a definition defines."""

    resources: list[Resource]
    schema: Schema
    """Of the stored version."""
    changes_objects: bool
    """Whether stored objects may need other defaults or selectable fields than before."""
    written_as: str = ""
    """The version of stored objects that do not name theirs, if a webhook converts them."""


class _View(NamedTuple):
    """What there is to do for a definition."""

    serving: _Serving | None
    """Set if it defines something else than what is served."""
    wants_names: bool
    is_deleted: bool


def _examine(record: Record, served_for: Record | None) -> _View:
    """Return what there is to do for a definition whose resources are those of `served_for`."""
    definition = _tree(record)
    before = None if served_for is None else _tree(served_for)
    serving = None
    if before is None or _defines(definition) != _defines(before):
        is_new = before is None or _stored_form(definition) != _stored_form(before)
        written_as = _storage_version(before or definition) if _has_webhook(definition) else ""
        serving = _Serving(list(resources_of(definition)), stored_schema(definition), is_new, written_as)
    finalizers = definition["metadata"].get("finalizers") or ()
    return _View(
        serving,
        dig(definition, "spec", "names") != dig(definition, "status", "acceptedNames"),
        CLEANUP in finalizers and _is_deleted(definition),
    )


def _tree(record: Record) -> Tree:
    return decode_record(record, "", "")


class _Status(msgspec.Struct):
    status: Tree = {}


_statuses = msgspec.json.Decoder(_Status)


def _with_status(record: Record) -> Tree:
    """Decode no more of a definition than its status: schemas may be large."""
    return {"status": _statuses.decode(record.body).status}


def _is_deleted(definition: Tree) -> bool:
    return "deletionTimestamp" in definition["metadata"]


def _defines(definition: Tree) -> tuple[object, ...]:
    """Return what the resources of a definition depend on."""
    return (
        definition["spec"],
        dig(definition, "status", "acceptedNames"),
        condition(definition, "Established"),
        condition(definition, "Terminating"),
    )


def _stored_form(definition: Tree) -> tuple[object, ...]:
    """Return what the stored objects of a definition depend on."""
    stored = [version for version in definition["spec"]["versions"] if version.get("storage")]
    return stored, _has_webhook(definition)


def _has_webhook(definition: Tree) -> bool:
    return bool(dig(definition, "spec", "conversion", "strategy") == "Webhook")


def _storage_version(definition: Tree) -> str:
    spec = definition["spec"]
    name = next(version["name"] for version in spec["versions"] if version.get("storage"))
    return f"{spec['group']}/{name}"


def _bring_up_to_date(table: Table, resource: Resource, serving: _Serving) -> Iterator[int]:
    """Apply new defaults and selectable fields to the stored objects of a changed definition, at the version
    they have: this is not a write. Yield the size of each."""
    for record in list(table.records.values()):
        obj = _tree(record)
        version = (obj["apiVersion"] or serving.written_as) if serving.written_as else ""
        if not version or resource.conversion is None or version == resource.conversion.storage:
            with contextlib.suppress(TooManyDefaultsError):  # it stays readable with those that fit
                fill_in(obj, serving.schema)
        record.tail = encode_tail(obj, version)
        with without_calls():
            record.fields = resource.strategy.select(obj)
        yield len(record.tail)


# ---- writes ---------------------------------------------------------------------------------------


def _give_names(api: Api, name: str) -> Record:
    """Grant names to a definition; it is followed again only if they changed."""

    def settled(definition: Tree) -> Tree:
        same_group = _of_group(api, definition["spec"]["group"])
        others = [_with_status(record) for record in same_group if record.name != name]
        names_of_others = [dig(other, "status", "acceptedNames") or {} for other in others]
        accepted = dig(definition, "status", "acceptedNames") or {}
        acceptance = accept_names(definition["spec"]["names"], accepted, names_of_others)
        settle_names(definition, acceptance, api.now())
        return definition

    return change(_write(api, name, "status"), settled)


def _report_progress(api: Api, name: str) -> None:
    def in_progress(definition: Tree) -> Tree:
        why = "CustomResource deletion is in progress"
        set_condition(definition, "Terminating", "True", "InstanceDeletionInProgress", why, api.now())
        return definition

    change(_write(api, name, "status"), in_progress)


def _let_go(api: Api, name: str) -> None:
    def freed(definition: Tree) -> Tree:
        finalizers = definition["metadata"].get("finalizers") or []
        definition["metadata"]["finalizers"] = [one for one in finalizers if one != CLEANUP]
        return definition

    record = api.record(STORAGE, name)
    if record is not None and CLEANUP in (_tree(record)["metadata"].get("finalizers") or ()):
        change(_write(api, name, ""), freed)


def _of_group(api: Api, group: str) -> list[Record]:
    """Return the definitions of a group, whose names end with it."""
    records = list(api.store.table(STORAGE).records.values())
    return [record for record in records if record.name.partition(".")[2] == group]


def _write(api: Api, name: str, subresource: str) -> Write:
    definitions = api.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    assert definitions is not None
    return Write(api, definitions, "", name, _SYSTEM, _OPTIONS, "UPDATE", subresource)


# ---- what takes long ------------------------------------------------------------------------------


def _is_for_thread(record: Record) -> bool:
    return len(record.tail) >= LARGE and has_threads()


def _size(table: Table) -> int:
    return sum(len(record.tail) for record in table.records.values())


def _in_turns(steps: Iterator[int], size: int) -> None:
    """Take steps that have so many bytes together: few at once, others in several turns of the loop."""
    if size < LARGE or not has_threads():
        for _ in steps:
            pass
        return
    left = LARGE
    for done in steps:
        left -= done
        if left < 0:
            asyncio.get_running_loop().call_soon(_in_turns, steps, size)
            return
