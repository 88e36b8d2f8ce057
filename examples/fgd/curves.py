"""The figures of the paper from the tables of a run: allocation and fragmentation by arrived load."""

import numpy as np

MILLI = "alibabacloud.com/gpu-milli"


def curves(tables):
    """By percent of arrived load: allocated GPUs, fragments (both of all GPUs) and fragments of idle GPUs, in
    percent; as the original computes them from its log, with its rounding."""
    requests = tables.requests(MILLI)
    capacity = tables.nodes.resources[MILLI].sum()
    arrived = np.cumsum(requests)
    used = np.cumsum(requests * ~np.isnan(tables.pods.bound))
    fragment = tables.samples["fragment"]
    values = {
        "alloc": np.round(100 * used / capacity, 2),
        "frag": 100 * fragment / capacity,
        "fragratio": np.round(100 * fragment / (capacity - used), 2),
    }
    bins = np.rint(arrived / (capacity / 100)).astype(int)
    return {name: _by_load(bins, column) for name, column in values.items()}


def _by_load(bins, column):
    """The mean of each bin; one without arrivals takes the mean of its neighbours."""
    count, total = np.bincount(bins), np.bincount(bins, column)
    means = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    for empty in np.flatnonzero(np.isnan(means)):
        means[empty] = np.nanmean(means[max(empty - 1, 0) : empty + 2])
    return means
