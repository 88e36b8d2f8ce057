"""Sharing GPUs: which devices of a node each pod uses. The six policies of the FGD paper build on it.

A pod that requests less than 1000 gpu-milli shares one device; others take whole idle ones. The devices of a
pod are chosen at Reserve and kept here.
"""

import numpy as np
from devices import MILLI, Devices, fits
from target import Target

from mooring.framework import Args, CacheKey, Plugin, refuse, unschedulable


class GpuShareArgs(Args):
    target: str = ""  # an openb pod list: the workload that fragmentation is measured for


class GpuShare(Plugin[GpuShareArgs]):
    """Filter and Reserve for shared GPUs. Policies override `rate` and, if need be, `choose`.

    Many nodes are in the same state: verdicts and scores are kept by state, in one table for each request.
    """

    cache_key = CacheKey.NODE_AND_PODS

    NO_DEVICE = unschedulable("node(s) had too little left on their GPUs")

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self.target = Target.read(args.target)
        self._nodes = {}
        self._states = []  # every state that a node has been in
        self._numbers = {}  # state → its index there
        self._tables = {}
        self._now = np.zeros(0, np.int64)  # the state of each row of the node table
        self._counts = np.zeros(0, np.int64)  # and the pods on it at that time

    def rate(self, state, cpu, milli):
        """The score of a node in a state for a pod that requests so much."""
        raise NotImplementedError

    def rate_all(self, states, cpu, milli):
        return [self.rate(state, cpu, milli) for state in states]

    def state_of(self, devices):
        """What `rate` is asked about."""
        return devices.state

    def devices(self, node):
        """The devices of a node, whatever pods it has."""
        known = self._nodes.get(node.name)
        if known is None:
            known = self._nodes[node.name] = Devices(node)
        if (
            len(known.pods) == node.pod_count
        ):  # every pod here has been through reserve, so these are the same
            return known
        now = Devices(node)
        for pod in node.pods:
            if pod.uid in known.pods:
                now.take(pod.uid, *known.pods[pod.uid])
        return now

    def filter_nodes(self, state, pod, nodes):
        milli = pod.requests[MILLI]
        if not milli:
            return None
        passed = self._by_state("fits", nodes, milli, lambda states: [fits(s[1], milli) for s in states])
        return refuse(passed == 0, self.NO_DEVICE)

    def score_nodes(self, state, pod, nodes):
        cpu, milli = pod.requests["cpu"], pod.requests[MILLI]
        return self._by_state("score", nodes, (cpu, milli), lambda states: self.rate_all(states, cpu, milli))

    def _by_state(self, what, nodes, request, compute):
        """An answer for each node, computed for the states that are new to this request."""
        numbers = self._state_numbers(nodes)
        table = self._tables.get((what, request))
        if table is None or len(table) < len(self._states):
            longer = np.full(2 * len(self._states), -1, np.int64)
            longer[: 0 if table is None else len(table)] = [] if table is None else table
            table = self._tables[what, request] = longer
        answers = table[numbers]
        if (answers < 0).any():
            new = np.unique(numbers[answers < 0])
            table[new] = compute([self._states[number] for number in new.tolist()])
            answers = table[numbers]
        return answers

    def _state_numbers(self, nodes):
        rows, counts = nodes.rows, nodes.pod_count
        if len(rows) and rows[-1] >= len(self._now):
            size = 2 * int(rows[-1]) + 1
            self._now, self._counts = np.zeros(size, np.int64), np.full(size, -1)
        for i in np.flatnonzero(self._counts[rows] != counts).tolist():
            self._now[rows[i]] = self._number(self.state_of(self.devices(nodes[i])))
            self._counts[rows[i]] = counts[i]
        return self._now[rows]

    def _number(self, state):
        number = self._numbers.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def reserve(self, state, pod, node_name):
        known = self._nodes.get(node_name)
        nodes = self.handle.snapshot.nodes
        row = nodes.index(node_name)
        if known is None or len(known.pods) + 1 != nodes[row].pod_count:  # pods have left
            known = self._nodes[node_name] = self.devices(nodes[row])
        cpu, milli = pod.requests["cpu"], pod.requests[MILLI]
        known.take(pod.uid, cpu, milli, self._devices_for(known, cpu, milli))
        self._counts[row : row + 1] = -1

    def unreserve(self, state, pod, node_name):
        if pod.uid in self._nodes[node_name].pods:
            self._nodes[node_name].give_back(pod.uid)

    def _devices_for(self, devices, cpu, milli):
        if not milli:
            return ()
        if milli < 1000:
            return (self.choose(devices, cpu, milli),)
        idle = [device for device, left in enumerate(devices.left) if left == 1000]
        return tuple(idle[: milli // 1000])

    def choose(self, devices, cpu, milli):
        """The device for a pod that shares one: the tightest that suffices."""
        return min((left, device) for device, left in enumerate(devices.left) if left >= milli)[1]

    def fragment(self, node):
        """GPU-milli of the node that the target workload cannot use."""
        return self.target.fragment(self.devices(node).state)
