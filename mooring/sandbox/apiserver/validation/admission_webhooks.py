"""ValidatingWebhookConfiguration and MutatingWebhookConfiguration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from mooring.sandbox.apiserver.errors import duplicate, invalid_value, not_supported, required
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.admission_rules import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    match_conditions,
    rule_with_operations,
)
from mooring.sandbox.apiserver.validation.fields import Causes, optional_choice, text
from mooring.sandbox.apiserver.validation.labels import label_selector
from mooring.sandbox.apiserver.validation.names import dns_subdomain, port_number

_NO_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_REVIEWS: Final = ("v1", "v1beta1")
_FORM: Final = "; desired format: https://host[/path]"
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_LABEL_1035: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def webhook_configuration(configuration: Tree) -> Causes:
    seen: set[str] = set()
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        path, name = f"webhooks[{index}]", webhook.get("name", "")
        yield from _webhook(path, webhook)
        yield from _review_versions(
            f"{path}.admissionReviewVersions", webhook.get("admissionReviewVersions") or []
        )
        if name and name in seen:
            yield duplicate(f"{path}.name", name)
        seen.add(name)


def _webhook(path: str, webhook: Tree) -> Causes:
    yield from _full_name(f"{path}.name", webhook.get("name", ""))
    for index, rule in enumerate(webhook.get("rules") or ()):
        yield from rule_with_operations(f"{path}.rules[{index}]", rule)
    yield from optional_choice(f"{path}.failurePolicy", webhook.get("failurePolicy"), FAILURE_POLICIES)
    yield from optional_choice(f"{path}.matchPolicy", webhook.get("matchPolicy"), MATCH_POLICIES)
    effects = webhook.get("sideEffects")
    if effects is None:
        yield required(f"{path}.sideEffects", f"must specify one of {', '.join(_NO_SIDE_EFFECTS)}")
    elif effects not in _NO_SIDE_EFFECTS:
        yield not_supported(f"{path}.sideEffects", effects, _NO_SIDE_EFFECTS)
    timeout = webhook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        why = "the timeout value must be between 1 and 30 seconds"
        yield invalid_value(f"{path}.timeoutSeconds", timeout, why)
    yield from label_selector(f"{path}.namespaceSelector", webhook.get("namespaceSelector"))
    yield from label_selector(f"{path}.objectSelector", webhook.get("objectSelector"))
    policy = webhook.get("reinvocationPolicy")
    yield from optional_choice(f"{path}.reinvocationPolicy", policy, REINVOCATION_POLICIES)
    yield from _client_config(f"{path}.clientConfig", webhook.get("clientConfig") or {})
    yield from match_conditions(f"{path}.matchConditions", webhook.get("matchConditions"))


def _full_name(path: str, name: str) -> Causes:
    if not name:
        yield required(path)
    elif dns_subdomain(name):
        yield from text(path, name, dns_subdomain)
    elif name.count(".") < 2:
        yield invalid_value(path, name, "should be a domain with at least three segments separated by dots")


def _review_versions(path: str, versions: Sequence[str]) -> Causes:
    if not versions:
        yield required(path, f"must specify one of {', '.join(_REVIEWS)}")
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            yield invalid_value(f"{path}[{index}]", version, "duplicate version")
            continue
        seen.add(version)
        if not _LABEL.fullmatch(version):
            yield invalid_value(f"{path}[{index}]", version, _LABEL_1035)
    if seen.isdisjoint(_REVIEWS):
        yield invalid_value(path, versions, f"must include at least one of {', '.join(_REVIEWS)}")


def _client_config(path: str, config: Tree) -> Causes:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url(f"{path}.url", url)
    elif service is not None:
        yield from _service(f"{path}.service", service)


def _url(path: str, url: str) -> Causes:
    try:
        parts = urlsplit(url)
        host = parts.netloc
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{_FORM}")
        return
    if parts.scheme != "https":
        yield invalid_value(path, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not host:
        yield invalid_value(path, host, f"host must be specified{_FORM}")
    if "@" in host:
        user = host.rpartition("@")[0]
        yield invalid_value(path, user, "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid_value(path, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid_value(path, parts.query, "query parameters are not permitted in the URL")


def _service(path: str, service: Tree) -> Causes:
    # kube-apiserver passes the two in the wrong order
    for field, other in (("name", "namespace"), ("namespace", "name")):
        if not service.get(other):
            yield required(f"{path}.{field}")
    port = service.get("port", 443)
    if problem := port_number(port):
        yield invalid_value(f"{path}.port", port, f"port is not valid: {', '.join(problem)}")
    target = service.get("path") or ""
    if target in ("", "/"):
        return
    if target == "//":
        yield invalid_value(f"{path}.path", target, "segment[0] may not be empty")
        return
    if not target.startswith("/"):
        yield invalid_value(f"{path}.path", target, "must start with a '/'")
    for index, step in enumerate(target[1:].removesuffix("/").split("/")):
        if not step:
            yield invalid_value(f"{path}.path", target, f"segment[{index}] may not be empty")
            continue
        for problem in dns_subdomain(step):
            yield invalid_value(f"{path}.path", target, f"segment[{index}]: {problem}")
