"""Authentication and authorization of requests, delegated to the API server as for kube-scheduler's
endpoints.

A request has a bearer token or a client certificate. A TokenReview authenticates the token, a
SubjectAccessReview authorizes the verb and path. Both results are cached for some seconds. Tokens are cached
as a hash with a key of this process.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from mooring.api.kinds import ApiResource
from mooring.client.errors import ApiError, ClusterError
from mooring.client.port import Cluster, Obj
from mooring.serving.messages import Answer, Request, User, failure
from mooring.serving.reviews import (
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    SubjectAccessReviewStatus,
    subject_access_review,
    token_review,
)
from mooring.serving.settings import EndpointError, EndpointSettings

log = logging.getLogger("mooring.serving")

PATIENCE = 10.0  # seconds for a review
REMEMBERED = 2048  # answers of each kind
MASTERS = "system:masters"  # may do everything, and the API server need not be asked
_SHOWN_OF_A_TOKEN = 8  # characters by which a token is recognized where it must not appear

Value = TypeVar("Value")
_encode = msgspec.json.Encoder().encode
_escape_html = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Memory(Generic[Value]):
    """Answers that hold for a while; where there are too many, the oldest go."""

    def __init__(self, clock: Callable[[], float], most: int = REMEMBERED) -> None:
        self._clock = clock
        self._most = most
        self._secret = secrets.token_bytes(32)
        self._kept: dict[bytes, tuple[float, Value]] = {}

    def key(self, asked: bytes) -> bytes:
        """Return the cache key of a request, which does not reveal its content."""
        return hashlib.blake2b(asked, key=self._secret, digest_size=32).digest()

    def get(self, key: bytes) -> tuple[Value] | None:
        found = self._kept.get(key)
        if found is None:
            return None
        until, value = found
        if self._clock() < until:
            return (value,)
        del self._kept[key]
        return None

    def put(self, key: bytes, value: Value, seconds: float) -> None:
        self._kept.pop(key, None)
        if seconds > 0:
            self._kept[key] = (self._clock() + seconds, value)
        if len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]

    def __len__(self) -> int:
        return len(self._kept)


class _CannotTell(Exception):  # noqa: N818 - no error of the one who asks
    """The API server did not say."""


class Gate:
    """Lets requests through, or answers them."""

    def __init__(
        self,
        settings: EndpointSettings,
        authentication: Cluster,
        authorization: Cluster,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._authentication = authentication
        self._authorization = authorization
        self._wall_clock = wall_clock
        self._open = OpenPaths(settings.authorization_always_allow_paths)
        self._users: Memory[User | None] = Memory(clock)
        self._verdicts: Memory[SubjectAccessReviewStatus] = Memory(clock)
        self._complaint = ""

    async def reject(self, request: Request) -> Answer | None:
        """Return the answer to a request that is not authorized, or None."""
        if request.path in self._open:
            return None
        try:
            user = await self._user(request)
            if user is None:
                return failure(401, "Unauthorized", "Unauthorized")
            if MASTERS in user.groups:
                return None
            return await self._forbidden(user, request.path, request.method.lower())
        except _CannotTell as problem:
            return failure(500, "InternalError", str(problem))

    async def _user(self, request: Request) -> User | None:
        shown = request.certificate
        if shown is not None and self._wall_clock() < shown.expires:
            return shown.user
        scheme, _, token = request.header(b"authorization").partition(" ")
        token = token.strip().partition(" ")[0]
        if scheme.lower() != "bearer" or not token:
            return None
        key = self._users.key(token.encode())
        known = self._users.get(key)
        if known is not None:
            return known[0]
        user = await self._owner(token)
        self._users.put(key, user, self._settings.authentication_cache_seconds)
        return user

    async def _owner(self, token: str) -> User | None:
        review = await self._ask(self._authentication, TOKEN_REVIEWS, token_review(token), token)
        if review.status.error and not review.status.authenticated:
            told = _without(token, review.status.error)
            log.log(logging.INFO - 4, "a token was not accepted: %s", told)
        return review.status.user if review.status.authenticated else None

    async def _forbidden(self, user: User, path: str, verb: str) -> Answer | None:
        asked = subject_access_review(user, path, verb)
        key = self._verdicts.key(_encode(asked))
        known = self._verdicts.get(key)
        if known is None:
            review = await self._ask(self._authorization, SUBJECT_ACCESS_REVIEWS, asked)
            verdict = review.status
            allowed, denied = (
                self._settings.authorization_allowed_cache_seconds,
                self._settings.authorization_denied_cache_seconds,
            )
            self._verdicts.put(key, verdict, allowed if verdict.allowed else denied)
        else:
            verdict = known[0]
        if verdict.allowed and not verdict.denied:
            return None
        said = f'User "{user.username}" cannot {verb} path "{path}"'.translate(_escape_html)
        reason = f": {verdict.reason}" if verdict.reason else ""
        return failure(403, "Forbidden", f"forbidden: {said}{reason}")

    async def _ask(self, cluster: Cluster, resource: ApiResource[Obj], body: object, token: str = "") -> Obj:
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await cluster.create(resource, body)
        except TimeoutError:
            problem = f"no answer within {PATIENCE:g} s"
        except ApiError as refusal:
            problem = _without(token, refusal.message)
            if refusal.code == 403:
                problem += f'; grant the verb "create" on "{resource.plural}" in API group "{resource.group}"'
        except ClusterError as failed:
            problem = _without(token, str(failed))
        else:
            self._complaint = ""
            return answer
        self._tell(f"cannot ask for {resource.name}: {problem}")
        raise _CannotTell(
            f"the API server could not be asked for {resource.name}; the scheduler's log says why"
        )

    def _tell(self, complaint: str) -> None:
        """Once for each cause in a row: who asks may ask often."""
        if complaint != self._complaint:
            self._complaint = complaint
            log.error("%s; only the health endpoints answer meanwhile", complaint)


class OpenPaths:
    """The paths that need no leave, given as kube-scheduler takes them: as they are, or as a beginning with a
    star at the end. Raises EndpointError for a star elsewhere."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._paths: set[str] = set()
        self._beginnings: tuple[str, ...] = ()
        for pattern in patterns:
            path = pattern.removeprefix("/")
            if "*" in path[:-1]:
                raise EndpointError(
                    f'--authorization-always-allow-paths: found "{pattern}", expected a star only at the end'
                )
            if path.endswith("*"):
                self._beginnings += (path[:-1],)
            else:
                self._paths.add(path)

    def __contains__(self, path: str) -> bool:
        path = path.removeprefix("/")
        return path in self._paths or path.startswith(self._beginnings)


def _without(token: str, text: str) -> str:
    """A message up to where a token begins in it, whole or cut short."""
    return text.partition(token[:_SHOWN_OF_A_TOKEN])[0] if token else text
