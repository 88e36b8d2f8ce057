import msgspec

from mooring.api.meta import Struct
from mooring.framework import Action, ApiResource, KubeObject, Plugin, requeue_on, unresolvable


class DatasetStatus(Struct):
    nodes: list[str] = []


class Dataset(KubeObject):
    status: DatasetStatus = msgspec.field(default_factory=DatasetStatus)


DATASETS = ApiResource("example.com", "v1", "datasets", True, Dataset)


class DataLocality(Plugin):
    """Prefer the nodes that hold a copy of the pod's dataset, which its label `dataset` names."""

    name = "DataLocality"
    watches = (DATASETS,)

    def pre_filter(self, state, pod, nodes):
        name = pod.labels.get("dataset")
        if name and self._dataset(pod) is None:
            return unresolvable(f"dataset {name} does not exist")
        return None

    def score(self, state, pod, node):
        dataset = self._dataset(pod)
        return 100 if dataset and node.name in dataset.status.nodes else 0

    def events_to_register(self):
        yield requeue_on(DATASETS.name, Action.ADD)

    def _dataset(self, pod):
        return self.handle.listers.get(Dataset, pod.labels.get("dataset", ""), pod.namespace)
