"""Make data/tables.json and data/kubectl.json anew, with a real API server and kubectl:

KUBEBUILDER_ASSETS=… python -m tests.sandbox.apiserver.record_tables
"""

from __future__ import annotations

import json
import ssl
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from tests.live.control_plane import ControlPlane, assets
from tests.sandbox.apiserver.kubectl import Kubectl
from tests.sandbox.apiserver.scene import DATA, NAMESPACE, Tree, shown, without_ages

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
ALSO = ("events.k8s.io/v1/events", "autoscaling/v1/horizontalpodautoscalers")
COMMANDS = """
get pods
get pods -o wide
get pods -A
get pods --show-labels
get pods -L app,tier
get pods -o name
get pods --no-headers
get pods -l app=web
get pods --field-selector=status.phase=Failed
get pods --sort-by=.metadata.name
get pods --sort-by=.status.phase
get pods -o custom-columns=N:.metadata.name,P:.status.phase,IP:.status.podIP
get pods -o jsonpath={.items[*].metadata.name}
get pod running
get pod running pending
get pods,services
get all
get nodes
get nodes -o wide
get nodes --show-labels
get namespaces
get services -o wide
get deployments,replicasets,statefulsets,daemonsets,jobs,cronjobs -o wide
get rc -o wide
get pdb,hpa
get deployment web --subresource=scale
get deployment web --subresource=status
get pv -o wide
get pvc -o wide
get sc,csidrivers,csinodes,volumeattachments,csistoragecapacities
get leases
get pc
get quota,limits
get cm,secrets,sa
get roles,rolebindings -o wide
get ev
get events -o wide
get events.events.k8s.io
get ep,endpointslices
get ing,netpol,ingressclasses
get resourceclaims,resourceclaimtemplates,deviceclasses,resourceslices
get crd
get podtemplates
get controllerrevisions
get pods nothing
get nothing
describe pod running
describe pod gated
describe pod crashing
describe node ready
describe deployment web
describe service cluster
describe pvc bound
describe pv pv
describe job done
describe pdb some
describe quota quota
describe pc high
describe namespace stage
get sh
get ships -o wide
get ships.v2.example.com
get harbour
describe configmap config
explain pod
explain pod.spec.affinity --recursive
explain pod.metadata.managedFields
explain pods.spec.nodeSelector
explain pvc.spec.resources
explain service --recursive
explain ev --recursive
explain cm.data
explain pod --output=plaintext-openapiv2
explain dock --recursive
explain dock.spec
explain dock --output=plaintext-openapiv2
explain pod.spec.nothing
explain nothing
"""
FORGOTTEN = ("managedFields", "uid", "resourceVersion", "generation")


class Recorder:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._tls = ssl._create_unverified_context()

    def ask(self, method: str, path: str, body: Tree | None = None, accept: str = "application/json") -> Any:
        headers = {
            "Authorization": f"Bearer {self._plane.token}",
            "Accept": accept,
            "Content-Type": "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._plane.server + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{method} {path}: {error.read().decode()}") from None

    def path(self, resource: str) -> str:
        """Where the objects of a resource of the scene are."""
        root = "/api/v1" if "/" not in resource else "/apis/" + resource.rpartition("/")[0]
        plural = resource.rpartition("/")[2]
        served = {one["name"]: one for one in self._resources(root)}
        if served[plural]["namespaced"]:
            return f"{root}/namespaces/{NAMESPACE}/{plural}"
        return f"{root}/{plural}"

    def _resources(self, root: str) -> list[Tree]:
        """What is served under a group and version; a custom resource is not served at once."""
        for _ in range(100):
            try:
                found: list[Tree] = json.loads(self._plane.request("GET", root))["resources"]
                return found
            except urllib.error.HTTPError:
                time.sleep(0.1)
        raise SystemExit(f"{root} is not served")

    def write(self, resource: str, objects: list[Tree]) -> None:
        path, custom = self.path(resource), resource.startswith("example.com")
        for obj in objects:
            status, delete = obj.pop("status", None), obj.pop("delete", False)
            if custom:  # of these the API server asks what they are
                obj["apiVersion"] = resource.rpartition("/")[0]
                obj["kind"] = {"ships": "Ship", "docks": "Dock"}[resource.rpartition("/")[2]]
            if status and resource.endswith("/ships"):
                obj["status"] = status  # they have no subresource
            made = self.ask("POST", path, obj)
            one = f"{path}/{obj['metadata']['name']}"
            if status and "status" not in obj:
                merged = {**(made.get("status") or {}), **status}
                self.ask("PUT", f"{one}/status", {**made, "status": merged})
            if delete:
                self.ask("DELETE", one)

    def forget_events(self, but: set[str]) -> None:
        """Remove the events of the server itself."""
        path = self.path("events")
        for event in self.ask("GET", path)["items"]:
            if event["metadata"]["name"] not in but:
                self.ask("DELETE", f"{path}/{event['metadata']['name']}")

    def table(self, resource: str, names: set[str]) -> Tree:
        table = self.ask("GET", self.path(resource) + "?includeObject=Object", accept=TABLE)
        columns = [[c["name"], c["type"], c["format"], c["priority"]] for c in table["columnDefinitions"]]
        rows = [
            [[without_ages(cell) for cell in row["cells"]], remembered(row["object"])]
            for row in table["rows"]
            if row["object"]["metadata"]["name"] in names
        ]
        return {"columns": columns, "rows": rows}


def remembered(obj: Tree) -> Tree:
    """An object without what is of no interest, or another one in every recording."""
    obj["metadata"] = {name: value for name, value in obj["metadata"].items() if name not in FORGOTTEN}
    return obj


def main() -> None:
    binaries = assets()
    if binaries is None:
        raise SystemExit("set KUBEBUILDER_ASSETS to a directory with etcd and kube-apiserver")
    scene: list[dict[str, list[Tree]]] = yaml.safe_load((DATA / "scene.yaml").read_text())
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(binaries, Path(folder))
        try:
            plane.start()
            recorder = Recorder(plane)
            names: dict[str, set[str]] = {}
            for entry in scene:
                for resource, objects in entry.items():
                    names[resource] = {obj["metadata"]["name"] for obj in objects}
                    recorder.write(resource, objects)
            everything = {name for found in names.values() for name in found}
            tables = {
                resource: recorder.table(resource, names.get(resource) or everything)
                for resource in (*names, *ALSO)
            }
            write_tables(tables)
            recorder.forget_events(names["events"])
            write_commands(Kubectl(plane.kubeconfig(), Path(folder)))
        finally:
            plane.stop()


def write_tables(tables: dict[str, Tree]) -> None:
    """One line per object, so that differences can be read."""
    parts = []
    for path, table in tables.items():
        rows = ",\n".join(json.dumps(row) for row in table["rows"])
        parts.append(f'{json.dumps(path)}: {{"columns": {json.dumps(table["columns"])}, "rows": [\n{rows}]}}')
    (DATA / "tables.json").write_text("{" + ",\n".join(parts) + "}\n")


def write_commands(kubectl: Kubectl) -> None:
    found = {
        command: shown(kubectl("-n", NAMESPACE, *command.split(), code=None))
        for command in COMMANDS.strip().splitlines()
    }
    data = {"version": kubectl.version, "shown": found}
    (DATA / "kubectl.json").write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
