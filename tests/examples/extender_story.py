"""The story of examples/extender, told by the commands of its page on whichever cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.live.replica import Replica, wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "extender"
LABEL = "priority.lixueduan.com"
NO_LABEL = f"all node do not have label {LABEL}"
NODES = ("scheduler-1", "scheduler-2")
Tree = dict[str, Any]


class Extender:
    """`mooring extender` as a process."""

    def __init__(self, folder: Path, kubeconfig: Path, *what: str) -> None:
        self._log = folder / "extender.log"
        command = [sys.executable, "-m", "mooring.cli", "extender", *what, "--port=0", "--v=2"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen([*command, f"--kubeconfig={kubeconfig}"], stdout=log, stderr=log)

    def __enter__(self) -> Extender:
        wait_for(lambda: "bind on" in self.log or self.process.poll() is not None, "the extender serves")
        return self

    def __exit__(self, *exception: object) -> None:
        self.process.terminate()
        code = self.process.wait(30)
        print(f"---- extender\n{self.log}")
        assert code == 0

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def url(self) -> str:
        return self.log.partition("bind on ")[2].partition("/bind")[0]


class Story:
    """A namespace of a cluster that has the two nodes, and somebody who runs pods and Deployments."""

    def __init__(
        self,
        folder: Path,
        kubeconfig: Path,
        kubectl: Callable[..., str],
        namespace: str = "default",
        kube_scheduler: Callable[[Path], AbstractContextManager[object]] | None = None,
    ) -> None:
        self.folder = folder
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self._kubectl = kubectl
        self._kube_scheduler = kube_scheduler
        self._restarted = 0

    def kubectl(self, *words: str) -> str:
        return self._kubectl(f"--namespace={self.namespace}", *words)

    def pods(self) -> list[Tree]:
        found: list[Tree] = json.loads(self.kubectl("get", "pods", "-l", "app=test", "-o", "json"))["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def event(self, reason: str) -> str:
        """Wait for an event about the pods; its message."""

        def look() -> list[Tree]:
            found = json.loads(self.kubectl("get", "events.v1.events.k8s.io", "-o", "json"))["items"]
            by_us = "i-scheduler-extender"
            return [e for e in found if e["reason"] == reason and e["reportingController"] == by_us]

        return str(wait_for(look, f"an event {reason}", every=0.3)[-1]["note"])

    def node(self) -> str:
        """Wait until one pod is left, and bound; where."""

        def look() -> str:
            pods = self.pods()
            return pods[0]["spec"].get("nodeName", "") if len(pods) == 1 else ""

        return wait_for(look, "the one pod is bound", every=0.2)

    def restart(self) -> str:
        """Restart the Deployment; where the new pod is."""
        (old,) = self.pods()
        wait_for(lambda: int(time.time()) > self._restarted, "kubectl lets it restart again", every=0.1)
        self.kubectl("rollout", "restart", "deploy", "test")
        self._restarted = int(time.time())  # kubectl notes the second, and refuses another restart in it
        wait_for(lambda: old["metadata"]["name"] not in str(self.pods()), "the old pod goes", every=0.2)
        return self.node()

    @contextmanager
    def scheduler(self, caller: str, extender: Extender, **changes: Any) -> Iterator[None]:
        """A scheduler with the example's configuration, and these changes to its extender."""
        config = yaml.safe_load((EXAMPLE / "scheduler.yaml").read_text())
        config["clientConnection"] = {"kubeconfig": str(self.kubeconfig)}
        config["extenders"][0] |= {"urlPrefix": extender.url, **changes}
        if caller == "mooring":
            with Replica(self.folder, config) as replica:
                yield
                assert replica.end() == 0
            return
        assert self._kube_scheduler is not None
        path = self.folder / "kube-scheduler.yaml"
        path.write_text(yaml.safe_dump(config))
        with self._kube_scheduler(path):
            yield

    def tell(self, caller: str, cached: bool = False) -> None:
        """All of it."""
        what = [str(EXAMPLE / "priority.py"), *(["--node-cache-capable"] if cached else [])]
        with Extender(self.folder, self.kubeconfig, *what) as extender:
            with self.scheduler(caller, extender, nodeCacheCapable=cached):
                self._pending_until_a_node_is_labelled()
                self._the_score_is_one_opinion_among_others()
            with self.scheduler(caller, extender, nodeCacheCapable=cached, filterVerb="filter_onlyone"):
                self._the_filter_decides()
            bound = [line for line in extender.log.splitlines() if 'verb="bind"' in line]
            assert len(bound) >= 4
            assert all(f'pod="{self.namespace}/test-' in line for line in bound)

    def _pending_until_a_node_is_labelled(self) -> None:
        self.kubectl("apply", "-f", str(EXAMPLE / "deploy" / "deploy-test.yaml"))
        assert self.event("FailedScheduling") == NO_LABEL
        (pod,) = self.pods()
        assert pod["status"]["phase"] == "Pending"
        self.kubectl("label", "node", "scheduler-1", f"{LABEL}=10")
        assert self.node() == "scheduler-1"
        assert self.event("Scheduled").startswith(f"Successfully assigned {self.namespace}/test-")

    def _the_score_is_one_opinion_among_others(self) -> None:
        """The second node has the higher priority, and a taint that weighs more with the other plugins."""
        self.kubectl("label", "node", "scheduler-2", f"{LABEL}=20")
        self.kubectl("taint", "node", "scheduler-2", "somewhat=busy:PreferNoSchedule")
        assert self.restart() == "scheduler-1"
        self.kubectl("taint", "node", "scheduler-2", "somewhat-")
        assert self.restart() == "scheduler-2"

    def _the_filter_decides(self) -> None:
        self.kubectl("taint", "node", "scheduler-2", "somewhat=busy:PreferNoSchedule")
        assert self.restart() == "scheduler-2"
        self.kubectl("label", "node", "scheduler-1", f"{LABEL}=30", "--overwrite")
        assert self.restart() == "scheduler-1"
