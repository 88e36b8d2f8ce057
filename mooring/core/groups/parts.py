"""Spreading a group over as few parts of its placement as possible."""

from __future__ import annotations

from collections.abc import Callable, Set

from mooring.framework.placements import Placement


def fewest_parts(
    placement: Placement, members: int, places_in: Callable[[Placement], int], occupied: Set[str]
) -> list[Placement]:
    """The parts to fill one after another so that the members are in as few of them as possible.

    `places_in` says how many members a part takes; `occupied` are the nodes of members that have one already.
    """
    if not placement.parts:
        return [placement]
    chosen = [part for part in placement.parts if occupied & (part.node_names or frozenset())]
    missing = members - sum(map(places_in, chosen))
    others = [(places_in(part), part) for part in placement.parts if part not in chosen]
    while missing > 0 and others:
        most = max(places for places, _ in others)
        # The smallest that takes all who are left, or else the largest; of equals the first.
        size = min((places for places, _ in others if places >= missing), default=most)
        if not size:
            break
        next_one = next(each for each in others if each[0] == size)
        others.remove(next_one)
        chosen.append(next_one[1])
        missing -= size
    if len(chosen) == 1:
        return fewest_parts(chosen[0], members, places_in, occupied)
    return sorted(chosen, key=lambda part: part.name)
