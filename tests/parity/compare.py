"""Comparing an attempt with what kube-scheduler answered."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

from mooring.core.decision import Decision, Refusal
from mooring.runtime.profile import Profile
from tests.parity.replay import Attempt

Difference = tuple[str, Any, Any]  # what, expected, found
POINTS = ("preFilter", "filter", "postFilter", "preScore", "score")


def compare_profile(expected: dict[str, Any], profile: Profile) -> Iterator[Difference]:
    """The effective plugin lists and weights."""
    for point in POINTS:
        yield from differ(
            f"profile {point}", list(expected.get(point) or ()), list(profile.points.get(point, ()))
        )
    weights = {name: profile.weights[name] for name in profile.points.get("score", ())}
    yield from differ("profile weights", expected.get("weights") or {}, weights)


def differ(what: str, expected: Any, found: Any) -> Iterator[Difference]:
    if expected != found:
        yield what, expected, found


def compare(expected: dict[str, Any], attempt: Attempt, summary: bool) -> Iterator[Difference]:
    """Every difference between kube-scheduler's answer for a pod and ours."""
    decision = attempt.decision
    failed = attempt.failed
    result, reason, message = decision.result, decision.reason, decision.message
    if failed is not None:
        result, reason, message = "error", "SchedulerError", failed.message
    yield from differ("profile", expected["profile"], decision.profile)
    yield from differ("result", expected["result"], result)
    yield from differ("selected", expected.get("selected", ""), decision.node)
    yield from differ("reason", expected.get("reason", ""), reason)
    yield from differ("message", expected.get("message", ""), message)
    yield from differ("failedAt", expected.get("failedAt"), None if failed is None else "PreBind")
    yield from compare_claims(expected, attempt)
    yield from differ(
        "unschedulablePlugins", expected.get("unschedulablePlugins", []), decision.unschedulable_plugins
    )
    yield from compare_pre_filter(expected.get("preFilter"), decision)
    yield from compare_nominated(expected.get("nominated"), attempt)
    if summary:
        yield from compare_summary(expected, decision)
    else:
        yield from compare_filters(expected, decision)
        yield from compare_scores(expected, decision)
    yield from compare_post_filter(expected.get("postFilter"), attempt, summary)


def compare_claims(expected: dict[str, Any], attempt: Attempt) -> Iterator[Difference]:
    """What became of the pod's resource claims."""
    gated = attempt.pre_enqueue
    found = None
    if gated is not None:
        found = {"status": gated.code.text, "plugin": gated.plugin, "reasons": list(gated.reasons)}
    yield from differ("preEnqueue", expected.get("preEnqueue"), found)
    yield from differ("nodeAllocations", expected.get("nodeAllocations") or {}, attempt.allocations)
    yield from differ("claims", expected.get("claims") or [], attempt.claims)
    yield from differ("deallocated", expected.get("deallocated") or [], attempt.deallocated)
    yield from differ("deleted", expected.get("deleted") or [], attempt.deleted)
    yield from differ("mappings", expected.get("extendedResourceMappings") or [], attempt.mappings)
    wanted = (expected.get("postFilter") or {}).get("deallocationCandidates") or []
    yield from differ("deallocationCandidates", wanted, attempt.candidates)


def refusal(found: Refusal) -> dict[str, Any]:
    return {"status": found.status, "plugin": found.plugin, "reasons": sorted(found.reasons)}


def compare_pre_filter(expected: dict[str, Any] | None, decision: Decision) -> Iterator[Difference]:
    if expected is None:
        yield from differ("preFilter without nodes", 0, decision.nodes)
        return
    found: dict[str, Any] = {"status": "Success"}
    if decision.pre_filter is not None:
        found = refusal(decision.pre_filter)
    for name in ("status", "plugin", "reasons"):
        yield from differ(f"preFilter {name}", expected.get(name) or None, found.get(name) or None)
    yield from differ("preFilter nodes", expected.get("nodes"), decision.pre_filter_nodes)
    yield from differ("preFilter skip", expected.get("skip") or [], decision.skipped_filters)


def compare_nominated(expected: dict[str, Any] | None, attempt: Attempt) -> Iterator[Difference]:
    if expected is None:
        return
    yield from differ("nominated node", expected["node"], attempt.pod.status.nominated_node_name)
    feasible = expected["node"] in attempt.decision.feasible and attempt.decision.node == expected["node"]
    yield from differ("nominated feasible", expected.get("feasible", False), feasible)


def compare_filters(expected: dict[str, Any], decision: Decision) -> Iterator[Difference]:
    wanted = expected.get("filter") or {}
    found = {name: refusal(r) for name, r in decision.refusals.items()}
    for node in sorted({*wanted, *found}):
        yield from differ(f"filter {node}", wanted.get(node), found.get(node))
    yield from differ("feasible", expected.get("feasible") or [], decision.feasible)


def compare_scores(expected: dict[str, Any], decision: Decision) -> Iterator[Difference]:
    wanted = expected.get("scores") or {}
    if "total" in expected:
        yield from differ("preScoreSkip", expected.get("preScoreSkip") or [], decision.skipped_scores)
    yield from differ("score plugins", sorted(wanted), sorted(decision.scores))
    for plugin in sorted(set(wanted) & set(decision.scores)):
        score = decision.scores[plugin]
        for part in ("weight", "raw", "normalized", "weighted"):
            yield from differ(f"score {plugin} {part}", wanted[plugin][part], getattr(score, part))
    yield from differ("total", expected.get("total") or [], decision.total)
    yield from differ("best", expected.get("best") or [], decision.best)


def compare_summary(expected: dict[str, Any], decision: Decision) -> Iterator[Difference]:
    counts: Counter[str] = Counter()
    lines = []
    for node in sorted(decision.refusals):
        r = decision.refusals[node]
        reasons = ",".join(sorted(r.reasons))
        counts[f"{r.plugin}|{r.status}|{reasons}"] += 1
        lines.append(f"{node}|{r.plugin}|{r.status}|{reasons}\n")
    yield from differ("filterCounts", expected.get("filterCounts") or {}, dict(counts))
    if "filterSha256" in expected:
        yield from differ("filterSha256", expected["filterSha256"], sha256(lines))
    yield from differ("feasibleCount", expected.get("feasibleCount", 0), len(decision.feasible))
    yield from differ("best", expected.get("best") or [], decision.best[:20])
    yield from differ("bestCount", expected.get("bestCount", 0), len(decision.best))
    if "totalSha256" in expected:
        totals = sorted(zip(decision.feasible, decision.total, strict=True))
        yield from differ("totalSha256", expected["totalSha256"], sha256([f"{n}={t}\n" for n, t in totals]))
        yield from differ("bestTotal", expected.get("bestTotal", 0), max(decision.total))


def sha256(lines: list[str]) -> str:
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def compare_post_filter(
    expected: dict[str, Any] | None, attempt: Attempt, summary: bool
) -> Iterator[Difference]:
    found = attempt.decision.post_filter
    if expected is None or found is None:
        yield from differ("postFilter", expected, found)
        return
    yield from differ("postFilter status", expected["status"], found.status)
    yield from differ("postFilter message", expected.get("message", ""), found.message)
    yield from differ("postFilter nominatedNode", expected.get("nominatedNode"), found.nominated_node)
    yield from differ("postFilter victims", expected.get("victims") or [], found.victims)
    best = found.best[:20] if summary else found.best
    yield from differ("postFilter best", expected.get("best") or [], best)
    yield from differ(
        "postFilter clearedNominations", expected.get("clearedNominations") or [], sorted(attempt.cleared)
    )
    if not summary:
        candidates = {
            name: {"victims": c.victims, "pdbViolations": c.pdb_violations}
            for name, c in found.candidates.items()
        }
        wanted = {
            name: {"victims": c.get("victims") or [], "pdbViolations": c.get("pdbViolations", 0)}
            for name, c in (expected.get("candidates") or {}).items()
        }
        yield from differ("postFilter candidates", wanted, candidates)
