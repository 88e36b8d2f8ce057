"""What a plugin's answers are cached by."""

from __future__ import annotations

from enum import IntEnum


class CacheKey(IntEnum):
    """What a plugin's answer for one node is computed from, in addition to its arguments and the pod's shape.

    Pods with the same namespace, labels, controller and spec have the same shape. For them the framework
    caches the answers of filter and score, and calls the plugin again only for nodes whose key has changed.
    The answers of pre_filter and pre_score are cached by shape alone. normalize_score may look at which raw
    scores there are, not at how many nodes have them or which.

    A plugin that reads anything else (annotations or the name of the pod, pods on other nodes, other objects,
    the clock) must use NONE.
    """

    NODE = 1  # the Node object
    RESOURCES = 2  # the node's allocatable resources and its pods' requests: equal nodes share an answer
    NODE_AND_PODS = 3  # the Node object and the pods on the node
    ALL_NODES = 4  # the Node objects of all nodes
    NONE = 5  # answers are not cached
