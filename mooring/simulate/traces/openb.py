"""Alibaba openb (cluster-trace-gpu-v2023): nodes with shared GPUs, and the pods that asked for them.

GPUs are counted in thousandths, as the extended resource `alibabacloud.com/gpu-milli`: a pod that requests
fewer than 1000 shares one device, others take whole ones. Allowed models become node affinity.
"""

from __future__ import annotations

from pathlib import Path

from mooring.api.objects import Node
from mooring.simulate.arrivals import FOREVER, Arrivals, Template
from mooring.simulate.traces.pods import ArrivalRows, make_node, make_pod
from mooring.simulate.traces.registry import TraceError, importer, number, rows

GPU_MILLI = "alibabacloud.com/gpu-milli"
GPU_COUNT = "alibabacloud.com/gpu-count"
GPU_MODEL = "alibabacloud.com/gpu-card-model"
PODS_PER_NODE = 1001


@importer("openb-nodes")
def read_nodes(path: Path) -> list[Node]:
    """Columns sn, cpu_milli, memory_mib, gpu, model."""
    nodes = []
    for line, row in rows(path, "sn", "cpu_milli", "memory_mib", "gpu", "model"):
        gpus = int(number(path, line, row, "gpu"))
        resources: dict[str, int | str] = {
            "cpu": f"{int(number(path, line, row, 'cpu_milli'))}m",
            "memory": f"{int(number(path, line, row, 'memory_mib'))}Mi",
        }
        if gpus:
            resources |= {GPU_COUNT: gpus, GPU_MILLI: 1000 * gpus}
        labels = {GPU_MODEL: row["model"]} if row["model"] else {}
        nodes.append(make_node(row["sn"], resources, labels, PODS_PER_NODE))
    if not nodes:
        raise TraceError(
            path,
            "no nodes in the file",
            hint="each line after the header is a node: sn, cpu_milli, memory_mib, gpu, model",
        )
    return nodes


@importer("openb-pods")
def read_pods(path: Path) -> Arrivals:
    """Columns name, cpu_milli, memory_mib, num_gpu, gpu_milli and, where they are there, gpu_spec,
    creation_time, scheduled_time and deletion_time in seconds."""
    pods = ArrivalRows()
    for line, row in rows(path, "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"):
        cpu, memory = (int(number(path, line, row, name)) for name in ("cpu_milli", "memory_mib"))
        count = int(number(path, line, row, "num_gpu"))
        milli = count * min(int(number(path, line, row, "gpu_milli")), 1000)
        models = tuple(model for model in row.get("gpu_spec", "").split("|") if model)
        key = (cpu, memory, milli, models)
        template = pods.template(key)
        if template is None:
            requests: dict[str, int | str] = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", GPU_MILLI: milli}
            node_labels = {GPU_MODEL: models} if models else None
            template = pods.add_template(key, Template(make_pod(requests, node_labels=node_labels)))
        created, run_time = 0.0, FOREVER
        if "creation_time" in row:
            created = number(path, line, row, "creation_time", 0.0)
            begun = number(path, line, row, "scheduled_time", created)
            ended = number(path, line, row, "deletion_time", FOREVER)
            run_time = max(ended - begun, 0.0)
        pods.add(row["name"], created, template, run_time)
    if not len(pods):
        raise TraceError(path, "no pods in the file")
    return pods.arrivals()
