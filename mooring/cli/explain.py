"""`mooring explain`: why is this pod pending, why did it land there, what would make it fit?"""

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
from mooring.cli.manifests import apply_all, filename_option, make_scheduler, read_manifests
from mooring.cli.plugins import plugin_option
from mooring.cli.reach import Endpoint, RefusedError, UnknownPodError, ask_endpoint, list_cluster
from mooring.client.credentials import Credentials, CredentialsError, load_user_credentials
from mooring.client.errors import ClusterError
from mooring.core.scheduler import Scheduler
from mooring.explain.explain import explain_objects
from mooring.explain.explanation import Explanation
from mooring.explain.report import report

NO_SUCH_POD, WRONG_USE, UNREACHABLE = 1, 2, 3
MOST_HINTS = 5


@click.command()
@click.argument("pod")
@click.option(
    "-n", "--namespace", default="", metavar="NAME", help="The pod's namespace (or POD is NAME/POD)."
)
@filename_option(required=False)
@click.option("--config", "config_file", metavar="FILE", help="The scheduler's KubeSchedulerConfiguration.")
@plugin_option
@click.option("--kubeconfig", default="", metavar="FILE", help="As for kubectl.")
@click.option("--context", default="", metavar="NAME", help="The kubeconfig's context to use.")
@click.option("--endpoint", default="", metavar="URL", help="A running scheduler, https://HOST:10259.")
@click.option(
    "--endpoint-certificate-authority",
    default="",
    metavar="FILE",
    help="Who signed the endpoint's certificate, where that is not the cluster's authority.",
)
@click.option(
    "--insecure-skip-tls-verify", is_flag=True, help="Take any certificate of the endpoint for its own."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
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
    """Explain why POD is pending or where it is, what it waits for, and which change would make it fit.

    With --endpoint a running scheduler is asked, which also knows its past attempts; the token of your
    kubeconfig must be allowed to get /debug/decisions/*. To reach one in a pod:
    kubectl -n mooring port-forward deploy/mooring 10259, then --endpoint https://localhost:10259
    --insecure-skip-tls-verify.

    With -f the answer is worked out here from manifests, such as the output of
    `kubectl get nodes,pods,pv,pvc -A -o yaml`; without either, from the cluster of your kubeconfig. Give the
    scheduler's --config then, if it has one. In a cluster of `mooring up` its scheduler is asked, unless you
    give a --config or --plugin. Nothing is changed anywhere.

    Exits 0 when the pod was explained, 1 when there is no such pod, 2 when the command, configuration or
    kubeconfig is wrong, 3 when the cluster or the endpoint cannot be reached or refuses to answer.
    """
    if files and endpoint:
        raise click.UsageError("-f and --endpoint: expected one of them")
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
            known = None if config_file or plugins else _from_known_scheduler(credentials, namespace, pod)
            explanation = known or _from_cluster(credentials, namespace, pod, config_file, plugins)
    if output == "json":
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(explanation), indent=2) + b"\n")
    else:
        _print(explanation)


def _names(namespace: str, pod: str) -> tuple[str, str]:
    """Namespace and name, which may be given as one."""
    before, slash, after = pod.rpartition("/")
    if slash and namespace not in ("", before):
        raise click.UsageError(f'namespace "{namespace}" and pod "{pod}": expected one namespace')
    if "/" in before or not after:
        raise click.UsageError(f'pod "{pod}": expected NAME or NAMESPACE/NAME')
    return before or namespace, after


def _print(explanation: Explanation) -> None:
    """The report, with its headings in bold where somebody looks at it (click knows)."""
    for line in report(explanation):
        heading = bool(line) and not line.startswith(" ")
        click.echo(click.style(line, bold=True) if heading else line)


# ---- worked out here


def _from_files(
    files: Iterable[str], namespace: str, pod: str, config_file: str | None, plugins: Iterable[str]
) -> Explanation:
    objects, complaints = read_manifests(files)
    scheduler = make_scheduler(config_file, plugins)
    source = "worked out here from manifests, for this pod alone and as things stand there"
    where = ", ".join(files)
    return _worked_out(scheduler, objects, complaints, namespace, pod, source, where)


def _from_cluster(
    credentials: Credentials, namespace: str, pod: str, config_file: str | None, plugins: Iterable[str]
) -> Explanation:
    scheduler = make_scheduler(config_file, plugins)
    try:
        objects, complaints = asyncio.run(list_cluster(credentials))
    except (ClusterError, CredentialsError) as exc:
        _fail(str(exc), UNREACHABLE)
    source = f"worked out here from the cluster at {credentials.server}; the past attempts are not known"
    where = f"the cluster at {credentials.server}, among pods that have not ended"
    return _worked_out(scheduler, objects, complaints, namespace, pod, source, where)


def _worked_out(
    scheduler: Scheduler,
    objects: Sequence[KubeObject],
    complaints: list[str],
    namespace: str,
    pod: str,
    source: str,
    where: str,
) -> Explanation:
    pods = {obj.key: obj for obj in objects if isinstance(obj, Pod)}
    if not namespace:
        named = [key for key in pods if key.endswith(f"/{pod}")]
        namespace = named[0].partition("/")[0] if len(named) == 1 else "default"
    found = pods.get(f"{namespace}/{pod}")
    others = [obj for obj in objects if obj is not found or not found.spec.node_name]
    for complaint in complaints + apply_all(scheduler, others):
        click.echo(complaint, err=True)
    if found is None:
        _no_such_pod(f"{namespace}/{pod}", where, pods)
    return explain_objects(scheduler, found, source)


def _no_such_pod(key: str, where: str, known: Iterable[str] = ()) -> NoReturn:
    namespace, _, name = key.partition("/")
    names = {each: each.partition("/")[2] for each in known}
    same = [each for each, short in names.items() if short == name]
    close = set(difflib.get_close_matches(name, names.values(), n=MOST_HINTS, cutoff=0.6))
    near = same or sorted(
        (each for each, short in names.items() if short in close),
        key=lambda each: (not each.startswith(f"{namespace}/"), each),
    )
    message = f"there is no pod {key}; looked in {where}"
    if near:
        message += f"\nhint: did you mean {' or '.join(near[:MOST_HINTS])}?"
    _fail(message, NO_SUCH_POD)


# ---- asked of a running scheduler


def _from_endpoint(
    endpoint: Endpoint, credentials: Credentials | None, namespace: str, pod: str
) -> Explanation:
    try:
        return ask_endpoint(endpoint, credentials, namespace, pod)
    except UnknownPodError as exc:
        where = f"the queue, the cache and the last decisions of the scheduler at {endpoint.url}"
        _no_such_pod(f"{namespace}/{pod}", where, exc.known)
    except (RefusedError, CredentialsError) as exc:
        _fail(str(exc), UNREACHABLE)


def _from_known_scheduler(credentials: Credentials, namespace: str, pod: str) -> Explanation | None:
    """The answer of the scheduler that the kubeconfig names, if there is one and it answers."""
    if not credentials.scheduler:
        return None
    try:
        return ask_endpoint(Endpoint(credentials.scheduler), credentials, namespace, pod)
    except UnknownPodError:  # it forgets pods that are gone, and does not hear of those that have ended
        return None
    except (RefusedError, CredentialsError) as exc:
        click.echo(f"the scheduler that the kubeconfig names was not asked: {exc}", err=True)
        return None


def _credentials(kubeconfig: str, context: str, needed: bool) -> Credentials | None:
    """Those of the kubeconfig; an endpoint may do without, where none was asked for."""
    try:
        return load_user_credentials(kubeconfig or None, context)
    except (CredentialsError, OSError) as exc:
        if not (needed or kubeconfig or context):
            return None
        _fail(str(exc), WRONG_USE)


def _fail(message: str, code: int) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(code)
