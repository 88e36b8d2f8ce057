"""A pod on trial: would it fit now, as it is or as it might be? Nothing in the scheduler changes by it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from mooring.api.objects import Pod
from mooring.api.storage import PersistentVolumeClaim
from mooring.core.algorithm import Choice
from mooring.core.scheduler import Scheduler
from mooring.explain.refusing import Refusing
from mooring.framework.nodes import BoolArray
from mooring.framework.pod import PodInfo, Shape
from mooring.framework.status import Status
from mooring.runtime.filtering import Answer
from mooring.runtime.profile import Profile
from mooring.runtime.runners import PluginError

MOST_TRIALS = 400  # each takes about a millisecond for 5,000 nodes
MOST_BYTES = 2 << 20  # of all pods on trial: the time that a trial takes grows with the terms of the pod
FEWEST_TRIALS = 4


class Rehearsal:
    """What an attempt at a pod would come to now. Raises PluginError where a plugin fails."""

    def __init__(self, scheduler: Scheduler, pod: PodInfo) -> None:
        self.scheduler = scheduler
        self.pod = pod
        self.nodes = scheduler.cluster.nodes
        self.choice: Choice = scheduler.rehearse(pod)
        self._trials_left = max(FEWEST_TRIALS, min(MOST_TRIALS, MOST_BYTES // len(Shape.key_of(pod.pod))))

    @property
    def is_exhausted(self) -> bool:
        """Whether `fits` answers no more questions."""
        return not self._trials_left

    @property
    def profile(self) -> Profile:
        return self.scheduler.profiles[self.pod.scheduler_name]

    @property
    def feasible(self) -> BoolArray:
        feasible = self.choice.feasible
        return np.zeros(len(self.nodes), np.bool_) if feasible is None else feasible

    @cached_property
    def refusing(self) -> Refusing:
        filtered, rejections = self._without_rejections()
        with self.scheduler.in_rehearsal():
            return Refusing(self.pod, self.choice, filtered, rejections, self.nodes)

    def _without_rejections(self) -> tuple[Choice, list[Status]]:
        """What the filters say once no pre_filter rejects the pod as a whole, and who did."""
        choice, rejections = self.choice, list[Status]()
        while (status := choice.diagnosis.pre_filter) is not None and status.plugin:
            rejections.append(status)
            try:
                lifted = frozenset(each.plugin for each in rejections)
                choice = self.scheduler.rehearse(self.pod, score=False, without=lifted)
            except PluginError:
                break
        return choice, rejections

    def fits(self, pod: Pod, *claims: PersistentVolumeClaim) -> BoolArray:
        """The rows that would take the pod if it were like this, and if these claims existed; after many such
        questions none.

        Extenders are not asked again: what they refused they go on refusing, as far as we know.
        """
        nowhere = np.zeros(len(self.nodes), np.bool_)
        if self.is_exhausted:
            return nowhere
        self._trials_left -= 1
        store = self.scheduler.store
        for claim in claims:
            store.put(claim)
        try:
            choice = self.scheduler.rehearse(PodInfo.of(pod, Shape(pod)), score=False)
        except PluginError:
            return nowhere
        finally:
            for claim in claims:
                store.remove(PersistentVolumeClaim, claim.key)
        return nowhere if choice.feasible is None else choice.feasible & ~self.refusing.by_extenders

    def fits_without(self, row: int, pods: Sequence[PodInfo]) -> bool:
        """Whether a node would take the pod once these pods of it are gone."""
        view = self.nodes.what_if(np.array([row], np.intp), [pods], [()])
        view.set_all_present(np.ones(view.present.shape, np.bool_), False)
        try:
            with self.scheduler.in_rehearsal():
                answer = Answer(self.profile.filters, self.choice.state, self.pod, view)
        except PluginError:
            return False
        return bool(answer.passed.all())
