"""The Standard Workload Format of the Parallel Workloads Archive: 18 columns, comments begin with `;`.

A job becomes one pod per `processors_per_pod` processors; the pods of a job arrive together.
"""

from __future__ import annotations

from math import isfinite
from pathlib import Path

from mooring.simulate.arrivals import Arrivals, Job, Template
from mooring.simulate.traces.pods import ArrivalRows, make_pod
from mooring.simulate.traces.registry import TraceError, check_pods, importer, lines

COLUMNS = 18
JOB, SUBMIT, RUN, PROCESSORS, REQUESTED, USER = 0, 1, 3, 4, 7, 11


@importer("swf")
def read_jobs(path: Path, processors_per_pod: int = 1) -> Arrivals:
    """A job without processors or run time (cancelled before it began) is left out."""
    if processors_per_pod < 1:
        raise TraceError(path, "processors_per_pod: expected at least 1")
    jobs = ArrivalRows()
    for line, text in lines(path):
        fields = text.split()
        if not fields or fields[0].startswith(";"):
            continue
        if len(fields) != COLUMNS:
            raise TraceError(path, f"expected {COLUMNS} columns, found {len(fields)}", line)
        try:
            submit, run_time = float(fields[SUBMIT]), float(fields[RUN])
            processors = max(int(fields[PROCESSORS]), int(fields[REQUESTED]))
        except ValueError:
            raise TraceError(path, "expected numbers", line) from None
        if not (isfinite(submit) and isfinite(run_time)):
            raise TraceError(path, "expected finite numbers", line)
        check_pods(path, line, processors // processors_per_pod)
        if processors < 1 or run_time < 0:
            continue
        namespace = f"user-{fields[USER]}" if fields[USER] != "-1" else "default"
        whole, rest = divmod(processors, processors_per_pod)
        for index, size in enumerate([processors_per_pod] * whole + [rest] * (rest > 0)):
            key = (namespace, size)
            template = jobs.template(key)
            if template is None:
                template = jobs.add_template(key, Template(make_pod({"cpu": size}, namespace=namespace)))
            jobs.add(f"job-{fields[JOB]}-{index}", submit, template, run_time, Job(f"job-{fields[JOB]}"))
    if not len(jobs):
        raise TraceError(path, "no jobs in the file")
    return jobs.arrivals()
