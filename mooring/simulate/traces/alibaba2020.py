"""Alibaba gpu-v2020 (PAI): the task table `pai_task_table`, which has no header.

A task becomes `inst_num` pods. `plan_cpu` and `plan_gpu` are hundredths, `plan_mem` is GB. GPU shares are
counted in thousandths, as in openb's traces.
"""

from __future__ import annotations

import csv
from pathlib import Path

from mooring.simulate.arrivals import Arrivals, Job, Template
from mooring.simulate.traces.openb import GPU_MILLI, GPU_MODEL
from mooring.simulate.traces.pods import ArrivalRows, make_pod
from mooring.simulate.traces.registry import TraceError, check_pods, importer, lines, number

COLUMNS = (
    "job_name", "task_name", "inst_num", "status", "start_time", "end_time",
    "plan_cpu", "plan_mem", "plan_gpu", "gpu_type",
)  # fmt: skip
ANY_MODEL = ("", "MISC")


@importer("alibaba-2020")
def read_tasks(path: Path) -> Arrivals:
    """Tasks without a start are left out; those without an end run forever."""
    rows = ArrivalRows()
    for line, text in lines(path):
        try:
            fields = next(csv.reader([text]), [])
        except csv.Error as error:
            raise TraceError(path, str(error), line) from None
        if len(fields) != len(COLUMNS):
            hint = "the file may be truncated: download it again"
            raise TraceError(path, f"expected {len(COLUMNS)} columns, found {len(fields)}", line, hint)
        row = dict(zip(COLUMNS, fields, strict=True))
        if not row["start_time"].strip():
            continue
        start = number(path, line, row, "start_time")
        ended = number(path, line, row, "end_time", float("inf"))
        cpu = int(10 * number(path, line, row, "plan_cpu", 0.0))
        memory = int(1024 * number(path, line, row, "plan_mem", 0.0))
        milli = int(10 * number(path, line, row, "plan_gpu", 0.0))
        model = row["gpu_type"].strip()
        key = (cpu, memory, milli, model)
        template = rows.template(key)
        if template is None:
            requests: dict[str, int | str] = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", GPU_MILLI: milli}
            node_labels = None if model in ANY_MODEL else {GPU_MODEL: (model,)}
            template = rows.add_template(key, Template(make_pod(requests, node_labels=node_labels)))
        instances = number(path, line, row, "inst_num", 1.0)
        check_pods(path, line, instances)
        name = f"{row['job_name']}-{row['task_name']}"
        for index in range(max(int(instances), 1)):
            rows.add(f"{name}-{index}", start, template, max(ended - start, 0.0), Job(name))
    if not len(rows):
        raise TraceError(path, "no tasks in the file")
    return rows.arrivals()
