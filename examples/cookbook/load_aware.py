import json
from threading import Thread
from urllib.parse import quote
from urllib.request import urlopen

from mooring.framework import Args, Plugin

QUERY = '100 * (1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"}[5m])))'


class LoadAwareArgs(Args):
    prometheus: str = "http://prometheus.monitoring:9090"
    query: str = QUERY  # percent by node
    refresh_seconds: float = 30


class LoadAware(Plugin[LoadAwareArgs]):
    """Prefer nodes that are idle by what Prometheus measures, whatever their pods request."""

    name = "LoadAware"
    percent, read_at = {}, float("-inf")

    def pre_score(self, state, pod, nodes):
        if self.handle.now() - self.read_at >= self.args.refresh_seconds:
            self.read_at = self.handle.now()
            Thread(target=self.refresh, daemon=True).start()  # not awaited: scheduling must not block

    def score(self, state, pod, node):
        return 100 - min(100, int(self.percent.get(node.name, 50)))

    def refresh(self):
        url = f"{self.args.prometheus}/api/v1/query?query={quote(self.args.query)}"
        try:
            with urlopen(url, timeout=10) as response:
                rows = json.load(response)["data"]["result"]
            self.percent = {row["metric"]["node"]: float(row["value"][1]) for row in rows}
        except (OSError, ValueError, KeyError) as problem:  # keep the last figures
            self.handle.logger.warning("%s: %s", url, problem)
