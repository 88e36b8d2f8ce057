"""Records what the real kube-controller-manager does in the scenes of autoscalers.

    python -m tests.sandbox.controllers.record_autoscaling

Needs KUBEBUILDER_ASSETS with etcd, kube-apiserver and kube-controller-manager, kubectl, and five minutes. The
metrics API is a server in this process, behind an APIService; it also marks the pods as running.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.live.control_plane import HOW_TO_GET, ControlPlane, assets, free_port
from tests.sandbox.controllers.autoscaling_scenes import (
    PERIOD,
    SAMPLED_AT,
    SAMPLES,
    SCENES,
    manifests,
    sample,
)

DATA = Path(__file__).parent / "data" / "autoscaling.json"
GROUP = "/apis/metrics.k8s.io/v1beta1"
RESOURCE = {"name": "pods", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}


class Recorder:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.pods: dict[str, list[str]] = {}
        self.started = time.monotonic()

    def kubectl(self, *arguments: str, body: Any = None) -> Any:
        command = ["kubectl", f"--kubeconfig={self._plane.kubeconfig()}", *arguments]
        text = "" if body is None else json.dumps(body)
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        return json.loads(done.stdout) if "json" in arguments else None

    @property
    def second(self) -> float:
        return time.monotonic() - self.started

    def usage(self, app: str) -> list[tuple[str, int]]:
        """Return the bytes of each running pod."""
        pods, load = self.pods.get(app, []), SCENES[app].load(self.second) * 1024 * 1024
        return [(pod, load // len(pods)) for pod in pods]

    def run_pods(self) -> None:
        """Be the kubelets: pods run as soon as they are seen."""
        listed = self.kubectl("get", "pods", "-o", "json")["items"]
        running: dict[str, list[str]] = {}
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        for pod in listed:
            name = pod["metadata"]["name"]
            if "deletionTimestamp" in pod["metadata"]:
                self.kubectl("delete", "pod", name, "--force", "--grace-period=0")
                continue
            if pod["status"]["phase"] == "Pending":
                ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
                status = {"status": {"phase": "Running", "startTime": now, "conditions": [ready]}}
                self.kubectl("patch", "pod", name, "--subresource=status", "-p", json.dumps(status))
            running.setdefault(pod["metadata"]["labels"]["app"], []).append(name)
        self.pods = running

    def record(self) -> dict[str, list[Any]]:
        for name, scene in SCENES.items():
            self.kubectl("apply", "-f", "-", body=manifests(name, scene)[0])
        for _ in range(5):
            self.run_pods()
            time.sleep(1)
        autoscalers = [manifests(name, scene)[1] for name, scene in SCENES.items()]
        self.started = time.monotonic()
        self.kubectl("apply", "-f", "-", body={"apiVersion": "v1", "kind": "List", "items": autoscalers})
        samples: dict[str, list[Any]] = {name: [] for name in SCENES}
        for number in range(1, SAMPLES + 1):
            while self.second < number * PERIOD + SAMPLED_AT:
                self.run_pods()
                time.sleep(0.5)
            items = self.kubectl("get", "deployments,hpa", "-o", "json")["items"]
            found = {(each["kind"], each["metadata"]["name"]): each for each in items}
            for name, seen in samples.items():
                kinds = ("Deployment", "HorizontalPodAutoscaler")
                seen.append(sample(*(found[kind, name] for kind in kinds)))
        return samples


def serve_metrics(recorder: Recorder, plane: ControlPlane) -> int:
    """Serve metrics.k8s.io; return the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            selectors = parse_qs(url.query).get("labelSelector")
            if url.path != GROUP and selectors is None:  # OpenAPI and the like
                self.send_error(404)
                return
            if selectors is None:
                tree: Any = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP[6:]}
                tree["resources"] = [RESOURCE]
            else:
                now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                app = selectors[0].partition("=")[2]
                items = [
                    {
                        "metadata": {"name": pod, "namespace": "default"},
                        "timestamp": now,
                        "window": "15s",
                        "containers": [{"name": "main", "usage": {"cpu": "0", "memory": str(size)}}],
                    }
                    for pod, size in recorder.usage(app)
                ]
                tree = {"kind": "PodMetricsList", "apiVersion": GROUP[6:], "items": items}
            body = json.dumps(tree).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    port = free_port()
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates = plane.folder / "certs"  # any will do: the APIService does not verify it
    context.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return port


def main() -> None:
    binaries = assets()
    if binaries is None:
        raise SystemExit(HOW_TO_GET)
    with tempfile.TemporaryDirectory() as folder:
        plane = ControlPlane(binaries, Path(folder))
        try:
            plane.start()
            recorder = Recorder(plane)
            port = serve_metrics(recorder, plane)
            service = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
            reached = {"name": "metrics", "namespace": "default", "port": port}
            spec = {
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "service": reached,
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            }
            for kind, version, name, fields in (
                ("Service", "v1", "metrics", service),
                ("APIService", "apiregistration.k8s.io/v1", "v1beta1.metrics.k8s.io", spec),
            ):
                tree = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": fields}
                recorder.kubectl("apply", "-f", "-", body=tree)
            plane.start_controller_manager(
                "deployment-controller", "replicaset-controller", "horizontal-pod-autoscaler-controller"
            )
            samples = recorder.record()
        finally:
            plane.stop()
    DATA.write_text(json.dumps(samples, indent=1) + "\n")


if __name__ == "__main__":
    main()
