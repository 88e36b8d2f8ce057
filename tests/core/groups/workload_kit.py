"""Workloads whose groups start together."""

from __future__ import annotations

from typing import Any

from tests.core.groups.group_kit import pod_group


def workload(*templates: tuple[str, int | None], together: bool = True) -> dict[str, Any]:
    annotations = {"mooring/all-or-nothing": "workload"} if together else {}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "Workload",
        "metadata": {"name": "train", "namespace": "default", "annotations": annotations},
        "spec": {
            "podGroupTemplates": [
                {"name": name, "schedulingPolicy": pod_group(name, count)["spec"]["schedulingPolicy"]}
                for name, count in templates
            ]
        },
    }


def group(name: str, count: int | None, **spec: Any) -> dict[str, Any]:
    reference = {"workload": {"workloadName": "train", "podGroupTemplateName": name}}
    return pod_group(name, count, podGroupTemplateRef=reference, **spec)


def train(
    workers: int = 8, together: bool = True, driver: int | None = 1, **spec: Any
) -> list[dict[str, Any]]:
    """The Workload, and its groups without their pods."""
    templates = ("driver", driver), ("workers", workers)
    return [
        workload(*templates, together=together),
        *(group(name, count, **spec) for name, count in templates),
    ]
