"""`mooring explain`: why a pod is pending, why it was scheduled where it is, what would make it fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import click
import msgspec

from mooring.api.groups import PodGroup
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.cli.errors import exit_with
from mooring.cli.explain_sources import NO_SUCH_POD, Source, no_such, open_source, source_flags
from mooring.cli.flags import option
from mooring.cli.output import echo_report, write_data
from mooring.cli.targets import (
    Replicated,
    Target,
    describe,
    is_pending,
    matching,
    parse,
    pods_of,
    short_workloads,
)
from mooring.core.groups.dialects import labelled_group, native_group
from mooring.explain import words
from mooring.explain.causes import SETTLED, by_cause, cause, list_causes, list_workload
from mooring.explain.explanation import Causes, Explanation, Explanations, GroupExplanation
from mooring.explain.group_report import report_group
from mooring.explain.report import report
from mooring.framework.pod import GroupKey

OUTPUTS = click.Choice(["text", "json", "yaml"])


@click.command()
@click.argument("what", nargs=-1, metavar="[POD | KIND/NAME]...")
@option(
    "-n",
    "--namespace",
    default="",
    metavar="NAME",
    help="Namespace of the pods (default: that of the kubeconfig context)",
)
@option("-l", "--selector", default="", metavar="SELECTOR", help="Explain the pods with these labels")
@option("-A", "--all-namespaces", is_flag=True, help="Explain all pending pods of all namespaces")
@source_flags
@option("-o", "--output", type=OUTPUTS, default="text", help="Output format")
def explain(
    what: tuple[str, ...],
    namespace: str,
    selector: str,
    all_namespaces: bool,
    output: str,
    **source_options: Any,
) -> None:
    """Explain why a pod is pending or where it was scheduled, and what would make it fit. POD is NAME or
    NAMESPACE/NAME; KIND is pod, deploy, rs, sts, ds, job or podgroup.

    A PodGroup is explained as a whole: how many members have a place, and which others lack what.

    With -l the pods that match are explained; with -A, all pending pods by cause, as by `mooring pending`.

    By default the explanation is computed from the objects of the cluster in your kubeconfig; pass the
    scheduler's --config and --plugin if it has any. In a `mooring up` cluster its scheduler answers instead,
    unless you pass --config or --plugin. The command never changes anything.

    With -f it is computed from manifests, such as the output of
    `kubectl get nodes,pods,pv,pvc -A -o yaml`.

    With --endpoint a running `mooring scheduler` answers, including its past attempts. Your kubeconfig's user
    needs permission to get /debug/decisions/*. To reach a scheduler in a pod:

    \b
      kubectl -n mooring port-forward deploy/mooring 10259
      mooring explain POD --endpoint https://localhost:10259 --insecure-skip-tls-verify

    \b
    Exit codes:
      0  everything was explained
      1  a pod, workload or group was not found
      2  invalid usage, configuration or kubeconfig
      3  the cluster or the endpoint is unreachable or rejected the request
    """
    if not (what or selector or all_namespaces):
        raise click.UsageError("name a pod or a workload, or pass -l SELECTOR or -A")
    if all_namespaces and namespace:
        raise click.UsageError("-A and -n are mutually exclusive")
    targets = [parse(each, namespace) for each in what]
    source = open_source(**source_options)
    if len(targets) == 1 and targets[0].kind is Pod and not selector:
        explanation = source.explain(targets[0].namespace, targets[0].name)
        _show(explanation, output, report)
    elif len(targets) == 1 and targets[0].kind is PodGroup and not selector:
        _show(_group(source, targets[0]), output, report_group)
    elif all_namespaces and not targets and not selector:
        _show(pending_pods(source, ""), output, list_causes)
    else:
        scope = "" if all_namespaces else source.namespace(namespace)
        _show(_several(source, targets, selector, scope), output, _list_several)


def pending_pods(source: Source, namespace: str) -> Causes:
    """Explain all pending pods of a namespace, "" for all; pods that are alike are explained once."""
    objects = source.objects()
    pending = [obj for obj in objects if isinstance(obj, Pod) and is_pending(obj)]
    pending = [pod for pod in pending if namespace in ("", pod.namespace)]
    source.warn(pending)
    groups, others = _by_group(source, pending)
    alike: dict[tuple[Any, ...], list[Pod]] = {}
    for pod in others:
        alike.setdefault(_likeness(pod), []).append(pod)
    explained = [
        (source.explain(pods[0].namespace, pods[0].name), [pod.key for pod in pods])
        for pods in alike.values()
    ]
    return by_cause(explained, short_workloads(objects, namespace), groups)


def _by_group(
    source: Source, pods: Iterable[Pod]
) -> tuple[list[tuple[GroupExplanation, list[str]]], list[Pod]]:
    """Return the groups that have not started with their pods, and the pods that wait for themselves."""
    members: dict[GroupKey, list[Pod]] = {}
    others: list[Pod] = []
    for pod in pods:
        key = native_group(pod) or labelled_group(pod)
        if key is None:
            others.append(pod)
        else:
            members.setdefault(key, []).append(pod)
    groups = []
    for key, waiting in members.items():
        explanation = source.explain_group(key.namespace, key.name)
        if explanation is None or explanation.state == "scheduled":
            others += waiting
        else:
            groups.append((explanation, [pod.key for pod in waiting]))
    return groups, others


def _group(source: Source, target: Target) -> GroupExplanation:
    namespace = target.namespace or source.namespace("")
    explanation = source.explain_group(namespace, target.name)
    if explanation is None:
        existing = [obj.key for obj in source.objects() if isinstance(obj, PodGroup)]
        no_such("podgroup", f"{namespace}/{target.name}", source.where, existing)
    return explanation


def _likeness(pod: Pod) -> tuple[Any, ...]:
    """Pods for which this is equal have one explanation."""
    said = [(c.reason, c.message) for c in pod.status.conditions if c.type == "PodScheduled"]
    labels = sorted(pod.metadata.labels.items())
    return pod.namespace, str(said), str(labels), msgspec.json.encode(pod.spec)


def _several(source: Source, targets: Sequence[Target], selector: str, namespace: str) -> Explanations:
    """Explain pods and workloads; of a workload the pending pods, or all if none is pending."""
    objects = source.objects()
    pods = [obj for obj in objects if isinstance(obj, Pod)]
    chosen: dict[str, Pod | None] = {}
    workloads = []
    groups = []
    for target in targets:
        if target.kind is PodGroup:
            groups.append(_group(source, target))
            continue
        if target.kind is Pod:
            chosen[f"{target.namespace or source.namespace('')}/{target.name}"] = None
            continue
        target = target._replace(namespace=target.namespace or source.namespace(""))
        mine = pods_of(target, pods)
        owner = next((o for o in objects if type(o) is target.kind and _is_named(o, target)), None)
        if isinstance(owner, Replicated):
            workloads.append(describe(owner, objects))
        elif not mine:
            kind = target.kind.__name__.lower()
            exit_with(f"{kind} {target.namespace}/{target.name}: not found in {source.where}", NO_SUCH_POD)
        chosen |= {pod.key: pod for pod in [pod for pod in mine if is_pending(pod)] or mine}
    if selector:
        labelled = [pod for pod in matching(pods, selector) if namespace in ("", pod.namespace)]
        if not labelled:
            exit_with(f"no pod matches -l {selector} in {source.where}", NO_SUCH_POD)
        chosen |= {pod.key: pod for pod in labelled}
    source.warn(pod for pod in chosen.values() if pod is not None)
    explained = [source.explain(*key.split("/")) for key in chosen]
    return Explanations(pods=explained, workloads=workloads, groups=groups)


def _is_named(obj: KubeObject, target: Target) -> bool:
    return (obj.namespace, obj.name) == (target.namespace, target.name)


def _list_several(explanations: Explanations) -> Iterator[str]:
    """Groups and workloads first; then one report for each cause, and a line for each pod with a node."""
    for group in explanations.groups:
        yield from report_group(group)
        yield ""
    for each in explanations.workloads:
        yield from list_workload(each)
        yield ""
    first: dict[str, Explanation] = {}
    others: dict[str, list[str]] = {}
    for explanation in explanations.pods:
        if explanation.state in SETTLED:
            yield explanation.summary
            continue
        text = cause(explanation)
        if text in first:
            others.setdefault(text, []).append(explanation.pod)
        else:
            first[text] = explanation
    for text, explanation in first.items():
        yield from report(explanation)
        same = others.get(text, [])
        if same:
            yield ""
            names = words.listed(same[:3], len(same))
            yield f"{words.count(len(same), 'more pod')} for the same cause: {names}"
        yield ""


def _show(value: Any, output: str, lines: Callable[[Any], Iterable[str]]) -> None:
    if output == "text":
        for line in lines(value):
            echo_report(line)
    else:
        write_data(value, output)
