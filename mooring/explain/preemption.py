"""Would evicting pods of lower priority make room, and what priority would it take?"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.objects import Pod
from mooring.core.diagnosis import DiagnosedStatuses
from mooring.explain import commands, words
from mooring.explain.alterations import altered
from mooring.explain.explanation import Change, Preemption
from mooring.explain.refusing import EXAMPLES
from mooring.explain.rehearsal import Rehearsal
from mooring.framework.plugin import PostFilterResult
from mooring.framework.pod import PodInfo, Shape
from mooring.framework.status import Code, error
from mooring.plugins.default_preemption.default_preemption import DefaultPreemption, PreemptionDetail
from mooring.plugins.default_preemption.victims import Candidate, DryRun, try_rows
from mooring.runtime.runners import PluginError

HIGHEST = 1_000_000_000  # that users may give to a PriorityClass
MOST_TRIED = 100  # nodes on which a higher priority is tried


def preemption(rehearsal: Rehearsal) -> Preemption | None:
    """What the default preemption would do for the pod; None where the profile has none.

    Other post_filter plugins are not asked: they may act on what they find.
    """
    result = _try(rehearsal)
    if result is None:
        return None
    if not result.victims:
        message = "" if result.status is None else result.status.message
        return Preemption(helps=False, message=message)
    return Preemption(
        helps=True,
        node=result.nominated_node or "",
        victims=[victim.key for victim in result.victims],
        candidates=len(result.detail.candidates) if isinstance(result.detail, PreemptionDetail) else 0,
    )


def higher_priority(rehearsal: Rehearsal) -> Iterator[Change]:
    """The lowest priority with which the pod could preempt, where with its own it cannot."""
    pod = rehearsal.pod.pod
    eager = altered(pod, priority=HIGHEST, preemption_policy="PreemptLowerPriority")
    candidates = _candidates(rehearsal, eager)
    if not candidates:
        return
    needed = 1 + min(each.victims[0].priority for each in candidates)  # the first is the most important
    text, field = "set a preemptionPolicy other than Never", "spec.preemptionPolicy"
    command = commands.patch_spec(pod, {"preemptionPolicy": "PreemptLowerPriority"})
    if needed > pod.priority:
        text, field = (
            f"raise the priority to {needed} or more (it has {pod.priority})",
            "spec.priorityClassName",
        )
        command = _raise_priority(pod, needed)
        candidates = _candidates(rehearsal, altered(eager, priority=needed))
    if candidates:
        best = min(candidates, key=lambda each: each.badness)
        victims = words.listed([victim.key for victim in best.victims[:2]], len(best.victims))
        text += f", to evict {victims} from {best.node_name}"
        names = [each.node_name for each in candidates]
        yield Change(
            kind="priority",
            text=text,
            nodes=len(names),
            examples=names[:EXAMPLES],
            field=field,
            command=command,
        )


def _raise_priority(pod: Pod, priority: int) -> str:
    """Create a class and use it; the pod's own number goes, as admission computes it from the class."""
    name = f"priority-{priority}"
    patch = commands.patch_spec(pod, {"priorityClassName": name, "priority": None})
    create = commands.kubectl("create", "priorityclass", name, f"--value={priority}")
    return f"{create} && {patch}" if patch else ""


def _candidates(rehearsal: Rehearsal, pod: Pod) -> list[Candidate]:
    """Where such a pod could preempt, among as many nodes as are worth trying."""
    plugin = _plugin(rehearsal)
    if plugin is None:
        return []
    info, dry_run = PodInfo.of(pod, Shape(pod)), DryRun()
    try:
        choice = rehearsal.scheduler.rehearse(info, score=False)
        rows = choice.diagnosis.rows_with(Code.UNSCHEDULABLE)[:MOST_TRIED].tolist()
        if choice.row is None:
            with rehearsal.scheduler.in_rehearsal():
                try_rows(plugin.handle, choice.state, info, rows, dry_run)
    except PluginError:
        return []
    return list(dry_run.candidates.values())


def _try(rehearsal: Rehearsal) -> PostFilterResult | None:
    plugin, diagnosis = _plugin(rehearsal), rehearsal.choice.diagnosis
    if plugin is None:
        return None
    try:
        with rehearsal.scheduler.in_rehearsal():
            return plugin.post_filter(rehearsal.choice.state, rehearsal.pod, DiagnosedStatuses(diagnosis))
    except PluginError as exc:
        return PostFilterResult(None, error(str(exc)))


def _plugin(rehearsal: Rehearsal) -> DefaultPreemption | None:
    plugins = rehearsal.profile.at("postFilter")
    return next((each for each in plugins if isinstance(each, DefaultPreemption)), None)
