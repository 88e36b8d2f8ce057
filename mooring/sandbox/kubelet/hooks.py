"""The postStart and preStop hooks of containers."""

from __future__ import annotations

from mooring.sandbox.kubelet.container_life import ContainerLife
from mooring.sandbox.network.messages import NetworkError, OutsideError
from mooring.sandbox.network.network import dial_error
from mooring.sandbox.programs.probing import http_request
from mooring.sandbox.programs.program import Outcome, run_hook
from mooring.sandbox.programs.specs import Handler
from mooring.sandbox.programs.wire import Wire
from mooring.sandbox.programs.work import Work


def run_post_start(one: ContainerLife, now: float, work: Work) -> str:
    """Run the command of a postStart hook; return why it fails, or ""."""
    if one.spec is None or one.spec.lifecycle is None:
        return ""
    hook = one.spec.lifecycle.post_start
    outcome = run_hook(one.spec, hook, one.sources, one.files, now, work, _wire(one))
    return "PostStartHook failed" if outcome is not None and outcome.exit_code else ""


def ask_post_start(one: ContainerLife) -> str:
    """Send the request of a postStart hook; return why there is no answer, or ""."""
    lifecycle = None if one.spec is None else one.spec.lifecycle
    return "" if lifecycle is None else _ask(one, lifecycle.post_start)


def run_pre_stop(one: ContainerLife, now: float, work: Work) -> Outcome | None:
    """Run the preStop hook of a container that stops; None where there is none, or it is not known. It fails
    with an exit code other than 0."""
    hook = None if one.spec is None or one.spec.lifecycle is None else one.spec.lifecycle.pre_stop
    if hook is not None and hook.sleep is not None:
        return Outcome(float(hook.sleep.seconds))
    if _ask(one, hook):
        return Outcome(0.0, exit_code=1)
    if one.spec is None:
        return None
    return run_hook(one.spec, hook, one.sources, one.files, now, work, _wire(one))


def _wire(one: ContainerLife) -> Wire | None:
    """Return what a hook asks by: all at once, whatever time it takes."""
    return None if one.connection.client is None else Wire(one.connection.client)


def _ask(one: ContainerLife, hook: Handler | None) -> str:
    """Send the request of a hook; return why there is no answer, or ""."""
    client = one.connection.client
    if hook is None or hook.http_get is None or client is None or one.spec is None:
        return ""
    request = http_request(hook.http_get, one.spec, client)
    if request is None:
        return ""
    address, port, query = request
    try:
        client.ask(address, port, query)
    except OutsideError:
        return ""  # what would answer is not known
    except NetworkError as error:
        url = f"{query.scheme}://{address}:{port}{query.target}"
        return f'Get "{url}": {dial_error(error, address, port)}'
    return ""
