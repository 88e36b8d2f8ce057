"""sample-plugin: says what it is asked, at pre_filter, filter and pre_bind."""

import msgspec

from mooring.framework import Args, Plugin, error


class SamplePluginArgs(Args, rename=str):
    """Written with underscores in `pluginConfig`, as the document has them."""

    favorite_color: str = ""
    favorite_number: int = 0
    thanks_to: str = ""


class SamplePlugin(Plugin[SamplePluginArgs]):
    """Logs what happens to a pod on its way to a node, and refuses nothing."""

    name = "sample-plugin"

    def __init__(self, args, handle):
        super().__init__(args, handle)
        handle.logger.info("get plugin config args: %s", msgspec.json.encode(args).decode())

    def pre_filter(self, state, pod, nodes):
        self.handle.logger.info("prefilter pod: %s", pod.name)

    def filter(self, state, pod, node):
        self.handle.logger.info("filter pod: %s, node: %s", pod.name, node.name)

    def pre_bind(self, state, pod, node_name):
        node = self.handle.snapshot.node(node_name)
        if node is None:
            return error(f"prebind get node info error: {node_name}")
        self.handle.logger.info("prebind node info: %s", node.name)
        return None
