from mooring.framework import Action, Args, Plugin, PodInfo, Resource, requeue_on, unresolvable, wait


class WaitForApprovalArgs(Args):
    annotation: str = "example.com/approved"
    timeout_seconds: float = 600


class WaitForApproval(Plugin[WaitForApprovalArgs]):
    """Choose a node for pods labelled `approval=required`, and bind them once they are annotated."""

    name = "WaitForApproval"

    def permit(self, state, pod, node_name):
        answer = pod.annotations.get(self.args.annotation)
        if pod.labels.get("approval") != "required" or answer == "true":
            return None
        if answer is not None:
            return unresolvable(f"not approved: {answer}")
        return wait(self.args.timeout_seconds, f"waits for the annotation {self.args.annotation}")

    def while_waiting(self, waiting, old, new):
        if not isinstance(new, PodInfo) or new.uid != waiting.pod.uid:
            return
        answer = new.annotations.get(self.args.annotation)
        if answer == "true":
            waiting.allow(self.name)
        elif answer is not None:
            waiting.reject(self.name, f"not approved: {answer}")

    def events_to_register(self):
        yield requeue_on(Resource.POD, Action.UPDATE)
