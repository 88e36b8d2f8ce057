"""How long requests of one client keep the API server from answering others.

A task of the server's event loop beats all the time. For each request the longest pause between two beats is
printed, in wall time and in CPU time of the loop's thread, next to the time until the request was answered.

    python -m benchmarks.stalls [GROUP ...]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mooring.cli.process import relax_collector
from mooring.sandbox.apiserver.server import EmbeddedServer

Tree = dict[str, Any]
JSON, MERGE = "application/json", "application/merge-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PODS, MAPS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


class Call(NamedTuple):
    name: str
    method: str
    path: str
    body: Any = None
    media: str = JSON
    accept: str = JSON
    expected: int = 200
    quiet: bool = False
    """Prepares the next one: not printed."""


def pod(name: str, containers: int, image: str = "app:1") -> Tree:
    env = [{"name": f"E{number}", "value": "x"} for number in range(5)]
    many = [
        {"name": f"c{number}", "image": image, "env": env, "ports": [{"containerPort": 1000 + number}]}
        for number in range(containers)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": many},
    }


def config_map(name: str, keys: int, size: int) -> Tree:
    data = {f"key-{number}": "x" * size for number in range(keys)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": data,
    }


def definition(plural: str, objects: int, properties: int) -> Tree:
    leaves = {f"p{number}": {"type": "string", "maxLength": 100} for number in range(properties)}
    spec = {f"o{number}": {"type": "object", "properties": leaves} for number in range(objects)}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def widget(name: str, objects: int, properties: int) -> Tree:
    spec = {f"o{a}": {f"p{b}": "x" for b in range(properties)} for a in range(objects)}
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widgets",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def role(name: str, rules: int) -> Tree:
    rule = {"apiGroups": [""], "verbs": ["get"]}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [{**rule, "resources": [f"r{number}"]} for number in range(rules)],
    }


def binding(name: str, role: str) -> Tree:
    subject = {"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }


def policy(name: str) -> Iterator[Call]:
    costly = "object.spec.containers.all(c, c.env.all(e, e.name.startsWith('E') && e.value.matches('^x+$')))"
    spec = {
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["pods"],
                }
            ]
        },
        "validations": [{"expression": costly}],
    }
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    kind = "ValidatingAdmissionPolicy"
    path = f"{POLICIES}/validatingadmissionpolicies"
    yield Call("", "POST", path, {**body, "kind": kind, "spec": spec}, expected=201, quiet=True)
    bound = {"policyName": name, "validationActions": ["Deny"]}
    tree = {**body, "kind": f"{kind}Binding", "spec": bound}
    yield Call("", "POST", f"{POLICIES}/validatingadmissionpolicybindings", tree, expected=201, quiet=True)


def pods() -> Iterator[Call]:
    big = pod("big", 900)
    yield Call("create a pod with 900 containers", "POST", PODS, big, expected=201)
    path = f"{PODS}/big"
    yield Call("replace it", "PUT", path, pod("big", 900, "app:2"))
    yield Call("apply it", "PATCH", f"{path}?fieldManager=a&force=true", pod("big", 900, "app:3"), APPLY)
    yield Call(
        "apply it again", "PATCH", f"{path}?fieldManager=a&force=true", pod("big", 900, "app:4"), APPLY
    )
    yield Call("patch one label of it", "PATCH", path, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    images = [{"name": f"c{number}", "image": "app:5"} for number in range(900)]
    yield Call("patch all images of it", "PATCH", path, {"spec": {"containers": images}}, STRATEGIC)
    operations = [
        {"op": "add", "path": "/metadata/labels", "value": {"a": str(number)}} for number in range(10_000)
    ]
    yield Call("patch it with 10,000 operations", "PATCH", path, operations, JSON_PATCH)
    yield Call(
        "evaluate an apply of it", "PATCH", f"{path}?fieldManager=b&dryRun=All", big, APPLY, expected=409
    )
    yield Call("read it as a table", "GET", path, accept=TABLE)
    yield from policy("costly")
    yield Call("replace it under a policy", "PUT", path, pod("big", 900, "app:6"))
    yield Call("delete it", "DELETE", f"{path}?gracePeriodSeconds=0")
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": big["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    yield Call("create a deployment of it", "POST", deployments, body, expected=201)
    scale = {"spec": {"replicas": 3}}
    yield Call("scale the deployment", "PATCH", f"{deployments}/d/scale", scale, MERGE)


def maps() -> Iterator[Call]:
    yield Call(
        "create a config map with 25,000 keys", "POST", MAPS, config_map("m", 25_000, 20), expected=201
    )
    yield Call("apply it", "PATCH", f"{MAPS}/m?fieldManager=a&force=true", config_map("m", 25_000, 21), APPLY)
    yield Call("patch one label of it", "PATCH", f"{MAPS}/m", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    yield Call("delete it", "DELETE", f"{MAPS}/m")


def definitions() -> Iterator[Call]:
    yield Call(
        "create a definition with 1,200 x 50 properties",
        "POST",
        CRDS,
        definition("widgets", 1200, 50),
        expected=201,
    )
    yield Call("read /openapi/v2", "GET", "/openapi/v2")
    yield Call("create an object of 1,000 x 50 values", "POST", WIDGETS, widget("w", 1000, 50), expected=201)
    yield Call("apply it", "PATCH", f"{WIDGETS}/w?fieldManager=a&force=true", widget("w", 1000, 49), APPLY)
    yield Call("replace it", "PUT", f"{WIDGETS}/w", {**widget("w", 999, 50)}, expected=422)
    yield Call(
        "label the definition",
        "PATCH",
        f"{CRDS}/widgets.example.com",
        {"metadata": {"labels": {"a": "b"}}},
        MERGE,
    )
    for number in range(100):
        yield Call("", "POST", WIDGETS, widget(f"x{number}", 200, 20), expected=201, quiet=True)
    yield Call(
        "change a definition with 101 large objects",
        "PATCH",
        f"{CRDS}/widgets.example.com",
        {"spec": {"names": {"shortNames": ["wi"]}}},
        MERGE,
    )
    yield Call("delete a definition with 101 large objects", "DELETE", f"{CRDS}/widgets.example.com")


def many() -> Iterator[Call]:
    for number in range(5_000):
        yield Call("", "POST", PODS, pod(f"p{number}", 1), expected=201, quiet=True)
    yield Call("list 5,000 pods", "GET", "/api/v1/pods")
    yield Call("list 5,000 pods by label", "GET", "/api/v1/pods?labelSelector=a%3Db")
    yield Call("list 5,000 pods as a table", "GET", "/api/v1/pods", accept=TABLE)
    yield Call(
        "list 5,000 pods as protobuf", "GET", "/api/v1/pods", accept="application/vnd.kubernetes.protobuf"
    )
    yield Call("watch 5,000 pods for a second", "GET", "/api/v1/pods?watch=1&timeoutSeconds=1")
    yield Call(
        "list 5,000 pods as metadata",
        "GET",
        "/api/v1/pods",
        accept="application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    )
    yield Call("list 5,000 pods by one page of 10", "GET", "/api/v1/pods?limit=10")
    yield Call("delete 5,000 pods", "DELETE", f"{PODS}?gracePeriodSeconds=0")


def access() -> Iterator[Call]:
    yield Call(
        "create a role with 10,000 rules", "POST", f"{RBAC}/clusterroles", role("big", 10_000), expected=201
    )
    for number in range(500):
        yield Call(
            "", "POST", f"{RBAC}/clusterrolebindings", binding(f"b{number}", "big"), expected=201, quiet=True
        )
    review = {"resourceAttributes": {"resource": "secrets", "verb": "get"}, "user": "eve"}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    yield Call("review access with 500 bindings of it", "POST", path, {**kind, "spec": review}, expected=201)
    yield Call("label it", "PATCH", f"{RBAC}/clusterroles/big", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    yield Call("review access after a change", "POST", path, {**kind, "spec": review}, expected=201)
    yield Call("delete it", "DELETE", f"{RBAC}/clusterroles/big")


GROUPS: dict[str, Callable[[], Iterator[Call]]] = {
    "pods": pods,
    "maps": maps,
    "definitions": definitions,
    "many": many,
    "access": access,
}


class Heart:
    """Beats on a loop; remembers the longest pause."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0
        self.beats = 0

    def reset(self) -> None:
        self.wall = self.cpu = 0.0
        self.beats = 0

    async def beat(self) -> None:
        wall, cpu = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(0.001)
            now, used = time.perf_counter(), time.thread_time()
            self.wall, self.cpu = max(self.wall, now - wall), max(self.cpu, used - cpu)
            self.beats += 1
            wall, cpu = now, used


class Client:
    """One connection, used from a thread."""

    def __init__(self, server: EmbeddedServer) -> None:
        context = ssl.create_default_context(cadata=server.authority.decode())
        host, _, port = server.url.removeprefix("https://").rpartition(":")
        self._connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=120)
        self._token = server.token

    def send(self, call: Call, body: bytes | None) -> int:
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": call.media,
            "Accept": call.accept,
        }
        self._connection.request(call.method, call.path, body, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != call.expected:
            print(f"{call.method} {call.path}: {answer.status} {text[:300]!r}")
        return len(text)


async def run(names: list[str]) -> None:
    relax_collector()
    print(f"{'request':50} {'kB':>6} {'answer':>8} {'stall':>8} {'on CPU':>8}")
    for name in names or GROUPS:
        async with EmbeddedServer() as server:
            heart = Heart()
            beating = asyncio.create_task(heart.beat())
            client = Client(server)
            for call in GROUPS[name]():
                body = None if call.body is None else json.dumps(call.body, separators=(",", ":")).encode()
                if not call.quiet:
                    gc.collect()
                    await asyncio.sleep(0.05)
                heart.reset()
                began = time.perf_counter()
                await asyncio.to_thread(client.send, call, body)
                took = time.perf_counter() - began
                await asyncio.sleep(0.005)
                if not call.quiet:
                    size = len(body or b"") // 1000
                    figures = " ".join(f"{1000 * value:8.1f}" for value in (took, heart.wall, heart.cpu))
                    print(f"{call.name:50} {size:6} {figures}", flush=True)
            beating.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    known = ", ".join(GROUPS)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of requests: {known} (default: all)")
    groups: list[str] = parser.parse_args().groups
    if unknown := sorted({*groups} - {*GROUPS}):
        parser.error(f"unknown group {unknown[0]}, expected one of: {known}")
    asyncio.run(run(groups))


if __name__ == "__main__":
    main()
