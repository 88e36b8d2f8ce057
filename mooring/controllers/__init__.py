"""The controllers that a cluster needs for its workloads: kube-controller-manager's, on one event loop."""

from __future__ import annotations

from mooring.cluster.controller import Context, Controller
from mooring.controllers.deployment import DeploymentController
from mooring.controllers.replica_set import ReplicaSetController, ReplicationControllerController


def controllers(context: Context) -> list[Controller]:
    """One of each."""
    return [
        DeploymentController(context),
        ReplicaSetController(context),
        ReplicationControllerController(context),
    ]
