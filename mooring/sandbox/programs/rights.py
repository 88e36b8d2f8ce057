"""Whose rights a container has, by its security context, that of its pod and its image."""

from __future__ import annotations

from functools import lru_cache

from mooring.sandbox.programs.capabilities import ALL, capability_bits
from mooring.sandbox.programs.images import Account, find_image
from mooring.sandbox.programs.specs import ContainerSpec, SecurityContext
from mooring.sandbox.programs.user import Privileges, User

_NO_CONTEXT = SecurityContext()


def find_user(spec: ContainerSpec, pod: SecurityContext | None) -> User:
    """Return the user of a container."""
    pod, own = pod or _NO_CONTEXT, spec.security_context or _NO_CONTEXT
    return _user_of_image(spec.image) if pod == own == _NO_CONTEXT else _find_user(spec.image, own, pod)


@lru_cache(1024)
def _user_of_image(image: str) -> User:
    return _find_user(image, _NO_CONTEXT, _NO_CONTEXT)


def _find_user(image_name: str, own: SecurityContext, pod: SecurityContext) -> User:
    image = find_image(image_name)
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
