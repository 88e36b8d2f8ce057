"""Handlers behind the verbs: what they are shown, and what their answers mean."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from operator import index
from sys import intern
from typing import Any

from msgspec.structs import replace

from mooring.api.counts import count
from mooring.api.meta import KubeObject, ObjectMeta
from mooring.api.objects import Node, Pod
from mooring.extender.serving.handlers import ExtenderError, Handler, Victims
from mooring.extender.serving.questions import Question, Questions, tree_of
from mooring.extender.serving.verbs import BindVerb, FilterVerb, Preemption, PreemptVerb, PrioritizeVerb, Verb
from mooring.extender.wire import ExtenderBindingArgs
from mooring.framework.handle import Client
from mooring.framework.status import Code, Status, unresolvable

NO_CACHE = (
    "the request has node names only, and this extender does not cache nodes: start it with "
    "--node-cache-capable, or set nodeCacheCapable: false in the scheduler's configuration"
)
NOT_KNOWN = unresolvable("node(s) were not known to the extender yet")
INT64 = range(-(2**63), 2**63)


class KnownObjects:
    """The nodes and pods of the cluster, as informers deliver them."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}  # by uid
        self._nodes: dict[str, Node] = {}
        self._recent: list[tuple[list[str], tuple[list[str], list[Node]]]] = []  # recent lookups

    def apply(self, obj: KubeObject) -> None:
        if isinstance(obj, Node):
            # Most nodes have the same labels: with one copy of each key, looking them up is quicker.
            labels = {intern(key): value for key, value in obj.metadata.labels.items()}
            self._nodes[obj.name] = replace(obj, metadata=replace(obj.metadata, labels=labels))
            self._recent = []
        elif isinstance(obj, Pod):
            self.pods[obj.uid] = obj

    def delete(self, obj: KubeObject) -> None:
        if isinstance(obj, Node):
            self._nodes.pop(obj.name, None)
            self._recent = []
        else:
            self.pods.pop(obj.uid, None)

    def find(self, names: list[str]) -> tuple[list[str], list[Node]]:
        """Those of the nodes that are known, and their names. The lists of one filter and one prioritize are
        looked up once for all pods that are asked about with them."""
        for names_then, entry in self._recent:
            if names_then is names:
                return entry
        nodes = self._nodes
        try:
            entry = (names, list(map(nodes.__getitem__, names)))
        except KeyError:
            present = [name for name in names if name in nodes]
            entry = (present, [nodes[name] for name in present])
        self._recent = [(names, entry), *self._recent[:1]]
        return entry


class HandlerVerbs:
    """Makes verbs of handlers. `known` is what the extender keeps of the cluster, if it does."""

    def __init__(
        self, questions: Questions, known_objects: KnownObjects | None, client: Client | None
    ) -> None:
        self._questions = questions
        self._known_objects = known_objects
        self._client = client

    def verb(self, handler: Handler) -> Verb:
        path, who = handler.path, f"handler {handler.name}"
        if handler.verb == "filter":
            return FilterVerb(path, who, self._questions, partial(self._filter, handler))
        if handler.verb == "prioritize":
            return PrioritizeVerb(path, who, self._questions, partial(self._prioritize, handler))
        if handler.verb == "preempt":
            return PreemptVerb(path, who, partial(self._preempt, handler))
        return BindVerb(path, who, partial(self._bind, handler))

    # ---- what handlers are shown

    def _nodes(self, question: Question) -> tuple[list[str], list[Node]]:
        """The nodes in question that are known, and their names."""
        if self._known_objects is not None:
            return self._known_objects.find(question.names)
        if question.nodes is None:
            raise ExtenderError(NO_CACHE)
        return question.names, question.nodes

    def _victims(self, preemption: Preemption) -> dict[str, Victims]:
        if self._known_objects is None or not preemption.by_uid:
            return preemption.victims
        pods = self._known_objects.pods
        return {
            name: Victims([pods.get(pod.uid, pod) for pod in each.pods], each.num_pdb_violations)
            for name, each in preemption.victims.items()
        }

    # ---- what they answer

    async def _filter(self, handler: Handler, question: Question) -> Mapping[str, Status]:
        names, nodes = self._nodes(question)
        default = _refused_by(handler.name)
        shown = _shown(handler, question, pod=question.pod)
        if handler.each:
            answers = handler.ask_each(nodes, shown)
            refused = _refused(zip(names, answers, strict=True), default)
        else:
            refused = _refusals(await handler.call(nodes=nodes.copy(), **shown), names, nodes, default)
        if len(names) != len(question.names):
            refused |= dict.fromkeys(set(question.names).difference(names), NOT_KNOWN)
        return refused

    async def _prioritize(self, handler: Handler, question: Question) -> Sequence[int]:
        names, nodes = self._nodes(question)
        shown = _shown(handler, question, pod=question.pod)
        if handler.each:
            scores = _checked(handler.ask_each(nodes, shown), names)
        else:
            scores = _scores(await handler.call(nodes=nodes.copy(), **shown), names)
        if len(names) == len(question.names):
            return scores
        by_name = dict(zip(names, scores, strict=True))
        return [by_name.get(name, 0) for name in question.names]

    async def _bind(self, handler: Handler, args: ExtenderBindingArgs, body: bytes) -> None:
        metadata = ObjectMeta(name=args.pod_name, namespace=args.pod_namespace, uid=args.pod_uid)
        available: dict[str, Any] = {"pod": Pod(metadata=metadata), "node": args.node, "client": self._client}
        if "request" in handler.parameters:
            available["request"] = tree_of(body)
        answer = await handler.call(**available)
        if isinstance(answer, Status) and not answer.ok:
            raise ExtenderError(answer.message)
        if answer is not None and not isinstance(answer, Status):
            raise TypeError(f"answered {reprlib.repr(answer)}; expected None, or an exception where it fails")

    async def _preempt(self, handler: Handler, preemption: Preemption) -> Mapping[str, Sequence[str]]:
        victims = self._victims(preemption)
        shown = _shown(handler, preemption, pod=preemption.pod)
        answer = await handler.call(victims=victims, **shown)
        if isinstance(answer, str) or not isinstance(answer, Iterable):
            raise TypeError(
                f"answered {reprlib.repr(answer)}; expected names of nodes, or a mapping to the pods to evict"
            )
        kept = answer if isinstance(answer, Mapping) else {name: victims.get(name) for name in answer}
        _check_names(kept, victims)
        return {name: _uids(each) for name, each in kept.items()}


@cache
def _refused_by(name: str) -> Status:
    return unresolvable(f"node(s) were refused by the extender's {name}")


def _shown(handler: Handler, about: Question | Preemption, pod: Pod) -> dict[str, Any]:
    """Parameters of a handler other than the nodes; the whole request is decoded only if there are any."""
    shown: dict[str, Any] = {}
    if "pod" in handler.parameters:
        shown["pod"] = pod
    if "request" in handler.parameters:
        shown["request"] = about.request
    return shown


def _refused(answers: Iterable[tuple[str, object]], default: Status) -> dict[str, Status]:
    """Those that do not pass, by answers about single nodes, with one Status for all of the same text. A text
    refuses for good, because a handler sees no pods on the node whose eviction could change its mind."""
    refused = {}
    texts: dict[str, Status] = {}
    for name, answer in answers:
        if answer is None or answer is True:
            continue
        if isinstance(answer, str):
            status = texts.get(answer) or texts.setdefault(answer, unresolvable(answer))
        else:
            status = _refusal(answer, default)
        if not status.ok:
            refused[name] = status
    return refused


def _refusal(answer: object, default: Status) -> Status:
    """What a filter's answer other than None, True or a text means."""
    if answer is False:
        return default
    if isinstance(answer, Status):
        if answer.code in (Code.ERROR, Code.SKIP, Code.WAIT):
            raise ExtenderError(answer.message or f"unexpected status {answer.code.text}")
        return answer
    raise TypeError(f"answered {reprlib.repr(answer)}; expected None, True, False, a text or a Status")


def _refusals(
    answer: object, names: Sequence[str], nodes: Sequence[Node], default: Status
) -> dict[str, Status]:
    """Those that do not pass, by an answer about all nodes."""
    if isinstance(answer, Mapping):
        _check_names(answer, names)
        return _refused(answer.items(), default)
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise TypeError(
            f"answered {reprlib.repr(answer)}; expected the nodes that pass, or a mapping from the names of "
            "those that do not to the reason"
        )
    passed = list(answer)
    same = set(map(id, passed))  # mostly the very objects that were shown, which then need not be looked into
    refused = {name: default for name, shown in zip(names, map(id, nodes), strict=True) if shown not in same}
    if len(refused) + len(same) == len(names):
        return refused
    by_name = {each.name if isinstance(each, Node) else each for each in passed}
    _check_names(by_name, names)
    return {name: default for name in names if name not in by_name}


def _check_names(answered: Iterable[object], names: Iterable[str]) -> None:
    odd = set(answered).difference(names)
    if odd:
        raise ValueError(f"named node {reprlib.repr(odd.pop())}, which was not in the request")


def _scores(answer: object, names: Sequence[str]) -> list[int]:
    if isinstance(answer, Mapping):
        _check_names(answer, names)
        return _checked([answer.get(name, 0) for name in names], names)
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise TypeError(f"answered {reprlib.repr(answer)}; expected a score for each node")
    scores = list(answer)
    if len(scores) != len(names):
        raise ValueError(f"answered {count(len(scores), 'score')} for {count(len(names), 'node')}")
    return _checked(scores, names)


def _checked(scores: list[Any], names: Sequence[str]) -> list[int]:
    """The scores as the integers that Go can read; those of NumPy and the like are made such."""
    if set(map(type, scores)) <= {int} and (not scores or (min(scores) in INT64 and max(scores) in INT64)):
        return scores
    return [_score(score, name) for score, name in zip(scores, names, strict=True)]


def _score(score: Any, name: str) -> int:
    try:
        number = index(score)
    except TypeError:
        raise TypeError(f"answered {reprlib.repr(score)} for node {name}; expected an integer") from None
    if number not in INT64:
        raise ValueError(f"answered {reprlib.repr(number)} for node {name}; expected a 64-bit integer")
    return number


def _uids(victims: object) -> list[str]:
    pods = victims.pods if isinstance(victims, Victims) else victims
    if isinstance(pods, str) or not isinstance(pods, Iterable):
        raise TypeError(f"answered {reprlib.repr(pods)}; expected the pods to evict, or their uids")
    return [pod.uid if isinstance(pod, Pod) else str(pod) for pod in pods]
