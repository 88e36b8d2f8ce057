"""Programs in pods that serve, and the API server calling them by their Services."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mooring.api.kinds import PODS
from mooring.sandbox.cluster.applying import ManifestError
from mooring.sandbox.cluster.local_cluster import LocalCluster
from mooring.sandbox.kubelet import make_nodes
from mooring.serving.certificates import Certificates, make_certificates

Tree = dict[str, Any]
FOLDER = "/certificates"
REFUSED = "connect: connection refused"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
HOST = "hook.default.svc"


def named(kind: str, name: str, api_version: str = "v1", **fields: Any) -> Tree:
    namespaced = {} if api_version.startswith("admission") else {"namespace": "default"}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "labels": {"app": "hook"}, **namespaced},
        **fields,
    }


def deployed(made: Certificates) -> list[Tree]:
    """Return what a webhook needs to be called: its certificate, a pod, a Service and a configuration."""
    command = (
        "webhook",
        f"--tls-cert-file={FOLDER}/crt",
        f"--tls-private-key-file={FOLDER}/key",
        "--port=8444",
    )
    container = {
        "name": "hook",
        "image": "registry.k8s.io/e2e-test-images/agnhost:2.63.0",
        "args": command,
        "volumeMounts": [{"name": "pair", "mountPath": FOLDER}],
        "readinessProbe": {
            "httpGet": {"scheme": "HTTPS", "port": 8444, "path": "/readyz"},
            "periodSeconds": 1,
        },
    }
    volumes = [{"name": "pair", "secret": {"secretName": "pair"}}]
    webhook = {
        "name": "deny.example.com",
        "clientConfig": {
            "service": {"name": "hook", "namespace": "default", "path": "/configmaps", "port": 443},
            "caBundle": base64.b64encode(made.authority).decode(),
        },
        "rules": [RULE],
        "matchConditions": [{"name": "own", "expression": "object.metadata.name.startsWith('try')"}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    secret = {"crt": made.pair.certificate.decode(), "key": made.pair.key.decode()}
    spec = {"containers": [container], "volumes": volumes, "nodeName": "node-1"}
    ports = [{"port": 443, "targetPort": 8444}]
    return [
        named("Secret", "pair", stringData=secret),
        named("Pod", "hook", spec=spec),
        named("Service", "hook", spec={"selector": {"app": "hook"}, "ports": ports}),
        named(
            "ValidatingWebhookConfiguration", "hook", "admissionregistration.k8s.io/v1", webhooks=[webhook]
        ),
    ]


async def create(cluster: LocalCluster, value: str) -> str:
    """Create a ConfigMap, and return why it was rejected."""
    obj = named("ConfigMap", f"try-{value}", data={"webhook-e2e-test": value})
    try:
        await cluster.applier.apply(obj, "test")
    except ManifestError as error:
        return str(error)
    return ""


async def wait_for(cluster: LocalCluster, expected: Callable[[str], bool]) -> str:
    """Create an unwanted ConfigMap until the answer is the expected one."""
    async with asyncio.timeout(60):
        while not expected(why := await create(cluster, "webhook-disallow")):
            await asyncio.sleep(0.05)
    return why


def test_a_webhook_runs_as_long_as_its_pod(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = LocalCluster(data_dir=tmp_path, seed=0)
        await cluster.start()
        try:
            await cluster.nodes.register(make_nodes(1))
            await cluster.applier.apply_all(deployed(make_certificates(HOST)), "test")
            why = await wait_for(cluster, lambda why: REFUSED not in why)
            assert "the configmap contains unwanted key and value" in why
            assert await create(cluster, "other") == ""
            await cluster.server.cluster.delete(PODS, "hook", "default", grace_period_seconds=0)
            await wait_for(cluster, lambda why: REFUSED in why)
        finally:
            await cluster.stop()

    asyncio.run(main())
