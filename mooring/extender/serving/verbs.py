"""The four verbs: decode the request, call the handlers or plugins, encode the response for kube-scheduler.

Handlers raise on failure. filter and bind then respond 200 with an `Error`, as the protocol requires; the
responses of prioritize and preempt have no field for it, so they are a 500, which a scheduler logs.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec
from msgspec import Raw

from mooring.api.counts import count
from mooring.api.meta import ObjectMeta
from mooring.api.objects import Pod
from mooring.extender.serving.handlers import ExtenderError, Victims
from mooring.extender.serving.questions import BadRequestError, Question, Questions, message, pod_of, tree_of
from mooring.extender.wire import (
    NULL,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    MetaPod,
    MetaVictims,
    NodeList,
    write,
)
from mooring.framework.status import Code, Status
from mooring.runtime.containment import CONTAINED, reraise_if_from_outside, text_of
from mooring.runtime.runners import PluginError

log = logging.getLogger("mooring.extender")

Refusals = Mapping[str, Status]
"""Why nodes do not pass, by their names; the others do."""


class Outcome(msgspec.Struct, kw_only=True):
    """A response, with its fields for the log and the metrics."""

    body: bytes
    pod: str
    summary: str = ""
    error: str = ""
    status: int = 200


class Verb(ABC):
    """Something behind a path. `who` is how messages call the one that decides."""

    verb: str

    def __init__(self, path: str, who: str) -> None:
        self.path = path
        self.who = who

    @abstractmethod
    async def answer(self, body: bytes) -> Outcome:
        """Raises BadRequestError."""

    def _failed(self, error: BaseException) -> str:
        """Return the error message for the scheduler; the traceback of a bug is only logged."""
        if isinstance(error, ExtenderError):
            return str(error)
        if isinstance(error, PluginError):
            return f"plugin {error.plugin}: {error}"
        reraise_if_from_outside(error, awaited=True)
        log.error("%s raised", self.who, exc_info=error)
        return f"{self.who}: {text_of(error)}"


class FilterVerb(Verb):
    """The next replica is mostly answered like the one before, so the last answer is kept."""

    verb = "filter"

    def __init__(
        self,
        path: str,
        who: str,
        questions: Questions,
        decide: Callable[[Question], Awaitable[Refusals]],
    ) -> None:
        super().__init__(path, who)
        self._questions = questions
        self._decide = decide
        self._last: tuple[Sequence[str], Refusals, bytes, str] = ((), {}, b"", "")

    async def answer(self, body: bytes) -> Outcome:
        question = self._questions.read(body)
        pod = question.pod.key
        try:
            refused = await self._decide(question)
        except CONTAINED as failure:
            error = self._failed(failure)
            return Outcome(body=write(ExtenderFilterResult(error=error)), pod=pod, error=error)
        last_names, last_refused, answer, summary = self._last
        if question.names is not last_names or refused != last_refused:
            answer, summary = _filtered(question, refused)
            self._last = (question.names, refused, answer, summary)
        return Outcome(body=answer, pod=pod, summary=summary)


class PrioritizeVerb(Verb):
    """The scores are in the order of the question's names. The last answer is kept as that of filter is."""

    verb = "prioritize"

    def __init__(
        self,
        path: str,
        who: str,
        questions: Questions,
        decide: Callable[[Question], Awaitable[Sequence[int]]],
    ) -> None:
        super().__init__(path, who)
        self._questions = questions
        self._decide = decide
        self._last: tuple[Sequence[str], Sequence[int], bytes] = ((), (), b"")

    async def answer(self, body: bytes) -> Outcome:
        question = self._questions.read(body)
        pod = question.pod.key
        try:
            scores = await self._decide(question)
        except CONTAINED as failure:
            return _refused(pod, self._failed(failure))
        last_names, last_scores, answer = self._last
        if question.names is not last_names or scores != last_scores:
            answer = write(list(map(HostPriority, question.names, scores)))
            self._last = (question.names, scores, answer)
        summary = f"{len(scores)} scores" + (f", at most {max(scores)}" if scores else "")
        return Outcome(body=answer, pod=pod, summary=summary)


class BindVerb(Verb):
    verb = "bind"

    def __init__(
        self, path: str, who: str, decide: Callable[[ExtenderBindingArgs, bytes], Awaitable[None]]
    ) -> None:
        super().__init__(path, who)
        self._decide = decide

    async def answer(self, body: bytes) -> Outcome:
        args = message(body, ExtenderBindingArgs)
        for name, present in (
            ("PodName", args.pod_name),
            ("PodNamespace", args.pod_namespace),
            ("Node", args.node),
        ):
            if not present:
                raise BadRequestError(f"{name}: required")
        pod, error = f"{args.pod_namespace}/{args.pod_name}", ""
        try:
            await self._decide(args, body)
        except CONTAINED as failure:
            error = self._failed(failure)
        summary = f"to {args.node}"
        return Outcome(body=write(ExtenderBindingResult(error)), pod=pod, summary=summary, error=error)


class Preemption:
    """One request of preempt: the candidates by node name, their pods whole or nothing but uids."""

    __slots__ = ("_body", "by_uid", "pod", "victims")

    def __init__(self, body: bytes) -> None:
        """Raises BadRequestError."""
        args = message(body, ExtenderPreemptionArgs)
        self._body = body
        self.pod = pod_of(args.pod)
        self.by_uid = args.node_name_to_meta_victims is not None
        self.victims: dict[str, Victims] = {}
        for name, whole in (args.node_name_to_victims or {}).items():
            self.victims[name] = Victims([pod_of(raw) for raw in whole.pods], whole.num_pdb_violations)
        for name, meta in (args.node_name_to_meta_victims or {}).items():
            pods = [Pod(metadata=ObjectMeta(uid=pod.uid)) for pod in meta.pods]
            self.victims[name] = Victims(pods, meta.num_pdb_violations)

    @property
    def request(self) -> dict[str, object]:
        return tree_of(self._body)


class PreemptVerb(Verb):
    """The decision is the uids of those to evict, for each node that remains a candidate."""

    verb = "preempt"

    def __init__(
        self, path: str, who: str, decide: Callable[[Preemption], Awaitable[Mapping[str, Sequence[str]]]]
    ) -> None:
        super().__init__(path, who)
        self._decide = decide

    async def answer(self, body: bytes) -> Outcome:
        preemption = Preemption(body)
        pod = preemption.pod.key
        try:
            kept = await self._decide(preemption)
        except CONTAINED as failure:
            return _refused(pod, self._failed(failure))
        result = ExtenderPreemptionResult(
            {
                name: MetaVictims([MetaPod(uid) for uid in uids], preemption.victims[name].num_pdb_violations)
                for name, uids in kept.items()
            }
        )
        summary = f"{len(kept)} of {count(len(preemption.victims), 'node')}"
        return Outcome(body=write(result), pod=pod, summary=summary)


def _refused(pod: str, error: str) -> Outcome:
    return Outcome(body=msgspec.json.encode({"Error": error}), pod=pod, error=error, status=500)


def _filtered(question: Question, refused: Refusals) -> tuple[bytes, str]:
    """Response of filter, with its fields for the log."""
    names, items = question.names, question.items
    passed = [name for name in names if name not in refused] if refused else names
    failed, unresolvable = _messages(refused)
    result = ExtenderFilterResult(
        nodes=NULL if items is None else _passed(question, items, refused),
        node_names=passed if items is None else None,
        failed_nodes=failed,
        failed_and_unresolvable_nodes=unresolvable,
    )
    return write(result), f"{len(passed)} of {count(len(names), 'node')}"


def _passed(question: Question, items: list[Raw], refused: Refusals) -> Raw:
    """A NodeList of the nodes that pass, as they came."""
    if items and not refused:
        return question.node_list
    passed = [item for name, item in zip(question.names, items, strict=True) if name not in refused]
    return Raw(msgspec.json.encode(NodeList(passed)))


def _messages(refused: Refusals) -> tuple[dict[str, str], dict[str, str]]:
    """What is said of the nodes where evicting pods may help, and of the others. Thousands of nodes are
    refused for few reasons, so each is put into words once."""
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    reasons = {id(status): status for status in refused.values()}
    texts = {
        key: (unresolvable if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE else failed, status.message)
        for key, status in reasons.items()
    }
    if len(texts) == 1:
        ((into, message),) = texts.values()
        into.update(dict.fromkeys(refused, message))
    else:
        for name, status in refused.items():
            into, message = texts[id(status)]
            into[name] = message
    return failed, unresolvable
