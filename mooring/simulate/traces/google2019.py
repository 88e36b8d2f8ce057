"""Google 2019 (Borg): instance_events and machine_events as exported to CSV; times in microseconds.

Resources are fractions of the largest machine. SUBMIT is the arrival; the run time is the sum of the times
from SCHEDULE to the end, evictions included.
"""

from __future__ import annotations

from pathlib import Path

from mooring.api.objects import Node
from mooring.simulate.arrivals import FOREVER, Arrivals, Template
from mooring.simulate.traces.pods import ArrivalRows, make_node, make_pod
from mooring.simulate.traces.registry import TraceError, importer, number, rows

SUBMIT, SCHEDULE = ("SUBMIT", "0"), ("SCHEDULE", "3")
ENDS = ("EVICT", "4", "FAIL", "5", "FINISH", "6", "KILL", "7", "LOST", "8")
ADD = ("ADD", "1")
CPU_MILLI, MEMORY_MIB = 100_000, 1_000_000  # of the largest machine


@importer("google-2019")
def read_instances(path: Path) -> Arrivals:
    """Columns time, type, collection_id, instance_index, priority, resource_request.cpus and .memory."""
    cpus, memory = "resource_request.cpus", "resource_request.memory"
    submitted: dict[tuple[str, str], tuple[float, int, str, str]] = {}
    lives: dict[tuple[str, str], float] = {}
    begun: dict[tuple[str, str], float] = {}
    needed = ("time", "type", "collection_id", "instance_index", "priority", cpus, memory)
    for line, row in rows(path, *needed):
        key, kind = (row["collection_id"], row["instance_index"]), row["type"]
        when = number(path, line, row, "time") / 1e6
        if kind in SUBMIT and key not in submitted:
            priority = int(number(path, line, row, "priority", 0.0))
            for column in (cpus, memory):
                number(path, line, row, column, 0.0)
            submitted[key] = (when, priority, row[cpus] or "0", row[memory] or "0")
        elif kind in SCHEDULE:
            begun[key] = when
        elif kind in ENDS and key in begun:
            lives[key] = lives.get(key, 0.0) + when - begun.pop(key)
    arrivals = ArrivalRows()
    for key, (when, priority, cpu, size) in sorted(submitted.items(), key=lambda item: item[1][0]):
        shape = (priority, cpu, size)
        template = arrivals.template(shape)
        if template is None:
            requests = {
                "cpu": f"{round(float(cpu) * CPU_MILLI)}m",
                "memory": f"{round(float(size) * MEMORY_MIB)}Mi",
            }
            pod = make_pod(requests, namespace=_tier(priority), priority=priority)
            template = arrivals.add_template(shape, Template(pod))
        life = FOREVER if key in begun or key not in lives else lives[key]
        arrivals.add(f"{key[0]}-{key[1]}", when, template, life)
    if not len(arrivals):
        raise TraceError(path, "no SUBMIT events in the file")
    return arrivals.arrivals()


def _tier(priority: int) -> str:
    """The tiers by which the trace's paper groups priorities."""
    for highest, name in ((99, "free"), (115, "best-effort"), (119, "mid"), (359, "production")):
        if priority <= highest:
            return name
    return "monitoring"


@importer("google-2019-machines")
def read_machines(path: Path) -> list[Node]:
    """Columns type, machine_id, capacity.cpus, capacity.memory; machines that are added."""
    nodes: dict[str, Node] = {}
    for line, row in rows(path, "type", "machine_id", "capacity.cpus", "capacity.memory"):
        if row["type"] in ADD:
            cpu, memory = (
                number(path, line, row, name, 0.0) for name in ("capacity.cpus", "capacity.memory")
            )
            resources: dict[str, int | str] = {
                "cpu": f"{round(cpu * CPU_MILLI)}m",
                "memory": f"{round(memory * MEMORY_MIB)}Mi",
            }
            nodes[row["machine_id"]] = make_node(f"machine-{row['machine_id']}", resources, pods=1000)
    if not nodes:
        raise TraceError(path, "no ADD events in the file")
    return list(nodes.values())
