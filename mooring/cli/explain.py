"""`mooring explain`: why a pod is pending, why it was scheduled where it is, what would make it fit."""

from __future__ import annotations

import asyncio
import difflib
import sys
from collections.abc import Iterable, Sequence
from typing import NoReturn

import click
import msgspec

from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.cli.errors import exit_with
from mooring.cli.flags import kubeconfig_flags, option, text
from mooring.cli.manifests import apply_all, filename_option, make_scheduler, read_manifests
from mooring.cli.output import echo
from mooring.cli.plugins import plugin_option
from mooring.cli.reach import Endpoint, RefusedError, UnknownPodError, ask_endpoint, list_cluster
from mooring.client.api_errors import ClusterError
from mooring.client.credentials import Credentials, CredentialsError, load_user_credentials
from mooring.core.scheduler import Scheduler
from mooring.explain.explain import explain_objects
from mooring.explain.explanation import Explanation
from mooring.explain.report import report

NO_SUCH_POD, INVALID, UNREACHABLE = 1, 2, 3
MAX_HINTS = 5


@click.command()
@click.argument("pod")
@option(
    "-n",
    "--namespace",
    default="",
    metavar="NAME",
    help="Namespace of the pod (default: that of the kubeconfig context)",
)
@filename_option(required=False)
@option("--config", "config_file", metavar="FILE", help="The scheduler's KubeSchedulerConfiguration file")
@plugin_option
@kubeconfig_flags
@text("--endpoint", "Address of a running scheduler, such as https://HOST:10259", metavar="URL")
@text(
    "--endpoint-certificate-authority",
    "CA certificate of the endpoint (default: the cluster's CA)",
    metavar="FILE",
)
@option("--insecure-skip-tls-verify", is_flag=True, help="Do not verify the endpoint's TLS certificate")
@option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format")
def explain(
    pod: str,
    namespace: str,
    files: tuple[str, ...],
    config_file: str | None,
    plugins: tuple[str, ...],
    kubeconfig: str,
    context: str,
    endpoint: str,
    endpoint_certificate_authority: str,
    insecure_skip_tls_verify: bool,
    output: str,
) -> None:
    """Explain why a pod is pending or where it was scheduled, and what would make it fit. POD is NAME or
    NAMESPACE/NAME.

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
      0  the pod was explained
      1  the pod was not found
      2  invalid usage, configuration or kubeconfig
      3  the cluster or the endpoint is unreachable or rejected the request
    """
    if files and endpoint:
        raise click.UsageError("-f and --endpoint are mutually exclusive")
    namespace, pod = _names(namespace, pod)
    if files:
        explanation = _from_files(files, namespace, pod, config_file, plugins)
    else:
        credentials = _credentials(kubeconfig, context, needed=not endpoint)
        namespace = namespace or (credentials.namespace if credentials else "default")
        if endpoint:
            place = Endpoint(endpoint, endpoint_certificate_authority, insecure_skip_tls_verify)
            explanation = _from_endpoint(place, credentials, namespace, pod)
        elif credentials is not None:
            answer = None if config_file or plugins else _from_named_scheduler(credentials, namespace, pod)
            explanation = answer or _from_cluster(credentials, namespace, pod, config_file, plugins)
    if output == "json":
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(explanation), indent=2) + b"\n")
    else:
        _print(explanation)


def _names(namespace: str, pod: str) -> tuple[str, str]:
    """Split NAMESPACE/NAME, and check it against --namespace."""
    before, slash, after = pod.rpartition("/")
    if slash and namespace not in ("", before):
        raise click.UsageError(f'pod "{pod}" is not in namespace "{namespace}"')
    if "/" in before or not after:
        raise click.UsageError(f'pod "{pod}": expected NAME or NAMESPACE/NAME')
    return before or namespace, after


def _print(explanation: Explanation) -> None:
    """Print the report; headings are bold on a terminal (click strips styles elsewhere)."""
    for line in report(explanation):
        heading = bool(line) and not line.startswith(" ")
        echo(line, bold=heading)


# ---- computed here


def _from_files(
    files: Iterable[str], namespace: str, pod: str, config_file: str | None, plugins: Iterable[str]
) -> Explanation:
    objects, problems = read_manifests(files)
    scheduler = make_scheduler(config_file, plugins)
    source = "computed from manifests, for this pod alone"
    where = ", ".join("standard input" if file == "-" else file for file in files)
    return _compute(scheduler, objects, problems, namespace, pod, source, where)


def _from_cluster(
    credentials: Credentials, namespace: str, pod: str, config_file: str | None, plugins: Iterable[str]
) -> Explanation:
    scheduler = make_scheduler(config_file, plugins)
    try:
        objects, problems = asyncio.run(list_cluster(credentials))
    except (ClusterError, CredentialsError) as exc:
        exit_with(str(exc), UNREACHABLE)
    source = f"computed from the cluster at {credentials.server}; past attempts are unknown"
    where = f"the cluster at {credentials.server} (pods that have not terminated)"
    return _compute(scheduler, objects, problems, namespace, pod, source, where)


def _compute(
    scheduler: Scheduler,
    objects: Sequence[KubeObject],
    problems: list[str],
    namespace: str,
    pod: str,
    source: str,
    where: str,
) -> Explanation:
    pods = {obj.key: obj for obj in objects if isinstance(obj, Pod)}
    if not namespace:
        namesakes = [key for key in pods if key.endswith(f"/{pod}")]
        namespace = namesakes[0].partition("/")[0] if len(namesakes) == 1 else "default"
    target = pods.get(f"{namespace}/{pod}")
    others = [obj for obj in objects if obj is not target or not target.spec.node_name]
    for problem in problems + apply_all(scheduler, others):
        echo(problem, err=True)
    if target is None:
        _no_such_pod(f"{namespace}/{pod}", where, pods)
    return explain_objects(scheduler, target, source)


def _no_such_pod(key: str, where: str, existing: Iterable[str] = ()) -> NoReturn:
    namespace, _, name = key.partition("/")
    names = {each: each.partition("/")[2] for each in existing}
    same = [each for each, short in names.items() if short == name]
    close = set(difflib.get_close_matches(name, names.values(), n=MAX_HINTS, cutoff=0.6))
    near = same or sorted(
        (each for each, short in names.items() if short in close),
        key=lambda each: (not each.startswith(f"{namespace}/"), each),
    )
    message = f"pod {key}: not found in {where}"
    if near:
        message += f"\nhint: did you mean {' or '.join(near[:MAX_HINTS])}?"
    exit_with(message, NO_SUCH_POD)


# ---- answered by a running scheduler


def _from_endpoint(
    endpoint: Endpoint, credentials: Credentials | None, namespace: str, pod: str
) -> Explanation:
    try:
        return ask_endpoint(endpoint, credentials, namespace, pod)
    except UnknownPodError as exc:
        where = f"the queue, the cache and the recent decisions of the scheduler at {endpoint.url}"
        _no_such_pod(f"{namespace}/{pod}", where, exc.existing)
    except (RefusedError, CredentialsError) as exc:
        exit_with(str(exc), UNREACHABLE)


def _from_named_scheduler(credentials: Credentials, namespace: str, pod: str) -> Explanation | None:
    """Return the explanation of the scheduler that the kubeconfig names, or None if it has none."""
    if not credentials.scheduler:
        return None
    try:
        return ask_endpoint(Endpoint(credentials.scheduler), credentials, namespace, pod)
    except UnknownPodError:  # it drops deleted pods and does not watch terminated ones
        return None
    except (RefusedError, CredentialsError) as exc:
        echo(f"warning: ignoring the scheduler named in the kubeconfig: {exc}", err=True)
        return None


def _credentials(kubeconfig: str, context: str, needed: bool) -> Credentials | None:
    """Load the kubeconfig; return None if there is none and it is not needed."""
    try:
        return load_user_credentials(kubeconfig or None, context)
    except (CredentialsError, OSError) as exc:
        if not (needed or kubeconfig or context):
            return None
        exit_with(str(exc), INVALID)
