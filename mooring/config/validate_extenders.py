"""Validation of `extenders`."""

from __future__ import annotations

import re

from mooring.config.findings import Path, Report
from mooring.config.types import Extender, ExtenderTLSConfig
from mooring.config.urls import is_http, is_path, without_password

_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_EXTENDED_RESOURCE = re.compile(rf"(?P<domain>{_DOMAIN})/(?P<name>{_NAME})")


def validate_extenders(extenders: list[Extender], report: Report) -> None:
    seen: set[str] = set()
    for index, extender in enumerate(extenders):
        path: Path = ("extenders", index)
        _address(extender, path, report)
        if extender.prioritize_verb and extender.weight <= 0:
            message = "must have a positive weight applied to it"
            report.invalid((*path, "weight"), extender.weight, message)
        if extender.tls_config is not None:
            _tls(extender.tls_config, (*path, "tlsConfig"), report)
        for at, resource in enumerate(extender.managed_resources):
            where = (*path, "managedResources", at, "name")
            if not is_extended_resource(resource.name):
                report.invalid(where, resource.name, "is an invalid extended resource name")
            if resource.name in seen:
                report.invalid(where, resource.name, "duplicate extender managed resource name")
            seen.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        value = f"found {binders} extenders implementing bind"
        report.invalid(("extenders",), value, "only one extender can implement bind")


def _tls(tls: ExtenderTLSConfig, path: Path, report: Report) -> None:
    if tls.insecure and (tls.ca_file or tls.ca_data):
        message = "specifying a root certificates file with the insecure flag is not allowed"
        report.invalid((*path, "insecure"), True, message)


def is_extended_resource(name: str) -> bool:
    """Whether `name` is a resource outside Kubernetes' own domain, such as "example.com/gpu"."""
    match = _EXTENDED_RESOURCE.fullmatch(name)
    if match is None or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    # Quota names it "requests.<name>", which has to stay a legal name as well.
    return len(f"requests.{match['domain']}") <= 253 and len(match["name"]) <= 63


def _address(extender: Extender, path: Path, report: Report) -> None:
    """Where it is asked. kube-scheduler finds out only when it asks."""
    if not is_http(extender.url_prefix):
        url = without_password(extender.url_prefix)
        expected = "expected http://HOST[:PORT][/PATH] or https://…"
        report.add((*path, "urlPrefix"), f'found "{url}", {expected}')
    for field in ("filter", "prioritize", "preempt", "bind"):
        verb: str = getattr(extender, f"{field}_verb")
        if not is_path(verb):
            expected = "expected what can stand at the end of a URL"
            report.add((*path, f"{field}Verb"), f'found "{verb}", {expected}')
