"""/healthz, /livez and /readyz: checks by name, in the words of Kubernetes' own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mooring.endpoints.messages import Answer, Handler, Request

log = logging.getLogger("mooring.endpoints")

_NO_SNIFFING = ((b"x-content-type-options", b"nosniff"),)


class Check(NamedTuple):
    """`problem` says what is wrong, in a few words; nothing where all is well."""

    name: str
    problem: Callable[[], str]


PING = Check("ping", lambda: "")


def health_routes(name: str, checks: Sequence[Check]) -> dict[str, Handler]:
    """The path of that name, and one below it for each check."""
    checks = checks or (PING,)

    async def all_of_them(request: Request) -> Answer:
        return _together(name, checks, request)

    routes: dict[str, Handler] = {f"/{name}": all_of_them}
    for check in checks:
        routes[f"/{name}/{check.name}"] = _alone(check)
    return routes


def _alone(check: Check) -> Handler:
    async def handle(request: Request) -> Answer:
        problem = check.problem()
        return _error(f"internal server error: {problem}") if problem else Answer(body=b"ok")

    return handle


def _together(name: str, checks: Sequence[Check], request: Request) -> Answer:
    """Everybody may look here, so it does not say why a check fails: the log does, and the paths below."""
    excluded = set(request.query.get("exclude", ()))
    lines: list[str] = []
    failed: list[str] = []
    for check in checks:
        if check.name in excluded:
            excluded.remove(check.name)
            lines.append(f"[+]{check.name} excluded: ok\n")
        elif problem := check.problem():
            lines.append(f"[-]{check.name} failed: reason withheld\n")
            failed.append(f"{check.name}: {problem}")
        else:
            lines.append(f"[+]{check.name} ok\n")
    if excluded:
        unknown = ",".join(f'"{each}"' for each in sorted(excluded))
        lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}\n")
    if failed:
        log.log(logging.INFO - 2, "%s check failed: %s", name, "; ".join(failed))
        return _error("".join(lines) + f"{name} check failed")
    text = "".join(lines) + f"{name} check passed\n" if "verbose" in request.query else "ok"
    return Answer(body=text.encode(), headers=_NO_SNIFFING)


def _error(text: str) -> Answer:
    return Answer(500, f"{text}\n".encode(), headers=_NO_SNIFFING)
