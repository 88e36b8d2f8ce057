"""Read manifests and load them into a scheduler."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import click
import msgspec

from mooring.api.complaints import key_of, malformed
from mooring.api.decode import Problem, load_trees, read_trees, strip_nulls, with_namespace
from mooring.api.defaults import identified
from mooring.api.errors import ObjectError
from mooring.api.groups import PodGroup
from mooring.api.kinds import ApiResource
from mooring.api.meta import KubeObject
from mooring.api.objects import Node, Pod
from mooring.api.storage import PersistentVolumeClaim
from mooring.cli.errors import describe, exit_with
from mooring.cli.flags import option
from mooring.cli.output import echo
from mooring.cli.setup import load_setup
from mooring.client.parallel import Threads
from mooring.config import ConfigError
from mooring.core.intake import kinds_of_plugins
from mooring.core.scheduler import Scheduler
from mooring.extender.calling.make import make_extenders
from mooring.framework.registration import RegistrationError
from mooring.runtime.runners import PluginError
from mooring.sandbox.controllers.first_claims import with_first_claims
from mooring.sandbox.controllers.first_pods import FirstPods, is_workload, workload_of

INVALID = 2
SUFFIXES = (".yaml", ".yml", ".json")


class Sink(Protocol):
    """A receiver of objects: a scheduler, or a cluster around one."""

    def apply(self, obj: KubeObject) -> None: ...


def filename_option(*, required: bool) -> Callable[[Any], Any]:
    return option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        required=required,
        metavar="FILE",
        help="Manifest file or directory, or - for standard input; repeatable",
    )


def read_sources(files: Iterable[str]) -> list[tuple[str, str]]:
    """Return the text and the name of every manifest file."""
    sources = []
    for name in files:
        if name == "-":
            sources.append((_text(sys.stdin.buffer.read(), "<stdin>"), "<stdin>"))
            continue
        path = Path(name)
        inside = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES) if path.is_dir() else [path]
        for each in inside:
            try:
                sources.append((_text(each.read_bytes(), str(each)), str(each)))
            except OSError as exc:
                raise click.UsageError(describe(exc, str(each))) from None
    return sources


def _text(data: bytes, source: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{source}: byte {error.start}: not UTF-8") from None


def read_manifests(
    files: Iterable[str], custom: Iterable[ApiResource[Any]] = ()
) -> tuple[list[KubeObject], list[str]]:
    """Return the objects in the files, with the pods and claims that controllers would create for them, and
    the problems of those that cannot be used. `custom` are kinds that plugins watch."""
    trees, objects, failures = _custom_objects(read_trees(read_sources(files)), custom)
    manifests = load_trees(trees)
    made, problems = _pods_of_workloads(trees, manifests.objects)
    if made:
        manifests = load_trees([*trees, *made])
    problems += manifests.problems
    workloads = {(source, tree["kind"], key_of(tree)) for tree, source in trees if _is_workload(tree)}
    for ignored in manifests.ignored:
        if (ignored.source, ignored.kind, ignored.key) not in workloads:
            echo(f"ignored: {ignored}", err=True)
            if ignored.kind == "PodGroup":
                echo("hint: enable the plugin Coscheduling in --config", err=True)
    origins = {origin for _, origin in made}
    problems = [*failures, *problems]
    objects += with_first_claims(manifests.objects)
    return objects, [f"skipped: {problem}" for problem in _once(problems, origins)]


def _custom_objects(
    trees: Iterable[tuple[Any, str]], custom: Iterable[ApiResource[Any]]
) -> tuple[list[tuple[Any, str]], list[KubeObject], list[Problem]]:
    """Take the objects of custom kinds from the trees; return the others, these, and what is wrong."""
    kinds = {(each.group, each.kind): each for each in custom}
    others: list[tuple[Any, str]] = []
    objects: list[KubeObject] = []
    problems: list[Problem] = []
    for tree, source in trees:
        group = str(tree.get("apiVersion", "")).rpartition("/")[0] if isinstance(tree, dict) else ""
        resource = kinds.get((group, str(tree.get("kind")))) if isinstance(tree, dict) else None
        if resource is None:
            others.append((tree, source))
            continue
        placed = strip_nulls(with_namespace(tree) if resource.namespaced else tree)
        try:
            decoded: KubeObject = msgspec.convert(placed, resource.model)
            objects.append(identified(decoded, namespaced=resource.namespaced))
        except msgspec.ValidationError as error:
            problems.append(Problem(source, malformed(resource.kind, placed, str(error))))
    return others, objects, problems


def missing_from_dump(objects: Iterable[KubeObject], pods: Iterable[Pod]) -> list[str]:
    """Return a warning for each kind that a dump lacks although these pods need it, with the command."""
    kinds = {type(obj) for obj in objects}
    warnings = []
    if Node not in kinds:
        warnings.append(
            "warning: the manifests contain no Node\nhint: add the output of `kubectl get nodes -o yaml`"
        )
    if PersistentVolumeClaim not in kinds and any(_claims(pod) for pod in pods):
        warnings.append(
            "warning: the manifests contain no PersistentVolumeClaim, and the pod uses one\n"
            "hint: add the output of `kubectl get pvc,pv,storageclass -A -o yaml`"
        )
    return warnings


def _claims(pod: Pod) -> bool:
    return any(volume.persistent_volume_claim is not None for volume in pod.spec.volumes)


def _once(problems: Iterable[Problem], origins: Container[str]) -> Iterator[Problem]:
    """Yield one problem per workload: its pods come from one template and share their problems."""
    reported: set[str] = set()
    for problem in problems:
        if problem.source not in reported and str(problem) not in reported:
            yield problem
        reported.add(str(problem))
        if problem.source in origins:
            reported.add(problem.source)


def _is_workload(tree: Any) -> bool:
    return isinstance(tree, dict) and is_workload(tree)


def _pods_of_workloads(
    trees: Iterable[tuple[Any, str]], objects: Iterable[KubeObject]
) -> tuple[list[tuple[Any, str]], list[Problem]]:
    """Return the pods that controllers would create, each with its origin."""
    first = FirstPods(objects)
    made: list[tuple[Any, str]] = []
    problems: list[Problem] = []
    for tree, source in trees:
        if _is_workload(tree):
            try:
                workload = workload_of(tree)
                origin = f"{source}: {workload.kind} {workload.key}"
                made += [(body, origin) for body in first.of(workload)]
            except ObjectError as error:
                problems.append(Problem(source, error))
    return made, problems


class SchedulerMaker:
    """Makes schedulers with one configuration; exits if the configuration or a plugin is invalid.

    Extenders are called, but not to bind: they would bind in a real cluster.
    """

    def __init__(
        self, config_file: str | None, plugins: Iterable[str], *, seed: int = 0, record: bool = False
    ) -> None:
        self._config_file = config_file
        self._seed = seed
        self._record = record
        with self._reported():
            self._config, self._registry = load_setup(config_file, plugins)
        self._own_gates = dict(self._config.config.feature_gates)
        for warning in self._config.warnings:
            echo(f"warning: {warning}", err=True)

    def kinds(self) -> list[ApiResource[Any]]:
        """The kinds that plugins watch, in addition to those that every scheduler reads."""
        return kinds_of_plugins(self.make())

    def make(self, objects: Iterable[KubeObject] = ()) -> Scheduler:
        """Return a scheduler for these objects: groups of pods turn on the gates that they need, unless the
        configuration mentions one of these."""
        settings, gates = self._config.config, group_gates(objects)
        settings.feature_gates = (
            self._own_gates if self._own_gates.keys() & gates else self._own_gates | gates
        )
        with self._reported():
            extenders = make_extenders(self._config, binds=False)
            for extender in extenders:
                click.get_current_context().call_on_close(extender.close)
            return Scheduler(
                self._config,
                clock=time.time,
                pick=random.Random(self._seed).randrange,
                registry=self._registry,
                extenders=extenders,
                record=self._record,
                parallelize=Threads(settings.parallelism),
            )

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except (ConfigError, RegistrationError, PluginError) as exc:
            exit_with(str(exc), INVALID)
        except OSError as exc:
            exit_with(describe(exc, self._config_file), INVALID)


def group_gates(objects: Iterable[KubeObject]) -> dict[str, bool]:
    """Return the feature gates that an API server had on if it has stored these PodGroups and members."""
    gates: set[str] = set()
    for obj in objects:
        if isinstance(obj, PodGroup):
            gates |= {"GenericWorkload", "GangScheduling"}
            if obj.topology_key:
                gates.add("TopologyAwareWorkloadScheduling")
            if obj.spec.disruption_mode or obj.spec.priority is not None or obj.spec.priority_class_name:
                gates.add("WorkloadAwarePreemption")
        elif isinstance(obj, Pod) and obj.spec.scheduling_group is not None:
            gates |= {"GenericWorkload", "GangScheduling"}
    return dict.fromkeys(gates, True)


def apply_all(sink: Sink, objects: Iterable[KubeObject]) -> list[str]:
    """Apply the objects, pods last, and return the problems of those that are invalid."""
    problems = []
    for obj in sorted(objects, key=lambda obj: isinstance(obj, Pod)):
        try:
            sink.apply(obj)
        except ObjectError as exc:
            problems.append(f"skipped: {exc}")
    return problems
