"""What is particular to a kind. The base class suffices for most kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mooring.sandbox.apiserver.context.outcomes import Outcomes
from mooring.sandbox.apiserver.context.traits import Traits
from mooring.sandbox.apiserver.errors import Cause
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.metadata import validate_metadata
from mooring.sandbox.apiserver.validation.rules import Rules
from mooring.sandbox.apiserver.validation.warnings.workloads import Warn

if TYPE_CHECKING:
    from mooring.sandbox.apiserver.context.write import Write


class Strategy:
    """Hooks around the writes of one kind. Objects are trees that may be changed in place, except `old`.

    Subclasses are in `mooring.sandbox.apiserver.strategies`, which also maps kinds to them.
    """

    def __init__(
        self,
        traits: Traits,
        default: Callable[[Tree], None] | None = None,
        rules: Rules | None = None,
        empty_status: Callable[[], Tree] | None = None,
        warnings: Warn | None = None,
    ) -> None:
        self.traits = traits
        self._default = default
        self._rules = rules
        self._empty_status = empty_status
        self._warnings = warnings
        self.outcomes: Outcomes | None = None
        """For kinds of which many objects are created from the same spec."""
        self._selectable = [path.split(".") for path in traits.selectable]

    def default(self, obj: Tree) -> None:
        """Set the defaults of what the client left out."""
        if self._default is not None:
            self._default(obj)

    def default_status(self, obj: Tree) -> None:
        """Set defaults in a stored object of which only the status is new."""
        self.default(obj)

    def prepare_create(self, write: Write, obj: Tree) -> None:
        """Reset what clients may not set in a new object, before validation."""
        self.reset_status(obj)
        if self.traits.generation:
            obj["metadata"]["generation"] = 1

    def reset_status(self, obj: Tree) -> None:
        """Replace the status that a client sent with the initial one."""
        if self._empty_status is not None:
            obj["status"] = self._empty_status()
        elif self.traits.status:
            obj.pop("status", None)

    def prepare_update(self, write: Write, obj: Tree, old: Tree) -> None:
        """Keep what an update may not change, and increment the generation, before validation."""
        if self.traits.status:
            keep(obj, old, "status")
        if self.traits.generation and self.spec_of(obj) != self.spec_of(old):
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def prepare_status(self, write: Write, obj: Tree, old: Tree) -> None:
        """Keep everything but the status on a write to the status subresource, before validation."""
        for name in set(obj) | set(old):
            if name not in ("metadata", "status"):
                keep(obj, old, name)
        for name in self.traits.status_keeps:
            keep(obj["metadata"], old["metadata"], name)
        self.settle_status(write, obj, old)

    def settle_status(self, write: Write, obj: Tree, old: Tree) -> None:
        """Keep or set parts of the status that clients may leave out."""

    def prepare_subresource(self, write: Write, obj: Tree, old: Tree) -> None:
        """Keep what a write to another subresource may not change; `write.subresource` names it."""

    def validate_create(self, obj: Tree) -> list[Cause]:
        causes = validate_metadata(obj["metadata"], self.traits.name, any_finalizer=self.traits.any_finalizer)
        return causes if self._rules is None else [*causes, *self._rules.create(obj)]

    def repeats(self, obj: Tree) -> bool:
        """Whether the stored object, except for its metadata, depends only on the spec that was sent: then
        the next object with this spec is the same."""
        return False

    def validate_replica(self, metadata: Tree) -> list[Cause]:
        """Validate the metadata of an object whose spec is valid."""
        return validate_metadata(metadata, self.traits.name, any_finalizer=self.traits.any_finalizer)

    def validate_update(self, obj: Tree, old: Tree) -> list[Cause]:
        """Validate everything but the metadata of an updated object."""
        return [] if self._rules is None else list(self._rules.update(obj, old))

    def validate_status(self, obj: Tree, old: Tree) -> list[Cause]:
        return [] if self._rules is None else list(self._rules.status(obj, old))

    def validate_subresource(self, subresource: str, obj: Tree, old: Tree) -> list[Cause]:
        return []

    def finish_validation(
        self, write: Write, obj: Tree, old: Tree | None, causes: list[Cause]
    ) -> list[Cause]:
        """Return further causes, by what may take long or adds warnings; `old` is None for a new object."""
        return []

    def warn(self, write: Write, obj: Tree, old: Tree | None) -> None:
        """Warn the client about an object that is about to be written."""
        if self._warnings is not None and not write.subresource:
            write.warnings += self._warnings(obj, old)

    def grace_period(self, obj: Tree, requested: int | None) -> int | None:
        """Return the seconds until a deleted object is removed; None for kinds without grace periods."""
        return None

    def held(self, obj: Tree) -> bool:
        """Whether a deleted object must stay until it is finalized."""
        return bool(obj["metadata"].get("finalizers"))

    def mark_deleted(self, obj: Tree) -> None:
        """Change a deleted object that stays because it is held; its metadata is marked already."""

    def spec_of(self, obj: Tree) -> object:
        """Return what the generation counts the changes of."""
        return {name: value for name, value in obj.items() if name not in ("metadata", "status")}

    def select(self, obj: Tree) -> tuple[str, ...]:
        """Return the values of the selectable fields as texts, empty where a field is absent."""
        values = []
        for head, *rest in self._selectable:  # called on every write: no function calls for texts
            value = obj.get(head)
            for name in rest:
                value = value.get(name) if isinstance(value, dict) else None
            values.append(value if type(value) is str else as_text(value))
        return tuple(values)


def as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def keep(obj: Tree, old: Tree, name: str) -> None:
    """Restore a member of the old object, or remove it if it had none."""
    if name in old:
        obj[name] = old[name]
    else:
        obj.pop(name, None)
