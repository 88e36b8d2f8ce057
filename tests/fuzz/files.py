"""Targets: files that a user gives to a command."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import click
import yaml

from mooring.api.errors import ObjectError
from mooring.api.printable import printable
from mooring.cli.manifests import apply_all, read_manifests
from mooring.config import ConfigError, LoadedConfig, default_config, loads
from mooring.core.memory import MemoryCluster
from mooring.core.scheduler import Scheduler
from mooring.sandbox.controllers import first_pods
from mooring.simulate import processes, sources
from mooring.simulate.plan import compile_plan
from mooring.simulate.scenario import load_scenario
from mooring.simulate.traces import TraceError, read_trace, registry
from mooring.testing import VirtualClock
from tests.fuzz.mutation import mutate_json, mutate_text
from tests.fuzz.target import target

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDER = Path(mkdtemp(prefix="mooring-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))

_BOUNDS = (
    (first_pods, "MOST_PODS", 500),
    (registry, "MOST_PODS_OF_A_JOB", 500),
    (sources, "MOST_NODES", 100),
    (sources, "MOST_ARRIVALS", 1000),
    (processes, "MOST_ARRIVALS", 1000),
)

_FIELDS = (
    "apiVersion", "kind", "metadata", "name", "namespace", "labels", "spec", "status", "items", "containers",
    "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "maxSkew", "topologyKey",
    "whenUnsatisfiable", "priority", "priorityClassName", "resources", "requests", "limits", "replicas",
    "template", "volumes", "persistentVolumeClaim", "claimName", "schedulingGates", "overhead", "ports",
    "hostPort", "matchLabels", "matchExpressions", "operator", "values", "key", "effect", "NoSchedule",
    "&a ", "*a", "- ", "? ", "|", ">", "!!binary ", "!!int ", "---\n", "...\n", "\t", "#", "{", "}", "[", "]",
    "<<: *a", "%YAML 1.1\n", "Pod", "Node", "Deployment", "List", "v1",
)  # fmt: skip

_TERM = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
_EXPRESSION = {"key": "zone", "operator": "In", "values": ["a", "b"]}
_POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"app": "a"}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "i:1",
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"example.com/x": "1"}},
                "ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "1.2.3.4"}],
            }
        ],
        "initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always"}],
        "overhead": {"cpu": "10m"},
        "nodeSelector": {"zone": "a"},
        "priority": 5,
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                _EXPRESSION,
                                {"key": "n", "operator": "Gt", "values": ["3"]},
                            ],
                            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["x"]}],
                        }
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 100, "preference": {"matchExpressions": [_EXPRESSION]}}
                ],
            },
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]},
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "podAffinityTerm": _TERM}]
            },
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                "minDomains": 2,
                "nodeTaintsPolicy": "Honor",
            },
            {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"},
        ],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    },
}
_PLAIN = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "q", "labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "nodeName": "n"},
}
_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n", "labels": {"zone": "a", "n": "5", "kubernetes.io/hostname": "n"}},
    "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}], "unschedulable": False},
    "status": {
        "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", "example.com/x": "2"},
        "images": [{"names": ["i:1"], "sizeBytes": 100000000}],
    },
}
_OTHERS = [
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"},
        "spec": {
            "volumeName": "pv",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv"},
        "spec": {
            "capacity": {"storage": "2Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"name": "c", "namespace": "default"},
            "csi": {"driver": "d", "volumeHandle": "h"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [_EXPRESSION]}]}},
        },
    },
]
_DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}},
    },
}
_OPEN_NODE = {**_NODE, "metadata": {"name": "o", "labels": {"zone": "c"}}, "spec": {}}
_CLUSTER: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [_NODE, {**_NODE, "metadata": {"name": "m", "labels": {"zone": "b"}}}, _PLAIN, _POD, *_OTHERS],
}
_MANIFESTS = [
    json.dumps(_CLUSTER),
    json.dumps({"kind": "List", "items": [_NODE, _OPEN_NODE, _DEPLOYMENT]}),
    yaml.safe_dump_all([_NODE, _OPEN_NODE, _DEPLOYMENT, _POD]),
    "a: &a [1]\nb: *a\nc: {<<: {d: 1}}\n",
    *(
        (EXAMPLES / name).read_text()
        for name in ("quickstart/cluster.yaml", "tour/workload.yaml")
        if (EXAMPLES / name).exists()
    ),
]


@contextmanager
def _small() -> Iterator[None]:
    """Lower the bounds of the package: what they allow takes its time, which is no bug."""
    usual = [getattr(module, name) for module, name, _ in _BOUNDS]
    for module, name, bound in _BOUNDS:
        setattr(module, name, bound)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        for (module, name, _), bound in zip(_BOUNDS, usual, strict=True):
            setattr(module, name, bound)


def _write(name: str, data: bytes) -> Path:
    path = FOLDER / name
    path.write_bytes(data)
    return path


@target("manifests", mutate_json, _MANIFESTS, _FIELDS, (click.UsageError,))
def load_manifests(data: bytes) -> object:
    """Read manifests as `mooring schedule -f` does."""
    with _small():
        objects, problems = read_manifests([str(_write("manifest.yaml", data))])
    for problem in problems:
        printable(problem).encode()
    return [f"{len(objects)} objects", *(problem.partition(": ")[2] for problem in problems)]


_CONFIG = LoadedConfig(default_config())


@target("scheduling", mutate_json, _MANIFESTS[:3], _FIELDS, (click.UsageError, ObjectError))
def schedule_manifests(data: bytes) -> object:
    """Schedule the pods of a manifest."""
    with _small():
        objects, _ = read_manifests([str(_write("cluster.yaml", data))])
    if len(objects) > 200:
        return "large"
    clock = VirtualClock()
    scheduler = Scheduler(_CONFIG, clock=clock, pick=random.Random(0).randrange, record=True)
    cluster = MemoryCluster(scheduler)
    problems = apply_all(cluster, objects)
    decisions: list[str] = []
    cluster.run(lambda decision: decisions.append(decision.message or decision.result))
    return [f"{len(problems)} problems", *sorted(set(decisions))]


_CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "parallelism": 8,
    "podInitialBackoffSeconds": 1,
    "leaderElection": {"leaderElect": True, "leaseDuration": "15s"},
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {
                "multiPoint": {
                    "enabled": [{"name": "NodeResourcesFit", "weight": 2}],
                    "disabled": [{"name": "*"}],
                },
                "score": {"enabled": [{"name": "ImageLocality", "weight": 3}]},
            },
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "RequestedToCapacityRatio",
                            "resources": [{"name": "cpu", "weight": 1}],
                            "requestedToCapacityRatio": {
                                "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
                            },
                        }
                    },
                },
                {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 5}},
                {
                    "name": "PodTopologySpread",
                    "args": {
                        "defaultConstraints": [
                            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
                        ],
                        "defaultingType": "List",
                    },
                },
            ],
        }
    ],
    "extenders": [
        {
            "urlPrefix": "http://127.0.0.1:80/a",
            "filterVerb": "filter",
            "weight": 1,
            "httpTimeout": "5s",
            "managedResources": [{"name": "example.com/x", "ignoredByScheduler": True}],
        }
    ],
}


@target(
    "configuration",
    mutate_json,
    [json.dumps(_CONFIGURATION), yaml.safe_dump(_CONFIGURATION)],
    [
        *_FIELDS,
        "profiles",
        "pluginConfig",
        "args",
        "enabled",
        "disabled",
        "weight",
        "extenders",
        "*",
        "1h",
        "v1beta3",
    ],
    (ConfigError,),
)
def load_configuration(data: bytes) -> object:
    loaded = loads(data.decode(errors="replace"))
    return loaded.warnings, len(loaded.config.profiles)


# ---- mooring simulate -----------------------------------------------------------------------------

_SCENARIO = {
    "apiVersion": "mooring/v1alpha1",
    "kind": "Simulation",
    "metadata": {"name": "s"},
    "spec": {
        "seeds": "1..3",
        "until": "1h",
        "unschedulable": "retry",
        "schedulerRate": "100/s",
        "cluster": [{"generate": {"template": "node.yaml", "count": 2, "labels": {"zone": ["a", "b"]}}}],
        "workload": [
            {"generate": {"template": "pod.yaml", "arrivals": {"poisson": "2/s"}, "for": "10s",
            "runTime": "10s"}},
            {"generate": {"template": "pod.yaml", "arrivals": {"burst": {"count": 3}},
            "runTime": {"exponential": "1m"}}},
            {"generate": {"template": "pod.yaml", "arrivals": {"every": "1s"}, "count": 3,
                          "runTime": {"lognormal": {"median": "1m", "p95": "1h"}}}},
        ],
        "events": [{"at": "10s", "nodes": {"fail": {"count": 1, "for": "5s"}}}],
        "prices": {"cpu": 0.03},
        "policies": [{"name": "default"}],
        "report": {"loadAxis": "cpu"},
        "expect": [{"metric": "pods.bound", "within": [0, 10]}],
    },
}  # fmt: skip
_write("node.yaml", json.dumps(_NODE).encode())
_write("pod.yaml", json.dumps(_PLAIN).encode())


@target(
    "scenarios",
    mutate_json,
    [json.dumps(_SCENARIO), yaml.safe_dump(_SCENARIO)],
    [*_FIELDS, "poisson", "burst", "uniform", "weibull", "1/s", "10s", "1..3", "drained", "node.yaml",
    "pod.yaml",
     "generate", "arrivals", "runTime", "startDelay", "for", "from", "count", "trace", "at", "nodes",
     "remove"],
    (ConfigError,),
)  # fmt: skip
def load_simulation(data: bytes) -> object:
    with _small():
        plan = compile_plan(load_scenario(_write("scenario.yaml", data)))
    return len(plan.policies), len(plan.seeds), len(plan.workload)


_TRACES = {
    "swf": "; made up\n1 0 5 100 3 -1 -1 4 -1 -1 1 7 1 -1 1 -1 -1 -1\n"
    "2 9 1 5 2 -1 -1 2 -1 -1 0 8 1 -1 1 -1 -1 -1\n",
    "openb-pods": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,"
    "creation_time,deletion_time,scheduled_time\n"
    "a,4000,1024,1,460,,0,100,10\nb,8000,2048,2,1000,T4|P100,5,,\n",
    "openb-nodes": "sn,cpu_milli,memory_mib,gpu,model\nn,64000,262144,2,T4\n",
    "alibaba-2020": "j1,worker,2,Terminated,100.0,160.0,600.0,29.0,50.0,T4\nj2,ps,1,Waiting,,,100.0,1.0,,\n",
    "google-2019": "time,type,collection_id,instance_index,machine_id,priority,resource_request.cpus,"
    "resource_request.memory\n600000000,SUBMIT,1,0,,200,0.1,0.2\n700000000,SCHEDULE,1,0,5,200,0.1,0.2\n"
    "800000000,FINISH,1,0,5,200,0.1,0.2\n",
    "google-2019-machines": "type,machine_id,capacity.cpus,capacity.memory\nADD,1,0.5,0.25\n",
    "philly": '[{"jobid":"a","vc":"v","user":"u","submitted_time":"2017-10-09 07:01:53","status":"Pass",'
    '"attempts":[{"start_time":"2017-10-09 07:02:53","end_time":"2017-10-09 08:02:53",'
    '"detail":[{"ip":"m1","gpus":["gpu0","gpu1"]}]}]}]',
    "helios": "job_id,vc,gpu_num,cpu_num,node_num,submit_time,duration\n1,a,8,16,1,2020-04-01 00:00:00,30\n",
}


@target(
    "traces",
    mutate_text,
    [f"{format}\n{text}" for format, text in _TRACES.items()],
    [
        "swf",
        "openb-pods",
        "philly",
        "helios",
        ",",
        "\n",
        ";",
        '"',
        "-1",
        "nan",
        "inf",
        "1e300",
        "|",
        "\t",
        "1e15",
    ],
    (TraceError,),
)
def load_trace(data: bytes) -> object:
    """Read a trace; the first line is its format."""
    format, _, content = data.partition(b"\n")
    known = format.decode(errors="replace").strip()
    path = _write("trace", content)
    if known not in _TRACES:
        known = "swf"
    with _small():
        return type(read_trace(known, path)).__name__
