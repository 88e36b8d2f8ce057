"""Fake nodes: Node objects behind which nothing runs, and pods on them that live as if something did."""

from mooring.sandbox.kubelet.fake_nodes import FakeNodes
from mooring.sandbox.kubelet.machines import make_nodes
from mooring.sandbox.kubelet.nodes_file import NodesFileError, load_nodes

__all__ = ["FakeNodes", "NodesFileError", "load_nodes", "make_nodes"]
