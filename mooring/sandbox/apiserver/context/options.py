"""Options of requests."""

from __future__ import annotations

import msgspec

from mooring.sandbox.apiserver.kinds.codec import FieldValidation


class ListOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of list, watch and deletecollection."""

    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    timeout_seconds: int | None = None
    bookmarks: bool = False
    send_initial_events: bool | None = None


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of create, update and patch."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: FieldValidation = FieldValidation.WARN
    force: bool | None = None

    def with_manager(self, name: str) -> WriteOptions:
        return msgspec.structs.replace(self, field_manager=name) if name else self


class DeleteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of delete."""

    dry_run: bool = False
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    uid: str | None = None
    resource_version: str | None = None


DEFAULT_WRITE = WriteOptions()
