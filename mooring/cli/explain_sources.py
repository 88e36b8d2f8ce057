"""Where `mooring explain` and `mooring pending` read pods from: manifests, a cluster, a running scheduler."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Protocol

import click

from mooring.api.kinds import POD_GROUPS, WATCHED
from mooring.api.meta import KubeObject
from mooring.api.objects import Pod
from mooring.cli.errors import exit_with
from mooring.cli.flags import group, kubeconfig_flags, option, text
from mooring.cli.manifests import (
    SchedulerMaker,
    apply_all,
    filename_option,
    missing_from_dump,
    read_manifests,
)
from mooring.cli.output import echo
from mooring.cli.plugins import plugin_option
from mooring.cli.reach import (
    Endpoint,
    RefusedError,
    UnknownPodError,
    ask_about_group,
    ask_endpoint,
    get_pod,
    list_cluster,
)
from mooring.cli.targets import MORE_KINDS
from mooring.client.api_errors import ClusterError
from mooring.client.credentials import Credentials, CredentialsError, load_user_credentials
from mooring.core.scheduler import Scheduler
from mooring.explain.explain import explain_objects
from mooring.explain.explanation import Explanation, GroupExplanation
from mooring.explain.groups import explain_named_group
from mooring.explain.summary import summarized

NO_SUCH_POD, INVALID, UNREACHABLE = 1, 2, 3
MAX_HINTS = 5


def source_flags(command: Any) -> Any:
    """The flags that say where pods are read from."""
    flags = group(
        filename_option(required=False),
        option("--config", "config_file", metavar="FILE", help="The scheduler's configuration file"),
        plugin_option,
        kubeconfig_flags,
        text("--endpoint", "Address of a running scheduler, such as https://HOST:10259", metavar="URL"),
        text(
            "--endpoint-certificate-authority",
            "CA certificate of the endpoint (default: the cluster's CA)",
            metavar="FILE",
        ),
        option(
            "--insecure-skip-tls-verify", is_flag=True, help="Do not verify the endpoint's TLS certificate"
        ),
    )
    return flags(command)


class Source(Protocol):
    """Objects, and explanations of their pods."""

    where: str

    def namespace(self, name: str) -> str:
        """Return the namespace that is meant if none is given."""
        ...

    def objects(self) -> Sequence[KubeObject]: ...

    def explain(self, namespace: str, pod: str) -> Explanation:
        """Explain a pod; exits if there is none."""
        ...

    def explain_group(self, namespace: str, name: str) -> GroupExplanation | None:
        """Explain a pod group; None if there is none."""
        ...

    def warn(self, pods: Iterable[Pod]) -> None:
        """Print what is missing to explain these pods."""
        ...


def open_source(
    files: Sequence[str],
    config_file: str | None,
    plugins: Sequence[str],
    kubeconfig: str,
    context: str,
    endpoint: str,
    endpoint_certificate_authority: str,
    insecure_skip_tls_verify: bool,
) -> Source:
    """Return the source that `source_flags` name; exits if it is unavailable."""
    if files and endpoint:
        raise click.UsageError("-f and --endpoint are mutually exclusive")
    if files:
        return _Files(files, SchedulerMaker(config_file, plugins))
    credentials = _credentials(kubeconfig, context, needed=not endpoint)
    computed = None
    if credentials is not None:
        computed = _Cluster(credentials, lambda: SchedulerMaker(config_file, plugins))
    if endpoint:
        place = Endpoint(endpoint, endpoint_certificate_authority, insecure_skip_tls_verify)
        return _Running(place, credentials, computed)
    assert credentials is not None
    assert computed is not None
    if credentials.scheduler and not config_file and not plugins:
        return _Running(Endpoint(credentials.scheduler), credentials, computed, fall_back=True)
    return computed


class _Computed:
    """Explanations computed here, by a scheduler that has all objects."""

    where: str
    source: str

    def __init__(self) -> None:
        self._scheduler: Scheduler | None = None
        self._pods: dict[str, Pod] = {}
        self._objects: Sequence[KubeObject] = ()

    def namespace(self, name: str) -> str:
        return name or "default"

    def objects(self) -> Sequence[KubeObject]:
        self._load()
        return self._objects

    def warn(self, pods: Iterable[Pod]) -> None:
        """Nothing is missing from a cluster."""

    def explain(self, namespace: str, pod: str) -> Explanation:
        scheduler = self._load()
        key = self._find(namespace, pod)
        target = self._pods.get(key)
        if target is None:
            _no_such_pod(key, self.where, self._pods)
        self.warn([target])
        if not target.spec.node_name:
            return explain_objects(scheduler, target, self.source)
        scheduler.delete(target)
        try:
            return explain_objects(scheduler, target, self.source)
        finally:
            scheduler.apply(target)

    def explain_group(self, namespace: str, name: str) -> GroupExplanation | None:
        explanation = explain_named_group(self._load(), namespace, name)
        if explanation is None:
            return None
        explanation.source = self.source
        if explanation.waiting is not None:  # of the queue it knows only what it was just given
            explanation.waiting.queue = explanation.waiting.since = ""
        return explanation

    def _find(self, namespace: str, pod: str) -> str:
        return f"{self.namespace(namespace)}/{pod}"

    def _load(self) -> Scheduler:
        if self._scheduler is None:
            scheduler, self._objects, problems = self._read()
            for problem in problems + apply_all(scheduler, self._objects):
                echo(problem, err=True)
            self._pods = {obj.key: obj for obj in self._objects if isinstance(obj, Pod)}
            self._scheduler = scheduler
        return self._scheduler

    def _read(self) -> tuple[Scheduler, Sequence[KubeObject], list[str]]:
        raise NotImplementedError


class _Files(_Computed):
    source = "computed from manifests, for this pod alone"

    def __init__(self, files: Sequence[str], maker: SchedulerMaker) -> None:
        super().__init__()
        self._files = files
        self._maker = maker
        self._warned: set[str] = set()
        self.where = ", ".join("standard input" if file == "-" else file for file in files)

    def warn(self, pods: Iterable[Pod]) -> None:
        for warning in missing_from_dump(self.objects(), pods):
            if warning not in self._warned:
                self._warned.add(warning)
                echo(warning, err=True)

    def _find(self, namespace: str, pod: str) -> str:
        namesakes = [key for key in self._pods if key.endswith(f"/{pod}")] if not namespace else []
        return namesakes[0] if len(namesakes) == 1 else f"{self.namespace(namespace)}/{pod}"

    def _read(self) -> tuple[Scheduler, Sequence[KubeObject], list[str]]:
        objects, problems = read_manifests(self._files, self._maker.kinds())
        return self._maker.make(objects), objects, problems

    def explain_group(self, namespace: str, name: str) -> GroupExplanation | None:
        explanation = super().explain_group(namespace, name)
        if explanation is not None:
            explanation.source = "computed from manifests, for this group alone"
        return explanation


class _Cluster(_Computed):
    def __init__(self, credentials: Credentials, make: Callable[[], SchedulerMaker]) -> None:
        super().__init__()
        self._credentials = credentials
        self._make = make
        self._more: list[KubeObject] | None = None
        self.source = f"computed from the cluster at {credentials.server}; past attempts are unknown"
        self.where = f"the cluster at {credentials.server}"

    def namespace(self, name: str) -> str:
        return name or self._credentials.namespace

    def objects(self) -> Sequence[KubeObject]:
        """Return what a scheduler reads, and the workloads with their events."""
        if self._more is None:
            try:
                self._more, problems = asyncio.run(list_cluster(self._credentials, MORE_KINDS))
            except (ClusterError, CredentialsError) as exc:
                exit_with(str(exc), UNREACHABLE)
            for problem in problems:
                echo(problem, err=True)
        return [*super().objects(), *self._more]

    def explain(self, namespace: str, pod: str) -> Explanation:
        self._load()
        key = self._find(namespace, pod)
        if key not in self._pods:
            terminated = self.get(*key.split("/"))
            if terminated is not None:
                self._pods[key] = terminated
        return super().explain(namespace, pod)

    def get(self, namespace: str, pod: str) -> Pod | None:
        """Return a pod as it is now; lists leave out pods that have terminated."""
        try:
            return asyncio.run(get_pod(self._credentials, namespace, pod))
        except (ClusterError, CredentialsError) as exc:
            exit_with(str(exc), UNREACHABLE)

    def _read(self) -> tuple[Scheduler, Sequence[KubeObject], list[str]]:
        maker = self._make()
        try:
            kinds = dict.fromkeys((*WATCHED, *maker.kinds(), POD_GROUPS))
            objects, problems = asyncio.run(list_cluster(self._credentials, kinds, optional=(POD_GROUPS,)))
            return maker.make(objects), objects, problems
        except (ClusterError, CredentialsError) as exc:
            exit_with(str(exc), UNREACHABLE)


class _Running:
    """A running scheduler answers; with `fall_back`, what it cannot explain is computed here."""

    def __init__(
        self,
        endpoint: Endpoint,
        credentials: Credentials | None,
        computed: _Cluster | None,
        *,
        fall_back: bool = False,
    ) -> None:
        self._endpoint = endpoint
        self._credentials = credentials
        self._computed = computed
        self._fall_back = fall_back
        self.where = f"the queue, the cache and the recent decisions of the scheduler at {endpoint.url}"
        if fall_back and computed is not None:
            self.where = computed.where

    def namespace(self, name: str) -> str:
        return name or (self._credentials.namespace if self._credentials else "default")

    def objects(self) -> Sequence[KubeObject]:
        if self._computed is None:
            raise click.UsageError("workloads, -l and -A need a kubeconfig")
        return self._computed.objects()

    def warn(self, pods: Iterable[Pod]) -> None:
        """Nothing is missing from a running scheduler."""

    def explain(self, namespace: str, pod: str) -> Explanation:
        namespace = self.namespace(namespace)
        try:
            return self._with_phase(ask_endpoint(self._endpoint, self._credentials, namespace, pod))
        except UnknownPodError as exc:
            # It drops deleted pods and does not watch terminated ones.
            if not self._fall_back or self._computed is None:
                _no_such_pod(f"{namespace}/{pod}", self.where, exc.existing)
        except (RefusedError, CredentialsError) as exc:
            if not self._fall_back or self._computed is None:
                exit_with(str(exc), UNREACHABLE)
            echo(f"warning: ignoring the scheduler named in the kubeconfig: {exc}", err=True)
        return self._computed.explain(namespace, pod)

    def explain_group(self, namespace: str, name: str) -> GroupExplanation | None:
        try:
            return ask_about_group(self._endpoint, self._credentials, namespace, name)
        except UnknownPodError:
            return None
        except (RefusedError, CredentialsError) as exc:
            if not self._fall_back or self._computed is None:
                exit_with(str(exc), UNREACHABLE)
            echo(f"warning: ignoring the scheduler named in the kubeconfig: {exc}", err=True)
        return self._computed.explain_group(namespace, name)

    def _with_phase(self, gone: Explanation) -> Explanation:
        """Distinguish a pod that has terminated from a deleted one: the scheduler watches neither."""
        if gone.state == "gone" and self._computed is not None:
            pod = self._computed.get(*gone.pod.split("/"))
            if pod is not None and pod.finished:
                gone.state, gone.phase, gone.node = "finished", pod.status.phase, pod.spec.node_name
                gone.summary = summarized(gone)
        return gone


def _no_such_pod(key: str, where: str, existing: Iterable[str] = ()) -> NoReturn:
    no_such("pod", key, where, existing)


def no_such(kind: str, key: str, where: str, existing: Iterable[str]) -> NoReturn:
    """Exit because an object was not found, with the most similar names."""
    namespace, _, name = key.partition("/")
    names = {each: each.partition("/")[2] for each in existing}
    same = [each for each, short in names.items() if short == name]
    close = set(difflib.get_close_matches(name, names.values(), n=MAX_HINTS, cutoff=0.6))
    near = same or sorted(
        (each for each, short in names.items() if short in close),
        key=lambda each: (not each.startswith(f"{namespace}/"), each),
    )
    message = f"{kind} {key}: not found in {where}"
    if near:
        message += f"\nhint: did you mean {' or '.join(near[:MAX_HINTS])}?"
    exit_with(message, NO_SUCH_POD)


def _credentials(kubeconfig: str, context: str, needed: bool) -> Credentials | None:
    """Load the kubeconfig; return None if there is none and it is not needed."""
    try:
        return load_user_credentials(kubeconfig or None, context)
    except (CredentialsError, OSError) as exc:
        if not (needed or kubeconfig or context):
            return None
        exit_with(str(exc), INVALID)
