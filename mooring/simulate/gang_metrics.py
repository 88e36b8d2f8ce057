"""Gangs of a run in numbers: when each started, what it held before that, how scattered free room was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import inf, isnan, nan
from pathlib import Path

import msgspec
import numpy as np

from mooring.simulate.arrivals import FloatArray
from mooring.simulate.pod_log import Outcome
from mooring.simulate.tables import Tables, numbers, write_csv

MOST_SHAPES = 64  # the most frequent ones stand for the workload


class Gang(msgspec.Struct):
    """One gang. It starts when as many members as must run together do; nan: it never did."""

    namespace: str
    name: str
    pods: list[int]  # rows, those of replaced members included
    min_count: int
    created: float
    started: float = nan
    evicted: int = 0
    held: float = 0.0  # seconds of members on nodes before the start


def find_gangs(tables: Tables) -> list[Gang]:
    """The gangs of a run, in order of creation."""
    rows: dict[tuple[str, str], list[int]] = defaultdict(list)
    keys = [(shape.namespace, shape.group) for shape in tables.shapes]
    for row, shape in enumerate(tables.pods.shape.tolist()):
        if keys[shape][1]:
            rows[keys[shape]].append(row)
    return [_describe(tables, *key, members) for key, members in rows.items()]


def _describe(tables: Tables, namespace: str, name: str, rows: list[int]) -> Gang:
    pods = tables.pods
    originals = sum(1 for row in rows if pods.replaces[row] < 0)
    least = tables.shapes[int(pods.shape[rows[0]])].min_count or originals
    created = sorted(float(pods.created[row]) for row in rows)[min(least, len(rows)) - 1]
    gang = Gang(namespace, name, rows, least, created)
    changes: list[tuple[float, int]] = []
    for row in rows:
        bound, ended = float(pods.bound[row]), float(pods.ended[row])
        gang.evicted += int(pods.outcome[row] == Outcome.EVICTED)
        if not isnan(bound):
            changes += [(bound, 1), (inf if isnan(ended) else ended, -1)]
    running = 0
    for time, change in sorted(changes):  # ends before starts of the same instant
        running += change
        if running >= least:
            gang.started = time
            break
    start = tables.end if isnan(gang.started) else gang.started
    for row in rows:
        bound, ended = float(pods.bound[row]), float(pods.ended[row])
        if not isnan(bound):
            gang.held += max(min(start, tables.end if isnan(ended) else ended) - bound, 0.0)
    return gang


def write_gangs(tables: Tables, folder: Path) -> None:
    """Write groups.csv.gz, of a run with gangs."""
    gangs = find_gangs(tables)
    if not gangs:
        return
    columns: dict[str, Iterable[object]] = {
        "namespace": [gang.namespace for gang in gangs],
        "name": [gang.name for gang in gangs],
        "pods": [len(gang.pods) for gang in gangs],
        "min_count": [gang.min_count for gang in gangs],
        "created": numbers(np.array([gang.created for gang in gangs])),
        "started": numbers(np.array([gang.started for gang in gangs])),
        "wait": numbers(np.array([gang.started - gang.created for gang in gangs])),
        "held": numbers(np.array([gang.held for gang in gangs])),
        "evicted": [gang.evicted for gang in gangs],
    }
    write_csv(folder / "groups.csv.gz", columns)


def gang_metrics(tables: Tables) -> dict[str, float]:
    """Metrics of a run with gangs; none without."""
    gangs = find_gangs(tables)
    if not gangs:
        return {}
    waits = np.array([gang.started - gang.created for gang in gangs])
    started = waits[~np.isnan(waits)]
    metrics: dict[str, float] = {
        "gangs": len(gangs),
        "gangs.started": len(started),
        "gangs.wait.censored": len(gangs) - len(started),
    }
    if len(started):
        metrics["gangs.wait.mean"] = float(started.mean())
        for share in (50, 95):
            metrics[f"gangs.wait.p{share}"] = float(np.percentile(started, share))
        metrics["gangs.wait.max"] = float(started.max())
    metrics["gangs.evicted"] = sum(gang.evicted > 0 for gang in gangs)
    metrics["gangs.held_seconds"] = sum(gang.held for gang in gangs)
    for resource in tables.resources():
        metrics[f"utilisation.{resource}"] = _utilisation(tables, gangs, resource)
        metrics[f"fragmentation.{resource}"] = _fragmentation(tables, resource)
    return metrics


def _spans(tables: Tables) -> tuple[FloatArray, FloatArray]:
    """From when to when each pod was on its node; empty where it never was."""
    pods = tables.pods
    start = np.where(np.isnan(pods.bound), tables.end, pods.bound)
    return start, np.where(np.isnan(pods.ended), tables.end, np.minimum(pods.ended, tables.end))


def _capacity(tables: Tables, resource: str) -> float:
    """What nodes have of a resource, over time."""
    nodes, end = tables.nodes, tables.end
    there = np.minimum(nodes.removed, end) - np.minimum(nodes.added, end)
    return float((there * nodes.resources[resource]).sum())


def _utilisation(tables: Tables, gangs: list[Gang], resource: str) -> float:
    """Percentage of capacity that pods use which run; a member does from the start of its gang on."""
    start, stop = _spans(tables)
    for gang in gangs:
        first = tables.end if isnan(gang.started) else gang.started
        start[gang.pods] = np.maximum(start[gang.pods], first)
    used = float((tables.requests(resource) * np.maximum(stop - start, 0.0)).sum())
    capacity = _capacity(tables, resource)
    return 100 * used / capacity if capacity > 0 else 0.0


def _fragmentation(tables: Tables, resource: str) -> float:
    """Percentage of the free amount, over time, on nodes that a pod of the workload does not fit on.

    Each shape counts by its number of pods, as in fragmentation gradient descent (Weng et al., 2023).
    """
    free, lengths = _free_over_time(tables)
    amounts = np.maximum(free[resource], 0.0) * lengths
    total = float(amounts.sum())
    counts = np.bincount(tables.pods.shape, minlength=len(tables.shapes))
    by_requests: dict[tuple[tuple[str, int], ...], int] = defaultdict(int)
    for shape, count in zip(tables.shapes, counts.tolist(), strict=True):
        if shape.requests.get(resource):
            by_requests[tuple(sorted(shape.requests.items()))] += count
    shapes = sorted(by_requests.items(), key=lambda item: (-item[1], item[0]))[:MOST_SHAPES]
    if total <= 0 or not shapes:
        return 0.0
    lost = 0.0
    for requests, count in shapes:
        fits = np.ones(len(lengths), bool)
        for name, amount in requests:
            if name in free:
                fits &= free[name] >= amount
        lost += count * float(amounts[~fits].sum())
    return 100 * lost / (sum(count for _, count in shapes) * total)


def _free_over_time(tables: Tables) -> tuple[dict[str, FloatArray], FloatArray]:
    """What is free on each node between any two changes of it, and how long that lasts."""
    nodes, pods = tables.nodes, tables.pods
    start, stop = _spans(tables)
    rows = np.flatnonzero((pods.node >= 0) & (stop > start))
    every = np.arange(len(nodes.name))
    node = np.concatenate([every, pods.node[rows], pods.node[rows]])
    time = np.concatenate([np.minimum(nodes.added, tables.end), start[rows], stop[rows]])
    order = np.lexsort((time, node))
    node, time = node[order], time[order]
    last = np.append(node[1:] != node[:-1], True)
    ends = np.minimum(nodes.removed, tables.end)
    lengths = np.maximum(np.where(last, ends[node], np.append(time[1:], 0.0)) - time, 0.0)
    free: dict[str, FloatArray] = {}
    for name in tables.resources():
        amounts = tables.requests(name)[rows]
        changes = np.concatenate([np.zeros(len(every)), amounts, -amounts])[order]
        free[name] = nodes.resources[name][node] - np.cumsum(changes)  # those of a node add up to nothing
    return free, lengths
