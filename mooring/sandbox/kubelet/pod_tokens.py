"""Tokens of service accounts, which kubelets request for the volumes of their pods."""

from __future__ import annotations

from collections.abc import Callable

from mooring.api.objects import Pod
from mooring.sandbox.programs.sources import Tokens
from mooring.sandbox.programs.specs import PodRun
from mooring.sandbox.programs.volumes import project

IssueToken = Callable[[str, str, str, int], str | None]
"""Returns a token that is bound to the pod of a namespace and name, with an audience and a lifetime in
seconds; None without the pod or its account."""


def request_tokens(issue: IssueToken, pod: Pod, run: PodRun) -> Tokens:
    """Return the tokens of a pod's volumes; those that are not issued are left out."""
    tokens = {}
    projections = (one.service_account_token for volume in run.spec.volumes for one in project(volume))
    for key in {(one.audience, one.expiration_seconds) for one in projections if one is not None}:
        token = issue(pod.namespace, pod.name, *key)
        if token is not None:
            tokens[key] = token
    return tokens
