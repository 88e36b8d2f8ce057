"""Pods, and the templates that pods are made from."""

from __future__ import annotations

from mooring.sandbox.apiserver.defaults.containers import default_container, default_volume, round_up
from mooring.sandbox.apiserver.objects import Tree
from mooring.sandbox.apiserver.validation.resources import is_huge_pages
from mooring.sandbox.apiserver.validation.totals import aggregate_texts

_POD_LEVEL = ("cpu", "memory")


def default_pod_spec(spec: Tree) -> None:
    """Set the defaults that pods and templates share."""
    for name in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(name) or ():
            if "resources" not in container:  # ephemeral containers have none
                container["resources"] = {}
            default_container(container)
    for volume in spec.get("volumes", ()):
        default_volume(volume)
    if "overhead" in spec:
        round_up(spec, "overhead")
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:  # two names for one field; the newer one wins
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def default_pod(pod: Tree) -> None:
    spec = pod["spec"]
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for name in ("containers", "initContainers"):
        for container in spec.get(name) or ():
            resources = container["resources"]
            if "limits" in resources:  # requests default to limits
                resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    spec.setdefault("enableServiceLinks", True)
    status = pod.get("status")
    if status:
        default_pod_status(status)
    if spec.get("hostNetwork"):
        _host_ports(spec)
    if spec.get("resources"):
        _pod_level_resources(spec)


def default_pod_status(status: Tree) -> None:
    """Copy podIP to podIPs or back; the name that older kubelets use wins."""
    single, several = status.get("podIP"), status.get("podIPs")
    if single and (not several or several[0].get("ip") != single):
        status["podIPs"] = [{"ip": single}]
    elif several and not single and several[0].get("ip"):
        status["podIP"] = several[0]["ip"]


def _host_ports(spec: Tree) -> None:
    """Host ports equal container ports in the host network."""
    for name in ("containers", "initContainers"):
        for container in spec.get(name) or ():
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port.get("containerPort", 0))


def _pod_level_resources(spec: Tree) -> None:
    """Default the pod's requests from those of its containers, or else from its limits."""
    resources = spec["resources"]
    round_up(resources)
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    if not requests and not limits:
        return
    pages = {
        name: quantity
        for name, quantity in aggregate_texts(spec, "limits").items()
        if is_huge_pages(name) and name not in requests
    }
    limits = {**pages, **limits}
    if not limits:
        return
    resources["limits"] = limits
    summed = {
        name: quantity for name, quantity in aggregate_texts(spec, "requests").items() if name in _POD_LEVEL
    }
    fallback = {name: limit for name, limit in limits.items() if name in _POD_LEVEL or is_huge_pages(name)}
    resources["requests"] = {**fallback, **summed, **requests}


def default_pod_template(holder: Tree) -> None:
    """Set defaults of a PodTemplateSpec in the member `template`."""
    template = holder.get("template")
    if template is not None:
        default_pod_spec(template["spec"])
