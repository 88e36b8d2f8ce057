"""Importers, on small made-up files in the published formats."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import cast

import pytest

from mooring.api.objects import Node
from mooring.simulate.arrivals import FOREVER, Arrivals
from mooring.simulate.scenario import TraceSpec
from mooring.simulate.sources import TraceArrivals, TraceNodes, requests_of
from mooring.simulate.traces import TraceError, read_trace
from mooring.simulate.traces.openb import GPU_MILLI


def pods_of(format: str, path: Path, **options: object) -> Arrivals:
    return cast(Arrivals, read_trace(format, path, **options))


def requested(arrivals: Arrivals, resource: str) -> list[float]:
    return cast("list[float]", requests_of(arrivals.templates, resource)[arrivals.template].tolist())


def test_openb(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv.gz"
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,"
    header += "creation_time,deletion_time,scheduled_time"
    path.write_bytes(
        gzip.compress(
            f"{header}\na,4000,1024,1,460,,LS,Running,0,100,10\nb,8000,2048,2,1000,T4|P100,LS,Running,5,,\n".encode()
        )
    )
    arrivals = pods_of("openb-pods", path)
    assert requested(arrivals, GPU_MILLI) == [460, 2000]
    assert requested(arrivals, "cpu") == [4000, 8000]
    assert arrivals.time.tolist() == [0, 5]
    assert arrivals.run_time.tolist() == [90, FOREVER]
    affinity = arrivals.templates[1].pod.spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    assert "P100" in str(affinity.node_affinity.required)
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(TraceError, match="truncated"):
        pods_of("openb-pods", path)


def test_a_line_without_an_end_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "log.swf.gz"
    path.write_bytes(gzip.compress(b"; a comment\n" + b"0" * 3_000_000))
    with pytest.raises(TraceError, match=r"log.swf.gz:2: more than 1,000,000 characters"):
        pods_of("swf", path)


def test_swf(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(
        "; Computer: made up\n"
        "1 0 5 100 3 -1 -1 4 -1 -1 1 7 1 -1 1 -1 -1 -1\n"
        "2 9 -1 -1 -1 -1 -1 2 -1 -1 0 8 1 -1 1 -1 -1 -1\n"
    )
    arrivals = pods_of("swf", path, processors_per_pod=2)
    assert list(arrivals.names) == ["job-1-0", "job-1-1"]
    assert requested(arrivals, "cpu") == [2000, 2000]
    assert arrivals.templates[0].pod.namespace == "user-7"
    path.write_text("1 2 3\n")
    with pytest.raises(TraceError, match=r"log.swf:1: expected 18 columns, found 3"):
        pods_of("swf", path)


def test_alibaba_2020(tmp_path: Path) -> None:
    path = tmp_path / "pai_task_table.csv"
    path.write_text("j1,worker,2,Terminated,100.0,160.0,600.0,29.0,50.0,T4\nj2,ps,1,Waiting,,,100.0,1.0,,\n")
    arrivals = pods_of("alibaba-2020", path)
    assert list(arrivals.names) == ["j1-worker-0", "j1-worker-1"]
    assert requested(arrivals, "cpu") == [6000, 6000]
    assert requested(arrivals, GPU_MILLI) == [500, 500]
    assert arrivals.run_time.tolist() == [60, 60]


def test_azure_packing(tmp_path: Path) -> None:
    path = tmp_path / "packing.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE vm (vmId, tenantId, vmTypeId, priority, starttime, endtime)")
        db.execute("CREATE TABLE vmType (id, vmTypeId, machineId, core, memory, hdd, ssd, nic)")
        db.executemany(
            "INSERT INTO vm VALUES (?, ?, ?, ?, ?, ?)", [(1, 5, 0, 0, -2.0, 0.5), (2, 6, 0, 1, 1.0, None)]
        )
        db.execute("INSERT INTO vmType VALUES (0, 0, 16, 0.25, 0.5, NULL, 0.1, 0.1)")
    db.close()
    arrivals = pods_of("azure-packing", path, machine=16)
    assert arrivals.time.tolist() == [0, 86400]
    assert arrivals.run_time.tolist() == [43200, FOREVER]
    assert requested(arrivals, "cpu") == [25_000, 25_000]
    assert [arrivals.templates[i].pod.priority for i in arrivals.template] == [1000, 0]
    with pytest.raises(TraceError, match="no VMs for machine 3"):
        pods_of("azure-packing", path, machine=3)


def test_google_2019(tmp_path: Path) -> None:
    path = tmp_path / "instance_events.csv"
    path.write_text(
        "time,type,collection_id,instance_index,priority,resource_request.cpus,resource_request.memory\n"
        "1000000,SUBMIT,7,0,200,0.02,0.01\n2000000,SCHEDULE,7,0,200,,\n5000000,EVICT,7,0,200,,\n"
        "6000000,SCHEDULE,7,0,200,,\n9000000,FINISH,7,0,200,,\n1500000,SUBMIT,8,0,25,0.5,0.5\n"
    )
    arrivals = pods_of("google-2019", path)
    assert list(arrivals.names) == ["7-0", "8-0"]
    assert arrivals.run_time.tolist() == [6, FOREVER]
    assert [template.pod.namespace for template in arrivals.templates] == ["production", "free"]
    machines = tmp_path / "machine_events.csv"
    machines.write_text(
        "time,machine_id,type,capacity.cpus,capacity.memory\n0,1,ADD,0.5,0.25\n0,1,UPDATE,0.5,0.25\n"
    )
    (node,) = cast("list[Node]", read_trace("google-2019-machines", machines))
    assert node.status.allocatable["cpu"] == "50000m"


def test_philly_and_helios(tmp_path: Path) -> None:
    path = tmp_path / "cluster_job_log"
    attempt = {
        "start_time": "2017-10-03 10:00:00",
        "end_time": "2017-10-03 10:10:00",
        "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}],
    }
    job = {
        "jobid": "application_1",
        "vc": "ee9e8c",
        "submitted_time": "2017-10-03 09:59:00",
        "attempts": [attempt],
    }
    path.write_text(json.dumps([job, {**job, "jobid": "application_2", "attempts": []}]))
    arrivals = pods_of("philly", path)
    assert list(arrivals.names) == ["application-1-0", "application-1-1"]
    assert requested(arrivals, "nvidia.com/gpu") == [2, 1]
    assert arrivals.run_time.tolist() == [600, 600]
    table = tmp_path / "cluster_log.csv"
    table.write_text(
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "1,u,vcA,16,96,2,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:00:12,2020-04-01 00:01:12,60,2\n"
    )
    jobs = pods_of("helios", table)
    assert requested(jobs, "nvidia.com/gpu") == [8, 8]
    assert requested(jobs, "cpu") == [48_000, 48_000]
    path.write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(TraceError, match="Git LFS pointer"):
        pods_of("philly", path)


SYNTHETIC = Path(__file__).parents[2] / "examples" / "fgd" / "synthetic"


def test_nodes_in_random_order_are_the_same_nodes() -> None:
    """Their order decides ties, and every seed has its own."""

    def names(order: str, seed: int) -> list[str]:
        spec = TraceSpec(format="openb-nodes", path="nodes.csv", order=order)
        return [obj.name for obj in TraceNodes(spec, SYNTHETIC).objects(seed)]

    assert names("shuffled", 1) == names("shuffled", 1)
    assert names("shuffled", 1) != names("shuffled", 2) != names("", 2)
    assert sorted(names("shuffled", 1)) == sorted(names("", 1))


def test_pods_that_fill_a_cluster_come_after_the_others() -> None:
    spec = TraceSpec(format="openb-pods", path="pods.csv", arrivals="shuffled", fill=1.3)
    nodes = TraceNodes(TraceSpec(format="openb-nodes", path="nodes.csv"), SYNTHETIC).objects(1)
    pods, _ = TraceArrivals("pods", spec, SYNTHETIC, GPU_MILLI).arrivals(1, nodes)
    count = len(pods_of("openb-pods", SYNTHETIC / "pods.csv"))
    assert len(pods) > count
    assert {*pods.names[:count]} == {*pods_of("openb-pods", SYNTHETIC / "pods.csv").names}
