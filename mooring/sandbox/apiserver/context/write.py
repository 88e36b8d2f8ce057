"""One write on its way to the store, as hooks see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from mooring.sandbox.apiserver.authorization.users import User
from mooring.sandbox.apiserver.context.api import Api
from mooring.sandbox.apiserver.context.options import WriteOptions
from mooring.sandbox.apiserver.context.resource import Resource

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
Ownership = Literal["track", "keep", "settled"]


@dataclass(slots=True)
class Reinvocation:
    """Whether the plugins that change objects run again, since something changed after they ran."""

    required: bool = False
    running: bool = False
    notes: dict[str, Any] = field(default_factory=dict)
    """What plugins remember of the first time, by their names."""


@dataclass(slots=True)
class Write:
    """Who writes what, and how. Warnings added here are sent to the client."""

    api: Api
    resource: Resource
    namespace: str
    name: str
    user: User
    options: WriteOptions
    operation: Operation
    subresource: str = ""
    verb: str = ""
    """The verb of the request, if it is one: update or patch for an UPDATE."""
    warnings: list[str] = field(default_factory=list)
    ownership: Ownership = "track"
    """What happens to managedFields: they track the changes, stay as they are, or are settled already."""
    part: str = ""
    """The subresource that managedFields name, where it is written as part of the whole object."""
    generated_name: bool = False
    """Whether the server made up the name of the new object."""
    reinvocation: Reinvocation | None = None
