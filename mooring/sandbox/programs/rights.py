"""Whose rights a container has, by its security context, that of its pod and its image."""

from __future__ import annotations

from mooring.sandbox.programs.capabilities import ALL, capability_bits
from mooring.sandbox.programs.files import Privileges, User
from mooring.sandbox.programs.images import Account, find_image
from mooring.sandbox.programs.specs import ContainerSpec, SecurityContext

_NO_CONTEXT = SecurityContext()


def find_user(spec: ContainerSpec, pod: SecurityContext | None) -> User:
    """Return the user of a container."""
    pod, own, image = pod or _NO_CONTEXT, spec.security_context or _NO_CONTEXT, find_image(spec.image)
    uid = _first(own.run_as_user, pod.run_as_user, image.user)
    try:
        account = image.find_account(uid) or Account("")
    except LookupError:
        account = Account("")
    groups = set(pod.supplemental_groups)
    if pod.fs_group is not None:
        groups.add(pod.fs_group)
    if pod.supplemental_groups_policy != "Strict":
        groups.update(account.groups)
    gid = _first(own.run_as_group, pod.run_as_group, account.gid)
    return User(uid, gid, frozenset(groups), read_privileges(own, pod))


def _first(*numbers: int | None) -> int:
    return next((number for number in numbers if number is not None), 0)


def read_privileges(own: SecurityContext, pod: SecurityContext) -> Privileges:
    """Return what a container may do by its security context and that of its pod."""
    if own.privileged:
        return Privileges(ALL)
    profile = own.seccomp_profile or pod.seccomp_profile
    return Privileges(
        capability_bits(own.capabilities.add, own.capabilities.drop),
        own.allow_privilege_escalation is not False,
        profile is not None and profile.type != "Unconfined",
    )
