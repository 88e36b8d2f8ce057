"""Azure packing 2020: a SQLite file with tables `vm` and `vmType`; sizes are fractions of a machine.

A machine is a node of 100 CPUs and 1,000,000 MiB; VMs request their fraction of it.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from mooring.api.objects import Node
from mooring.simulate.arrivals import FOREVER, Arrivals, Template
from mooring.simulate.traces.pods import ArrivalRows, make_node, make_pod
from mooring.simulate.traces.registry import TraceError, importer

DAY = 86400.0
CPU_MILLI = 100_000  # of a machine
MEMORY_MIB = 1_000_000
QUERY = """
SELECT v.vmId, v.tenantId, v.priority, v.starttime, v.endtime, t.core, t.memory
FROM vm v JOIN vmType t ON t.vmTypeId = v.vmTypeId AND t.machineId = ?
ORDER BY v.starttime, v.vmId
"""


@importer("azure-packing")
def read_vms(path: Path, machine: int = 0) -> Arrivals:
    """VMs that fit on a machine type. Those that began before the window arrive at 0; priority 0 is high."""
    if not path.exists():
        raise TraceError(path, "No such file or directory")
    arrivals = ArrivalRows()
    try:
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            for vm, tenant, priority, start, end, core, memory in connection.execute(QUERY, (machine,)):
                key = (tenant, priority, core, memory)
                template = arrivals.template(key)
                if template is None:
                    requests = {
                        "cpu": f"{round(core * CPU_MILLI)}m",
                        "memory": f"{round(memory * MEMORY_MIB)}Mi",
                    }
                    importance = 0 if priority else 1000
                    pod = make_pod(requests, namespace=f"tenant-{tenant}", priority=importance)
                    template = arrivals.add_template(key, Template(pod))
                begun = max(start, 0.0) * DAY
                arrivals.add(
                    f"vm-{vm}", begun, template, FOREVER if end is None else max(end * DAY - begun, 0.0)
                )
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise TraceError(path, str(error), hint="expected the tables vm and vmType") from None
    if not len(arrivals):
        raise TraceError(path, f"no VMs for machine {machine} in the file")
    return arrivals.arrivals()


@importer("azure-packing-nodes")
def make_machines(path: Path, count: int = 100) -> list[Node]:
    """Nodes of one whole machine each; the trace has no list of machines."""
    resources: dict[str, int | str] = {"cpu": f"{CPU_MILLI}m", "memory": f"{MEMORY_MIB}Mi"}
    return [make_node(f"machine-{i}", resources, pods=1000) for i in range(count)]
