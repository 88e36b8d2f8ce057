"""GPU clusters' job logs: Philly 2017 (JSON) and Helios 2020 (CSV). A job becomes one pod per server."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from mooring.simulate.arrivals import FOREVER, Arrivals, Job, Template
from mooring.simulate.traces.pods import ArrivalRows, make_pod
from mooring.simulate.traces.registry import TraceError, check_pods, importer, number, rows

GPU = "nvidia.com/gpu"


def _add(
    arrivals: ArrivalRows, job: str, server: int, queue: str, time: float, life: float, gpus: int, cpus: int
) -> None:
    job = job.replace("_", "-")
    key = (queue, gpus, cpus)
    template = arrivals.template(key)
    if template is None:
        pod = make_pod({GPU: gpus, "cpu": cpus}, namespace=queue)
        template = arrivals.add_template(key, Template(pod))
    arrivals.add(f"{job}-{server}", time, template, life, Job(job))


@importer("philly")
def read_philly(path: Path) -> Arrivals:
    """cluster_job_log: jobs with attempts; the run time is the sum of the attempts', vc is the namespace."""
    try:
        jobs = json.loads(path.read_text())
    except OSError as error:
        raise TraceError(path, error.strerror or str(error)) from None
    except ValueError as error:
        hint = "the file may be truncated, or a Git LFS pointer: download it again"
        raise TraceError(path, f"not valid JSON: {error}", hint=hint) from None
    except RecursionError:
        raise TraceError(path, "nested too deeply", hint="expected a list of jobs") from None
    arrival_rows = ArrivalRows()
    for index, job in enumerate(jobs if isinstance(jobs, list) else []):
        try:
            submitted = _time(job["submitted_time"])
            attempts = [each for each in job["attempts"] if each.get("start_time")]
            life = sum(
                _time(each["end_time"]) - _time(each["start_time"])
                for each in attempts
                if each.get("end_time")
            )
            detail = [len(part["gpus"]) for part in attempts[-1]["detail"]] if attempts else []
            name, queue = str(job["jobid"]), str(job["vc"])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise TraceError(path, f"job {index}: {type(error).__name__}: {error}") from None
        if not detail:
            continue
        endless = not attempts[-1].get("end_time")
        for server, gpus in enumerate(detail):
            _add(
                arrival_rows,
                name,
                server,
                queue,
                submitted,
                FOREVER if endless else life,
                gpus,
                0,
            )
    if not len(arrival_rows):
        raise TraceError(path, "no jobs that ran in the file")
    arrivals = arrival_rows.arrivals()
    arrivals.time = arrivals.time - arrivals.time.min()
    return arrivals


def _time(text: Any) -> float:
    return datetime.fromisoformat(str(text)).timestamp()


@importer("helios")
def read_helios(path: Path) -> Arrivals:
    """cluster_log.csv: columns job_id, vc, gpu_num, cpu_num, node_num, submit_time and duration."""
    jobs = ArrivalRows()
    for line, row in rows(path, "job_id", "vc", "gpu_num", "cpu_num", "node_num", "submit_time", "duration"):
        try:
            submitted = _time(row["submit_time"])
        except ValueError:
            raise TraceError(
                path, f'submit_time: expected a time, found "{row["submit_time"]}"', line
            ) from None
        servers = max(int(number(path, line, row, "node_num", 1.0)), 1)
        check_pods(path, line, servers)
        gpus, cpus = (int(number(path, line, row, name, 0.0)) // servers for name in ("gpu_num", "cpu_num"))
        life = number(path, line, row, "duration", 0.0)
        for server in range(servers):
            _add(jobs, f"job-{row['job_id']}", server, row["vc"].lower(), submitted, life, gpus, cpus)
    if not len(jobs):
        raise TraceError(path, "no jobs in the file")
    arrivals = jobs.arrivals()
    arrivals.time = arrivals.time - arrivals.time.min()
    return arrivals
