"""Serving what definitions define, from the moment they are written until they are deleted."""

from __future__ import annotations

from functools import partial
from typing import Final

from mooring.sandbox.apiserver.authorization.users import User
from mooring.sandbox.apiserver.context.api import Api
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
from mooring.sandbox.apiserver.custom.pruning import fill_in
from mooring.sandbox.apiserver.custom.schema import Schema
from mooring.sandbox.apiserver.objects import Tree, decode_record, dig, encode_tail
from mooring.sandbox.apiserver.store.record import Event, Record
from mooring.sandbox.apiserver.store.table import Table
from mooring.sandbox.apiserver.verbs.deleting import delete
from mooring.sandbox.apiserver.verbs.updating import Produce, change

_SYSTEM: Final = User("system:apiserver", ("system:masters",))
_OPTIONS: Final = WriteOptions(field_manager="kube-apiserver")


def serve_definitions(api: Api) -> None:
    """Serve what the definitions in the store define, and follow their changes from now on."""
    Definitions(api).begin()


class Definitions:
    """Follows the table of definitions, from within its writes.

    It does what three controllers do in kube-apiserver: grants names, serves resources, and removes the
    objects of deleted definitions. Its own writes to definitions notify it like all others.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        resource = api.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert resource is not None
        self._definitions: Resource = resource
        self._table = api.store.table(STORAGE)
        self._served: dict[str, list[Resource]] = {}
        self._watched: set[str] = set()

    def begin(self) -> None:
        self._definitions.codec = DefinitionCodec()
        self._definitions.strategy = DefinitionStrategy(
            self._definitions.strategy.traits._replace(any_finalizer=True)
        )
        self._table.listeners.append(self._happened)
        for record in list(self._table.records.values()):
            self._follow(record, None)

    def _happened(self, event: Event) -> None:
        name = event.record.name
        if event.type == "DELETED":
            self._withdraw(name)
            self._reconsider_names(_tree(event.record)["spec"]["group"])
        else:
            self._follow(event.record, event.before)

    def _follow(self, record: Record, before: Record | None) -> None:
        definition = _tree(record)
        if before is None or _defines(definition) != _defines(_tree(before)):
            self._serve(definition)
        if dig(definition, "spec", "names") != dig(definition, "status", "acceptedNames"):
            self._give_names(record.name)
        if CLEANUP in (definition["metadata"].get("finalizers") or ()) and _is_deleted(definition):
            self._clean_up(record.name)

    # ---- names -------------------------------------------------------------------------------------

    def _give_names(self, name: str) -> None:
        """Grant names to a definition; process it again only if they changed."""

        def settled(definition: Tree) -> Tree:
            others = self._names_of_others(definition)
            accepted = dig(definition, "status", "acceptedNames") or {}
            acceptance = accept_names(definition["spec"]["names"], accepted, others)
            settle_names(definition, acceptance, self._api.now())
            return definition

        self._change_status(name, settled)

    def _names_of_others(self, definition: Tree) -> list[Tree]:
        name = definition["metadata"]["name"]
        others = [record for record in self._of_group(definition["spec"]["group"]) if record.name != name]
        return [dig(_tree(record), "status", "acceptedNames") or {} for record in others]

    def _of_group(self, group: str) -> list[Record]:
        """Return the definitions of a group, whose names end with it; they may be large to decode."""
        return [record for record in self._table.records.values() if record.name.partition(".")[2] == group]

    def _reconsider_names(self, group: str) -> None:
        """Grant the names of a deleted definition to others."""
        for record in self._of_group(group):
            if condition(_tree(record), "NamesAccepted") == "False":
                self._give_names(record.name)

    # ---- resources ---------------------------------------------------------------------------------

    def _serve(self, definition: Tree) -> None:
        name, registry = definition["metadata"]["name"], self._api.registry
        self._withdraw(name)
        resources = [one for one in resources_of(definition) if not self._is_builtin(one)]
        for resource in resources:
            registry.add(resource)
        self._served[name] = resources
        if resources:
            table = self._api.table(resources[0])
            _bring_up_to_date(table, resources[0], stored_schema(definition))
            if table.name not in self._watched:
                self._watched.add(table.name)
                table.listeners.append(partial(self._object_changed, name))

    def _withdraw(self, name: str) -> None:
        for resource in self._served.pop(name, ()):
            self._api.registry.remove(resource)

    def _is_builtin(self, resource: Resource) -> bool:
        """Built-in kinds are never replaced."""
        return any(not one.custom and one.storage == resource.storage for one in self._api.registry)

    # ---- the end -----------------------------------------------------------------------------------

    def _clean_up(self, name: str) -> None:
        """Delete the objects of a deleted definition, and remove it when there are none left."""
        definition = self._api.read(STORAGE, name)
        assert definition is not None
        if condition(definition, "Established") == "True":
            resource = stored_resource(definition)
            table = self._api.table(resource)
            for record in [] if self._is_builtin(resource) else list(table.records.values()):
                write = Write(self._api, resource, record.namespace, record.name, _SYSTEM, _OPTIONS, "DELETE")
                delete(write, DeleteOptions())
            if table.records and not self._is_builtin(resource):
                self._change_status(name, self._in_progress)
                return
        self._let_go(name)

    def _in_progress(self, definition: Tree) -> Tree:
        why = "CustomResource deletion is in progress"
        set_condition(definition, "Terminating", "True", "InstanceDeletionInProgress", why, self._api.now())
        return definition

    def _object_changed(self, name: str, event: Event) -> None:
        if event.type != "DELETED":
            return
        definition = self._api.read(STORAGE, name)
        gone = not self._api.store.table(name).records  # it has the name of the definition
        if definition is not None and _is_deleted(definition) and gone:
            self._let_go(name)

    def _let_go(self, name: str) -> None:
        def freed(definition: Tree) -> Tree:
            finalizers = definition["metadata"].get("finalizers") or []
            definition["metadata"]["finalizers"] = [one for one in finalizers if one != CLEANUP]
            return definition

        record = self._table.get(name)
        if record is not None and CLEANUP in (_tree(record)["metadata"].get("finalizers") or ()):
            change(self._write(name, ""), freed)

    # ---- writes ------------------------------------------------------------------------------------

    def _change_status(self, name: str, produce: Produce) -> None:
        change(self._write(name, "status"), produce)

    def _write(self, name: str, subresource: str) -> Write:
        return Write(self._api, self._definitions, "", name, _SYSTEM, _OPTIONS, "UPDATE", subresource)


def _tree(record: Record) -> Tree:
    return decode_record(record, "", "")


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


def _bring_up_to_date(table: Table, resource: Resource, schema: Schema) -> None:
    """Apply new defaults and selectable fields to the stored objects of a changed definition, at the version
    they have: this is not a write."""
    for record in table.records.values():
        obj = _tree(record)
        fill_in(obj, schema)
        record.tail = encode_tail(obj)
        record.fields = resource.strategy.select(obj)
