"""Delayed scheduling: a pod is not scheduled before its annotation `delay`, in seconds since its creation."""

from mooring.api.times import format_time, parse_time
from mooring.framework import Action, Args, Hint, Plugin, Resource, requeue_on, unresolvable


class DelayArgs(Args):
    """The cluster that the plugin would ask, had it anything to ask: the handle knows all it needs."""

    kubeconfig: str = ""
    master: str = ""


class Delay(Plugin[DelayArgs]):
    """Holds a pod back until its annotation `delay` has passed."""

    name = "Delay"

    def pre_filter(self, state, pod, nodes):
        text = pod.annotations.get("delay")
        if text is None:
            return None
        try:
            delay = int(text)
        except ValueError:
            note = (
                f'annotation delay: expected seconds, such as "15", found "{text}"; scheduled without delay'
            )
            self.handle.emit_event(pod, "Warning", "MalformedDelay", "Scheduling", note)
            return None
        due = parse_time(pod.metadata.creation_timestamp) + delay
        if self.handle.now() >= due:
            return None
        return unresolvable(f"not before {format_time(due)}, {delay} s after its creation", not_before=due)

    def add_pod(self, state, pod, added, node):
        """Other pods make no difference to a delay."""

    def remove_pod(self, state, pod, removed, node):
        """Nor does it matter that they go."""

    def events_to_register(self):
        yield requeue_on(Resource.POD, Action.UPDATE, self._after_update)

    def _after_update(self, pod, old, new):
        """Somebody may have changed the annotation of this pod."""
        changed = pod.uid == new.uid and old.annotations.get("delay") != new.annotations.get("delay")
        return Hint.QUEUE if changed else Hint.SKIP
