"""The target workload: the pods to expect, and how much of a node's GPUs they cannot use (its fragment)."""

from collections import Counter
from functools import lru_cache

import numpy as np
from devices import MILLI

from mooring.simulate.traces import read_trace

POPULAR = 0.95  # of the pods are in the target


class Target:
    """Specs of pods with their shares, and the fragments of nodes for them."""

    def __init__(self, counts):
        """`counts`: (cpu, milli per device, devices, models joined by |) → number of pods."""
        ranked = sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True)
        total, taken = sum(counts.values()), 0
        specs = []
        for spec, count in ranked:
            if taken >= POPULAR * total:
                break
            specs.append((spec, count))
            taken += count
        self.cpu = np.array([cpu for (cpu, _, _, _), _ in specs])
        self.milli = np.array([milli for (_, milli, _, _), _ in specs])
        self.devices = np.array([devices for (_, _, devices, _), _ in specs])
        self.models = [frozenset(filter(None, models.split("|"))) for (_, _, _, models), _ in specs]
        # Divided twice, as in the original: its last bits decide truncated scores.
        self.share = np.array([(count / total) / (taken / total) for _, count in specs])
        self._allowed = {}
        self._fragments = {}

    @classmethod
    @lru_cache(maxsize=4)
    def read(cls, path):
        """The target of an openb pod list."""
        arrivals = read_trace("openb-pods", path)
        counts = Counter()
        by_template = np.bincount(arrivals.template, minlength=len(arrivals.templates)).tolist()
        for template, count in zip(arrivals.templates, by_template, strict=True):
            counts[_spec(template.pod)] += count
        return cls(counts)

    def fragment(self, state):
        """What is left on a node's devices that its next pod cannot use, weighted by the pods' shares."""
        if state not in self._fragments:
            self.prepare([state])
        return self._fragments[state]

    def prepare(self, states):
        """Compute the fragments of many states (free cpu, what is left of each device, model) at once."""
        new = [state for state in dict.fromkeys(states) if state not in self._fragments]
        if new:
            self._fragments.update(zip(new, self._compute(new), strict=True))

    def _compute(self, states):
        """Sums are kept by why a pod cannot use the node, as in the original: the order of additions decides
        the last bits, and these decide truncated scores."""
        most = max(len(left) for _, left, _ in states)
        cpu = np.array([[cpu] for cpu, _, _ in states])
        left = np.array([left + (0,) * (most - len(left)) for _, left, _ in states], np.int64)
        allowed = np.array([self._allows(model) for _, _, model in states])
        total = left.sum(axis=1)[:, None]
        fitting = left[:, :, None] >= self.milli
        unusable = np.where(fitting, 0, left[:, :, None]).sum(axis=1)
        has_cpu, has_gpu = cpu >= self.cpu, fitting.sum(axis=1) >= self.devices
        needs_gpu = self.devices > 0
        usable = needs_gpu & allowed
        reasons = (
            np.where(usable & ~has_gpu & ~has_cpu, total, 0),
            np.where(usable & has_cpu, np.where(has_gpu, unusable, total), 0),
            np.where(usable & has_gpu & ~has_cpu, total, 0),
            np.where(~needs_gpu & has_cpu, total, 0),
            np.where(~needs_gpu & ~has_cpu, total, 0),
            np.where(needs_gpu & ~allowed, total, 0),
        )
        sums = [np.cumsum(amounts * self.share, axis=1)[:, -1] for amounts in reasons]
        return (((((sums[0] + sums[1]) + sums[2]) + sums[3]) + sums[4]) + sums[5]).tolist()

    def _allows(self, model):
        if model not in self._allowed:
            self._allowed[model] = np.array([not models or model in models for models in self.models])
        return self._allowed[model]


def _spec(pod):
    requests = pod.spec.containers[0].resources.requests
    cpu, milli = int(requests["cpu"].rstrip("m")), int(requests.get(MILLI, 0))
    models = ""
    if pod.spec.affinity is not None:
        terms = pod.spec.affinity.node_affinity.required.node_selector_terms
        models = "|".join(terms[0].match_expressions[0].values)
    return cpu, min(milli, 1000), (milli + 999) // 1000, models
