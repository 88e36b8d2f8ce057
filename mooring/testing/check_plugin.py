"""check_plugin: does a plugin keep the contract?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod
from mooring.framework.args import Args
from mooring.framework.plugin import Plugin
from mooring.framework.registration import RegistrationError, check_class
from mooring.testing.check_cache_key import Scene, check_cache_key
from mooring.testing.check_events import check_hints, check_registrations
from mooring.testing.check_grains import check_filters, check_scores
from mooring.testing.check_rehearsal import check_queue_sort, check_rehearsal, check_unreserve
from mooring.testing.check_supposing import check_supposing
from mooring.testing.sample import sample_bound, sample_nodes, sample_objects, sample_pending
from mooring.testing.subject import Subject


def check_plugin(
    cls: type[Plugin],
    args: Args | dict[str, Any] | None = None,
    *,
    nodes: Iterable[Node] = (),
    pods: Iterable[Pod] = (),
    objects: Iterable[KubeObject] = (),
) -> None:
    """Raise AssertionError if a plugin breaks the contract: with its method, pod, node and both answers.

    The plugin runs on a sample cluster. Pass `nodes`, `pods` and `objects` that exercise it: a node with its
    label, a pod with its annotation. Checks:

    - the one-node and the table form of filter and score agree, about all nodes, some, or one;
    - statuses have codes that are valid where they are returned, and readable reasons;
    - scores are integers, within 0 to 100 after normalising;
    - filter returns the same result when called again, so it has no side effects;
    - `cache_key` covers what the plugin reads: nothing else changes a result;
    - add_pod and remove_pod lead to the result for pods that are really added and removed;
    - events are valid, and hints work for all kinds of objects;
    - sorts_before orders pods, unreserve works without a prior reserve;
    - in a scheduler, no attempt ends in an error.
    """
    try:
        check_class(cls)
    except RegistrationError as exc:
        raise AssertionError(str(exc)) from exc
    all_nodes = [*nodes, *sample_nodes()]
    all_pods = list(pods)
    running = [pod for pod in all_pods if pod.spec.node_name]
    pending = [*(pod for pod in all_pods if not pod.spec.node_name), *sample_pending()]
    scene = Scene(all_nodes, [*running, *sample_bound(all_nodes)], [*objects, *sample_objects()])

    def make(scene: Scene) -> Subject:
        return Subject(cls, args, scene.nodes, scene.bound, scene.objects, scene.now)

    check_registrations(cls, args)
    subject = make(scene)
    check_hints(subject, pending, scene.objects)
    check_queue_sort(subject, pending)
    check_filters(subject, pending)
    check_scores(subject, pending)
    check_cache_key(make, scene, pending)
    check_supposing(subject, pending)
    check_unreserve(subject, pending)
    check_rehearsal(cls, args, [*scene.nodes, *scene.objects, *scene.bound], pending)
