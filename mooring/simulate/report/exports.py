"""Runs for other programs: Chrome's trace format, and parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mooring.simulate.pod_log import Outcome
from mooring.simulate.running import RunRecord
from mooring.simulate.tables import Tables

MICROSECONDS = 1_000_000


def chrome_trace(tables: Tables) -> bytes:
    """A run in Chrome's trace format: nodes are processes, pods are slices, pending pods are a counter."""
    pods, nodes = tables.pods, tables.nodes
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": row, "name": "process_name", "args": {"name": name}}
        for row, name in enumerate(nodes.name)
    ]
    lanes: dict[int, list[float]] = {}
    stop = np.where(np.isnan(pods.ended), tables.end, pods.ended)
    for row in np.argsort(pods.bound, kind="stable").tolist():
        if np.isnan(pods.bound[row]) or pods.node[row] < 0:
            continue
        node, start, end = int(pods.node[row]), float(pods.bound[row]), float(stop[row])
        ends = lanes.setdefault(node, [])
        lane = next((i for i, last in enumerate(ends) if last <= start), len(ends))
        ends[lane : lane + 1] = [end]
        shape = tables.shapes[int(pods.shape[row])]
        events.append(
            {
                "ph": "X", "pid": node, "tid": lane, "name": f"{shape.namespace}/{pods.name[row]}",
                "cat": shape.namespace, "ts": round(start * MICROSECONDS),
                "dur": round(end * MICROSECONDS) - round(start * MICROSECONDS),
                "args": {
                    "waited": start - float(pods.created[row]),
                    "attempts": int(pods.attempts[row]),
                    "outcome": Outcome(int(pods.outcome[row])).text,
                    "requests": shape.requests,
                },
            }
        )  # fmt: skip
    return msgspec.json.encode({"traceEvents": events, "displayTimeUnit": "ms"})


def write_parquet(runs: Sequence[tuple[RunRecord, Tables]], path: Path) -> None:
    """The pods of runs as one parquet file. Raises ImportError without pyarrow, and OSError."""
    import pyarrow as pa  # type: ignore[import-not-found,import-untyped,unused-ignore]
    import pyarrow.parquet as pq  # type: ignore[import-not-found,import-untyped,unused-ignore]

    parts = [pa.table(_columns(record, tables)) for record, tables in runs]
    pq.write_table(pa.concat_tables(parts), path)


def _columns(record: RunRecord, tables: Tables) -> dict[str, Any]:
    pods, shapes = tables.pods, tables.shapes
    count, rows = len(pods), pods.shape.tolist()
    nodes = [*tables.nodes.name, None]
    texts = [outcome.text for outcome in Outcome]
    return {
        "policy": [record.policy] * count,
        "seed": np.full(count, record.seed, np.int64),
        "namespace": [shapes[row].namespace for row in rows],
        "name": list(pods.name),
        "owner": [shapes[row].owner for row in rows],
        "shape": pods.shape,
        "priority": np.array([shapes[row].priority for row in rows], np.int64),
        "created": pods.created,
        "run_time": pods.run_time,
        "first_attempt": pods.first_attempt,
        "bound": pods.bound,
        "node": [nodes[row] for row in pods.node.tolist()],
        "started": pods.started,
        "ended": pods.ended,
        "outcome": [texts[code] for code in pods.outcome.tolist()],
        "attempts": pods.attempts,
        "reason": list(pods.reason),
        "replaces": pods.replaces,
    }
