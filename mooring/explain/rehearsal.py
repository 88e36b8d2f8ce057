"""A pod on trial: would it fit now, as it is or as it might be? Nothing in the scheduler changes by it."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from mooring.api.objects import Pod
from mooring.core.algorithm import Choice
from mooring.core.scheduler import Scheduler
from mooring.explain.refusing import Refusing
from mooring.framework.nodes import BoolArray
from mooring.framework.pod import PodInfo, Shape
from mooring.runtime.profile import Profile
from mooring.runtime.runners import PluginError

MOST_TRIALS = 200  # each takes about a millisecond for 5,000 nodes


class Rehearsal:
    """What an attempt at a pod would come to now. Raises PluginError where a plugin fails."""

    def __init__(self, scheduler: Scheduler, pod: PodInfo) -> None:
        self.scheduler = scheduler
        self.pod = pod
        self.nodes = scheduler.cluster.nodes
        self.choice: Choice = scheduler.rehearse(pod)
        self._trials = 0

    @property
    def profile(self) -> Profile:
        return self.scheduler.profiles[self.pod.scheduler_name]

    @property
    def feasible(self) -> BoolArray:
        feasible = self.choice.feasible
        return np.zeros(len(self.nodes), np.bool_) if feasible is None else feasible

    @cached_property
    def refusing(self) -> Refusing:
        with self.scheduler.in_rehearsal():
            return Refusing(self.pod, self.choice, self.nodes)

    def fits(self, pod: Pod) -> BoolArray:
        """The rows that would take the pod if it were like this; after many such questions none.

        Extenders are not asked again: what they refused they go on refusing, as far as we know.
        """
        nowhere = np.zeros(len(self.nodes), np.bool_)
        self._trials += 1
        if self._trials > MOST_TRIALS:
            return nowhere
        try:
            choice = self.scheduler.rehearse(PodInfo.of(pod, Shape(pod)), score=False)
        except PluginError:
            return nowhere
        return nowhere if choice.feasible is None else choice.feasible & ~self.refusing.by_extenders
