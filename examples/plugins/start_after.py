from mooring.api.times import parse_time
from mooring.framework import Action, Plugin, Resource, requeue_on, unresolvable


class StartAfter(Plugin):
    """Hold a pod back until the time in its annotation `start-after`."""

    name = "StartAfter"

    def pre_enqueue(self, pod):
        text = pod.annotations.get("start-after", "")
        try:
            due = parse_time(text) if text else 0.0
        except ValueError as problem:
            self.handle.logger.warning("pod %s: annotation start-after: %s", pod.key, problem)
            return None
        if self.handle.now() < due:
            return unresolvable(f"waits until {text}", not_before=due)
        return None

    def events_to_register(self):
        yield requeue_on(Resource.POD, Action.UPDATE)
