import json
from threading import Thread
from urllib.request import urlopen

from mooring.framework import Args, Plugin


class CarbonAwareArgs(Args):
    url: str = "http://carbon.monitoring/now"  # responds with {"REGION": gCO2 per kWh, …}
    label: str = "topology.kubernetes.io/region"
    refresh_seconds: float = 300


class CarbonAware(Plugin[CarbonAwareArgs]):
    """Prefer regions with clean power now. For a price instead, change the URL."""

    name = "CarbonAware"
    figures, read_at = {}, float("-inf")

    def pre_score(self, state, pod, nodes):
        if self.handle.now() - self.read_at >= self.args.refresh_seconds:
            self.read_at = self.handle.now()
            Thread(target=self.refresh, daemon=True).start()  # not awaited: scheduling must not block

    def score(self, state, pod, node):
        return int(self.figures.get(node.labels.get(self.args.label), 1000))

    def normalize_score(self, state, pod, scores, nodes):
        return 100 - scores * 100 // max(scores.max(), 1)

    def refresh(self):
        try:
            with urlopen(self.args.url, timeout=10) as response:
                self.figures = json.load(response)
        except (OSError, ValueError) as problem:  # keep the last figures
            self.handle.logger.warning("%s: %s", self.args.url, problem)
