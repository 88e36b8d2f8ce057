"""Fake nodes: Node objects behind which nothing runs, and pods on them that live as if something did."""

from mooring.nodes.fake_nodes import FakeNodes
from mooring.nodes.files import NodesFileError, load_nodes
from mooring.nodes.machines import make_nodes

__all__ = ["FakeNodes", "NodesFileError", "load_nodes", "make_nodes"]
