"""Pods go to nodes that carry a priority; the node with the highest is the best."""

from mooring import extender

LABEL = "priority.lixueduan.com"


def priority(node):
    value = node.metadata.labels[LABEL]
    return int(value) if value.isdecimal() else 0


@extender.filter
def labelled(pod, nodes):
    """Only the nodes that carry the label."""
    labelled_nodes = [node for node in nodes if LABEL in node.metadata.labels]
    if not labelled_nodes:
        raise extender.ExtenderError(f"all node do not have label {LABEL}")
    return labelled_nodes


@extender.filter("/filter_onlyone")
def only_the_best(pod, nodes):
    """The one node with the highest priority, which leaves the scheduler no choice."""
    return [max(labelled(pod, nodes), key=priority)]


@extender.prioritize
def score(pod, node):
    """The label's value is the score."""
    return priority(node)
