"""The pace of a recorded scheduler: an attempt may be made later than its pod's arrival.

In a cluster, time passes between a pod's arrival and its binding, and the scheduler decides somewhere in
between. A recording does not show when. With `ties: recorded` the first moment in that time is taken at which
the recorded node is one of the best; if there is none, the attempt is made when the pod was bound.
"""

from __future__ import annotations

from mooring.framework.pod import PodInfo
from mooring.simulate.agenda import Order
from mooring.simulate.arrivals import LONGEST_BINDING
from mooring.simulate.engine import CoreRun


class RecordedPace:
    """Prefers recorded nodes, and holds the first pod of the queue back until its own is one of the best."""

    def __init__(self, run: CoreRun) -> None:
        self._run = run
        self._waking: set[str] = set()
        run.scheduler.prefer(self._node)
        run.held = self.holds

    def _node(self, pod: PodInfo) -> str:
        template = self._run.template_of(pod.uid)
        return "" if template is None else template.recorded_node

    def holds(self) -> bool:
        """Return whether the scheduler has not yet decided about the first pod of its queue."""
        run = self._run
        queued = run.scheduler.queue.peek()
        template = None if queued is None else run.template_of(queued.pod.uid)
        if queued is None or template is None or not template.recorded_node:
            return False
        pod, now, bound = queued.pod, run.clock.now, template.recorded_bound
        if not now < bound <= now + LONGEST_BINDING or self._is_best(pod, template.recorded_node):
            return False
        if pod.uid not in self._waking:
            self._waking.add(pod.uid)
            run.at(bound, Order.TIMER, lambda: self._waking.discard(pod.uid))
        return True

    def _is_best(self, pod: PodInfo, node_name: str) -> bool:
        """Return whether an attempt could choose a node now; true if none fits, for the attempt to fail."""
        scheduler = self._run.scheduler
        choice = scheduler.rehearse(pod)
        row = scheduler.cluster.table.row_of.get(node_name)
        if choice.row is None or choice.row == row:
            return True
        return choice.best is not None and row in choice.best
