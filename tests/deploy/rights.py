"""The scheduler of deploy/ at work with the rights of its account: how it is run, and what it has to do."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.manifests import DEPLOY, render

SECOND = DEPLOY / "overlays" / "second-scheduler"
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "rights"},
    "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}},
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "rights", "namespace": "default"},
    "spec": {
        "schedulerName": "mooring",
        "containers": [{"name": "pause", "image": "pause"}],
        "tolerations": [{"operator": "Exists"}],  # nobody says that the node is ready
    },
}


def scheduler_command(kubeconfig: Path, folder: Path) -> list[str]:
    """With the arguments of the Deployment and its configuration, which is written to a folder."""
    manifests = render(SECOND)
    config = yaml.safe_load(manifests.mounted("/etc/mooring")["scheduler.yaml"])
    config["clientConnection"] = {"kubeconfig": str(kubeconfig)}
    (folder / "scheduler.yaml").write_text(yaml.safe_dump(config))
    flags = [
        flag.replace("/etc/mooring", str(folder)).replace("$(POD_NAMESPACE)", "mooring")
        for flag in manifests.container()["args"]
    ]
    return [sys.executable, "-m", "mooring.cli", *flags, "--secure-port=0"]
