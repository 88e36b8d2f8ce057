"""What a run came to, in numbers. Means over time are integrals over virtual time divided by its length."""

from __future__ import annotations

from math import nan

import numpy as np

from mooring.simulate.arrivals import FloatArray
from mooring.simulate.pod_log import Outcome
from mooring.simulate.tables import Tables

BOUNDED = 10.0  # seconds: shorter run times count as this in the bounded slowdown


def summarize(
    tables: Tables, load_axis: str = "", prices: dict[str, float] | None = None
) -> dict[str, float]:
    """Every metric of a run by name."""
    pods, end = tables.pods, tables.end
    metrics: dict[str, float] = {"pods": len(pods), "attempts": tables.attempts}
    bound = ~np.isnan(pods.bound)
    metrics["bound"] = int(bound.sum())
    for outcome in Outcome:
        metrics[outcome.text] = int((pods.outcome == outcome).sum())
    metrics |= _waiting(tables)
    for resource in tables.resources():
        metrics |= _allocation(tables, resource)
    finished = pods.outcome == Outcome.FINISHED
    if finished.any():
        turnaround = pods.ended[finished] - pods.created[finished]
        life = np.maximum(pods.run_time[finished], BOUNDED)
        slowdown = np.maximum(turnaround / life, 1.0)
        metrics["slowdown.mean"] = float(slowdown.mean())
        metrics["slowdown.p95"] = float(np.percentile(slowdown, 95))
        metrics["makespan"] = float(pods.ended[finished].max() - pods.created.min())
    if end > 0:
        metrics["throughput.bound_per_hour"] = metrics["bound"] / end * 3600
        metrics["throughput.finished_per_hour"] = metrics["finished"] / end * 3600
    metrics |= _recorded(tables)
    metrics |= _fairness(tables)
    metrics |= _nodes(tables, prices or {})
    metrics["attempts.per_pod"] = tables.attempts / len(pods) if len(pods) else 0.0
    lost = np.isin(pods.outcome, (Outcome.EVICTED, Outcome.LOST)) & bound
    metrics["lost_work_seconds"] = float((pods.ended[lost] - pods.bound[lost]).sum())
    return metrics


def _waiting(tables: Tables) -> dict[str, float]:
    """From creation to binding. Pods that were never bound are counted as censored, not left out silently."""
    pods = tables.pods
    bound = ~np.isnan(pods.bound)
    wait = pods.bound[bound] - pods.created[bound]
    metrics: dict[str, float] = {"wait.censored": int((~bound).sum())}
    if len(wait):
        metrics["wait.mean"] = float(wait.mean())
        for share in (50, 90, 95, 99):
            metrics[f"wait.p{share}"] = float(np.percentile(wait, share))
        metrics["wait.max"] = float(wait.max())
    return metrics


def scheduling_rates(tables: Tables) -> dict[str, float]:
    """Pods bound per second, of a run in wall-clock time: from the first arrival to the last binding, and in
    the best second."""
    pods = tables.pods
    bound = np.sort(pods.bound[~np.isnan(pods.bound)])
    if not len(bound):
        return {}
    span = float(bound[-1] - pods.created.min())
    in_second = np.searchsorted(bound, bound + 1.0) - np.arange(len(bound))
    return {
        "throughput.bound_per_second": len(bound) / span if span > 0 else float(len(bound)),
        "throughput.bound_per_second.peak": float(in_second.max()),
    }


def _recorded(tables: Tables) -> dict[str, float]:
    """How many of the pods that a recording shows on a node are on that node here."""
    pods, names = tables.pods, [*tables.nodes.name, ""]
    recorded = [row for row, node in enumerate(pods.recorded_node) if node]
    if not recorded:
        return {}
    same = sum(names[pods.node[row]] == pods.recorded_node[row] for row in recorded)
    return {"recorded.pods": len(recorded), "recorded.same_node": same}


def steps(start: FloatArray, stop: FloatArray, amount: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Times and the total from each of them on, of amounts that are there from start to stop."""
    finite = np.isfinite(stop)
    times = np.concatenate([start, stop[finite]])
    changes = np.concatenate([amount, -amount[finite]])
    order = np.argsort(times, kind="stable")
    times, totals = times[order], np.cumsum(changes[order])
    last = np.append(times[1:] != times[:-1], True) if len(times) else np.zeros(0, bool)
    return times[last], totals[last]


def allocation_steps(tables: Tables, resource: str) -> tuple[FloatArray, FloatArray]:
    """Times and what is requested on nodes from each of them on."""
    pods = tables.pods
    bound = ~np.isnan(pods.bound)
    stop = np.where(np.isnan(pods.ended), np.inf, pods.ended)
    return steps(pods.bound[bound], stop[bound], tables.requests(resource)[bound])


def capacity_steps(tables: Tables, resource: str) -> tuple[FloatArray, FloatArray]:
    nodes = tables.nodes
    return steps(nodes.added, nodes.removed, nodes.resources[resource])


def value_at(times: FloatArray, totals: FloatArray, when: FloatArray) -> FloatArray:
    """A step function, right after each time."""
    index = np.searchsorted(times, when, side="right") - 1
    return np.where(index >= 0, totals[np.maximum(index, 0)], 0.0) if len(times) else np.zeros(len(when))


def integral(times: FloatArray, totals: FloatArray, end: float) -> float:
    """The area under a step function from its first time to the end."""
    if not len(times):
        return 0.0
    widths = np.diff(np.append(np.minimum(times, end), end))
    return float((widths * totals).sum())


def _allocation(tables: Tables, resource: str) -> dict[str, float]:
    times, used = allocation_steps(tables, resource)
    moments, capacity = capacity_steps(tables, resource)
    total = integral(moments, capacity, tables.end)
    now = value_at(moments, capacity, times)
    shares = np.divide(used, now, out=np.zeros_like(used), where=now > 0)
    last = float(shares[-1]) if len(shares) else 0.0
    mean = integral(times, used, tables.end) / total if total > 0 else last
    return {
        f"allocation.{resource}": 100 * mean,
        f"allocation.{resource}.peak": 100 * float(shares.max()) if len(shares) else 0.0,
        f"allocation.{resource}.end": 100 * last,
    }


def arrived_curve(tables: Tables, resource: str) -> tuple[FloatArray, FloatArray]:
    """After each arrival: what has arrived so far, and what is allocated, as shares of the first capacity."""
    pods = tables.pods
    first = (pods.replaces < 0) & np.isfinite(pods.created)
    capacity = float(tables.nodes.resources[resource][tables.nodes.added <= 0].sum())
    if capacity <= 0:
        return np.zeros(0), np.zeros(0)
    arrived = np.cumsum(tables.requests(resource)[first]) / capacity
    times, used = allocation_steps(tables, resource)
    return arrived, value_at(times, used, pods.created[first]) / capacity


def at_arrived(tables: Tables, resource: str, share: float) -> float:
    """Allocation in percent while the arrived load was about a share of capacity."""
    arrived, allocated = arrived_curve(tables, resource)
    here = np.rint(100 * arrived) == round(100 * share)
    return float(100 * allocated[here].mean()) if here.any() else nan


def find_resource(tables: Tables, name: str, load_axis: str = "") -> str | None:
    """The resource of a full or short name: `gpu` finds nvidia.com/gpu."""
    resources = tables.resources()
    if name in resources:
        return name
    short = [each for each in resources if each.rpartition("/")[2] == name]
    near = short or [each for each in resources if name in each.rpartition("/")[2]]
    if load_axis in near:
        return load_axis
    return near[0] if len(near) == 1 else None


def _fairness(tables: Tables) -> dict[str, float]:
    """Jain's index over the namespaces' shares of their dominant resource, integrated over time."""
    names = [shape.namespace for shape in tables.shapes]
    spaces = sorted(set(names))
    pods = tables.pods
    bound = ~np.isnan(pods.bound)
    if len(spaces) < 2 or not bound.any():
        return {}
    index = np.array([spaces.index(name) for name in names])[pods.shape[bound]]
    held = np.where(np.isnan(pods.ended), tables.end, pods.ended)[bound] - pods.bound[bound]
    dominant = np.zeros(len(spaces))
    for resource in tables.resources():
        capacity = float(tables.nodes.resources[resource].sum())
        amounts = tables.requests(resource)[bound] * held
        dominant = np.maximum(dominant, np.bincount(index, amounts, len(spaces)) / max(capacity, 1.0))
    squares = float((dominant**2).sum())
    return {"fairness.jain": float(dominant.sum()) ** 2 / (len(spaces) * squares) if squares else 1.0}


def _nodes(tables: Tables, prices: dict[str, float]) -> dict[str, float]:
    nodes, pods, end = tables.nodes, tables.pods, tables.end
    there = np.minimum(nodes.removed, end) - np.minimum(nodes.added, end)
    metrics = {"nodes": float(len(nodes.name)), "nodes.hours": float(there.sum()) / 3600}
    metrics["nodes.used"] = float(len(np.unique(pods.node[pods.node >= 0])))
    if prices:
        hourly = np.array([price_of(tables, row, prices) for row in range(len(nodes.name))])
        metrics["cost"] = float((there * hourly).sum()) / 3600
        done = int((pods.outcome == Outcome.FINISHED).sum())
        if done:
            metrics["cost.per_finished_pod"] = metrics["cost"] / done
    return metrics


def price_of(tables: Tables, row: int, prices: dict[str, float]) -> float:
    """Per hour: by instance type, or by size where `default.cpu` and `default.memory` (per GiB) are given."""
    nodes = tables.nodes
    price = prices.get(nodes.type[row])
    if price is not None:
        return price
    cpu = nodes.resources.get("cpu", np.zeros(len(nodes.name)))[row] / 1000
    memory = nodes.resources.get("memory", np.zeros(len(nodes.name)))[row] / 2**30
    return float(cpu * prices.get("default.cpu", 0.0) + memory * prices.get("default.memory", 0.0))
