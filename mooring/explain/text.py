"""A decision in words: one line, or the whole story."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mooring.api.counts import count
from mooring.core.decision import Decision


def why(decision: Decision) -> str:
    """One line: why the pod went where it went, or why it is pending."""
    if decision.result != "scheduled":
        return _why_not(decision)
    if decision.nominated:
        return "the node it was nominated to"
    if decision.feasible_nodes == 1:
        if decision.nodes == 1:
            return "the only node, and it fits"
        return f"the only one of {decision.nodes} nodes that fits"
    nodes, total = decision.feasible_nodes, decision.ranking[0].total
    if decision.best_nodes > 1:
        return f"one of {decision.best_nodes} best among {nodes} that fit, score {total}"
    runner_up, gains = _compared(decision)
    return f"best of {nodes} that fit, score {total}, {decision.margin} ahead of {runner_up}{gains}"


def _why_not(decision: Decision) -> str:
    post_filter = decision.post_filter
    if post_filter is not None and post_filter.nominated_node and post_filter.victims:
        victims = ", ".join(post_filter.victims)
        return f"makes room on {post_filter.nominated_node} by evicting {victims}"
    return decision.message


def _compared(decision: Decision) -> tuple[str, str]:
    """The best other node, and the plugins that made the difference."""
    mine, other = decision.ranking
    differences = [a - b for a, b in zip(mine.scores, other.scores, strict=True)]
    gains = sorted(zip(differences, decision.scored_by, strict=True), reverse=True)
    parts = [f"{name} {gain:+d}" for gain, name in gains if gain]
    return other.node, f" ({', '.join(parts)})" if parts else ""


def story(decision: Decision) -> Iterator[str]:
    """Describe a full record: rejections by plugin and node, every score, and the choice."""
    outcome = f"scheduled to {decision.node}" if decision.node else decision.result
    yield f"{decision.pod} ({decision.profile}): {outcome}, attempt {decision.attempts}"
    if decision.message:
        yield f"  {decision.message}"
    if decision.pre_filter is not None:
        reasons = ", ".join(decision.pre_filter.reasons)
        yield f"  refused as a whole by {decision.pre_filter.plugin}: {reasons}"
    if decision.pre_filter_nodes is not None:
        yield f"  only these nodes were considered: {', '.join(decision.pre_filter_nodes) or 'none'}"
    refused = Counter((r.plugin, ", ".join(r.reasons)) for r in decision.refusals.values())
    if refused:
        yield "  refused nodes:"
        for (plugin, reasons), count in sorted(refused.items(), key=lambda item: -item[1]):
            yield f"    {count:>5}  {plugin}: {reasons}"
    if decision.scores:
        yield from _score_table(decision)


def _score_table(decision: Decision, most: int = 10) -> Iterator[str]:
    names = sorted(decision.scores)
    order = sorted(range(len(decision.feasible)), key=lambda i: (-decision.total[i], decision.feasible[i]))
    width = max(len(decision.feasible[i]) for i in order[:most])
    yield "  scores, weighted (0 everywhere left out):"
    names = [name for name in names if any(decision.scores[name].weighted)]
    yield f"    {'':<{width}}  {'total':>6}  " + "  ".join(names)
    for i in order[:most]:
        cells = "  ".join(f"{decision.scores[name].weighted[i]:>{len(name)}}" for name in names)
        mark = "*" if decision.feasible[i] == decision.node else " "
        yield f"  {mark} {decision.feasible[i]:<{width}}  {decision.total[i]:>6}  {cells}"
    if len(order) > most:
        yield f"    … and {count(len(order) - most, 'more node')}"
