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
from mooring.client.api_errors import ApiError, ClusterError
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

REVIEW_SECONDS = 10.0  # for a review
MOST_CACHED = 2048  # results of each kind
MASTERS = "system:masters"  # authorized for everything, without a review
_TOKEN_PREFIX = 8  # characters by which a token is recognized in messages, where it must not appear

Value = TypeVar("Value")
_encode = msgspec.json.Encoder().encode
_escape_html = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class ExpiringCache(Generic[Value]):
    """Bounded cache of results, each valid for some seconds. The oldest are dropped first."""

    def __init__(self, clock: Callable[[], float], most: int = MOST_CACHED) -> None:
        self._clock = clock
        self._most = most
        self._secret = secrets.token_bytes(32)
        self._entries: dict[bytes, tuple[float, Value]] = {}

    def key(self, request: bytes) -> bytes:
        """Return the cache key of a request, which does not reveal its content."""
        return hashlib.blake2b(request, key=self._secret, digest_size=32).digest()

    def get(self, key: bytes) -> tuple[Value] | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        until, value = entry
        if self._clock() < until:
            return (value,)
        del self._entries[key]
        return None

    def put(self, key: bytes, value: Value, seconds: float) -> None:
        self._entries.pop(key, None)
        if seconds > 0:
            self._entries[key] = (self._clock() + seconds, value)
        if len(self._entries) > self._most:
            del self._entries[next(iter(self._entries))]

    def __len__(self) -> int:
        return len(self._entries)


class _ReviewFailedError(Exception):
    """The API server did not review a request."""


class Gate:
    """Authenticates and authorizes requests."""

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
        self._users: ExpiringCache[User | None] = ExpiringCache(clock)
        self._verdicts: ExpiringCache[SubjectAccessReviewStatus] = ExpiringCache(clock)
        self._last_error = ""

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
        except _ReviewFailedError as problem:
            return failure(500, "InternalError", str(problem))

    async def _user(self, request: Request) -> User | None:
        certificate = request.certificate
        if certificate is not None and self._wall_clock() < certificate.expires:
            return certificate.user
        scheme, _, token = request.header(b"authorization").partition(" ")
        token = token.strip().partition(" ")[0]
        if scheme.lower() != "bearer" or not token:
            return None
        key = self._users.key(token.encode())
        cached = self._users.get(key)
        if cached is not None:
            return cached[0]
        user = await self._owner(token)
        self._users.put(key, user, self._settings.authentication_cache_seconds)
        return user

    async def _owner(self, token: str) -> User | None:
        review = await self._review(self._authentication, TOKEN_REVIEWS, token_review(token), token)
        if review.status.error and not review.status.authenticated:
            log.log(logging.INFO - 4, "token rejected: %s", _without(token, review.status.error))
        return review.status.user if review.status.authenticated else None

    async def _forbidden(self, user: User, path: str, verb: str) -> Answer | None:
        body = subject_access_review(user, path, verb)
        key = self._verdicts.key(_encode(body))
        cached = self._verdicts.get(key)
        if cached is None:
            review = await self._review(self._authorization, SUBJECT_ACCESS_REVIEWS, body)
            verdict = review.status
            allowed, denied = (
                self._settings.authorization_allowed_cache_seconds,
                self._settings.authorization_denied_cache_seconds,
            )
            self._verdicts.put(key, verdict, allowed if verdict.allowed else denied)
        else:
            verdict = cached[0]
        if verdict.allowed and not verdict.denied:
            return None
        denial = f'User "{user.username}" cannot {verb} path "{path}"'.translate(_escape_html)
        reason = f": {verdict.reason}" if verdict.reason else ""
        return failure(403, "Forbidden", f"forbidden: {denial}{reason}")

    async def _review(
        self, cluster: Cluster, resource: ApiResource[Obj], body: object, token: str = ""
    ) -> Obj:
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                answer = await cluster.create(resource, body)
        except TimeoutError:
            problem = f"no answer within {REVIEW_SECONDS:g} s"
        except ApiError as error:
            problem = _without(token, error.message)
            if error.code == 403:
                problem += f'; grant the verb "create" on "{resource.plural}" in API group "{resource.group}"'
        except ClusterError as error:
            problem = _without(token, str(error))
        else:
            self._last_error = ""
            return answer
        self._log(f"{resource.name} failed: {problem}")
        raise _ReviewFailedError(f"{resource.name} failed; see the scheduler's log")

    def _log(self, error: str) -> None:
        """Log an error, once for each cause in a row, however many requests it concerns."""
        if error != self._last_error:
            self._last_error = error
            log.error("%s; serving only the paths that need no authorization", error)


class OpenPaths:
    """Paths that are served without authorization, written as for kube-scheduler: exact, or a prefix with a
    star at the end. Raises EndpointError for a star elsewhere."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._paths: set[str] = set()
        self._prefixes: tuple[str, ...] = ()
        for pattern in patterns:
            path = pattern.removeprefix("/")
            if "*" in path[:-1]:
                raise EndpointError(
                    f'--authorization-always-allow-paths: "{pattern}": a star is allowed only at the end'
                )
            if path.endswith("*"):
                self._prefixes += (path[:-1],)
            else:
                self._paths.add(path)

    def __contains__(self, path: str) -> bool:
        path = path.removeprefix("/")
        return path in self._paths or path.startswith(self._prefixes)


def _without(token: str, text: str) -> str:
    """Return a message up to where a token starts in it, whole or truncated."""
    return text.partition(token[:_TOKEN_PREFIX])[0] if token else text
