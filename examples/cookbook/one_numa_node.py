from mooring.framework import Args, Plugin


class OneNumaNodeArgs(Args):
    attribute: str = "numa"


class OneNumaNode(Plugin[OneNumaNodeArgs]):
    """Prefer nodes on which all devices of a pod's claims sit on one NUMA node, or PCIe root."""

    name = "OneNumaNode"

    def score(self, state, pod, node):
        devices = self.handle.devices.chosen(state, pod, node)
        places = {device.attributes.get(self.args.attribute) for device in devices}
        return 100 // len(places) if places else 0
