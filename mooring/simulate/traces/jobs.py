"""Jobs in a CSV file of your own: one row per job, whose pods are a gang.

Columns arrival, duration (seconds; empty: forever) and size (pods); optional: level (the node label whose
value all pods share), min (pods that start together; all by default), name, namespace, priority. Every other
column is a resource, and holds what one pod requests.
"""

from __future__ import annotations

from pathlib import Path

from mooring.api.quantity import QuantityError, parse
from mooring.simulate.arrivals import FOREVER, Arrivals, Job, Template
from mooring.simulate.traces.pods import ArrivalRows, make_pod
from mooring.simulate.traces.registry import TraceError, check_pods, importer, number, rows

REQUIRED = ("arrival", "duration", "size")
OPTIONAL = ("level", "min", "name", "namespace", "priority")


@importer("jobs")
def read_jobs(path: Path) -> Arrivals:
    """A job of size 1 without a level is a plain pod."""
    jobs = ArrivalRows()
    for line, row in rows(path, *REQUIRED):
        size = int(number(path, line, row, "size"))
        check_pods(path, line, size)
        if size < 1:
            raise TraceError(path, "size: expected at least 1", line)
        amounts = {k: v for k, v in row.items() if k not in (*REQUIRED, *OPTIONAL) and v.strip()}
        for resource, amount in amounts.items():
            try:
                parse(amount)
            except QuantityError as error:
                raise TraceError(path, f"{resource}: {error}", line) from None
        namespace, level = row.get("namespace") or "default", row.get("level", "").strip()
        priority = int(number(path, line, row, "priority", 0.0))
        minimum = int(number(path, line, row, "min", float(size)))
        if not 1 <= minimum <= size:
            raise TraceError(path, f"min: expected a number from 1 to {size}, found {minimum}", line)
        key = (namespace, priority, tuple(amounts.items()))
        template = jobs.template(key)
        if template is None:
            pod = make_pod(amounts, namespace=namespace, priority=priority)
            template = jobs.add_template(key, Template(pod))
        name = row.get("name") or f"job-{line}"
        job = Job(name, minimum, level) if size > 1 or level else None
        for index in range(size):
            duration = number(path, line, row, "duration", FOREVER)
            jobs.add(f"{name}-{index}", number(path, line, row, "arrival"), template, duration, job)
    if not len(jobs):
        raise TraceError(path, "no jobs in the file")
    arrivals = jobs.arrivals()
    arrivals.has_gangs = True
    return arrivals
