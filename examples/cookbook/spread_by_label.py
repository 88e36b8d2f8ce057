import numpy as np

from mooring.framework import Args, Plugin, StateKey

COUNTS = StateKey[dict]("pods of the same app, by the value of the node's label")


class SpreadByLabelArgs(Args):
    node_label: str = "example.com/rack"
    pod_label: str = "app"


class SpreadByLabel(Plugin[SpreadByLabelArgs]):
    """Spread the pods of an app over the values of a node label, such as racks."""

    name = "SpreadByLabel"

    def pre_score(self, state, pod, nodes):
        app, counts = pod.labels.get(self.args.pod_label), {}
        for node in self.handle.snapshot.nodes:
            place = node.labels.get(self.args.node_label)
            apps = [p.labels.get(self.args.pod_label) for p in node.pods if p.namespace == pod.namespace]
            counts[place] = counts.get(place, 0) + apps.count(app)
        state.write(COUNTS, counts)

    def score(self, state, pod, node):
        return state.read(COUNTS).get(node.labels.get(self.args.node_label), 0)

    def normalize_score(self, state, pod, scores, nodes):
        most = scores.max()
        return (most - scores) * 100 // most if most else np.full(len(scores), 100)
