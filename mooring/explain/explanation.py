"""All there is to say about a pod, in a form that programs read: why is it pending, why did it land there,
what would make it fit? `mooring.explain.text` puts it into words."""

from __future__ import annotations

import msgspec

from mooring.core.decision import Decision, Ranked, RefusedNodes


class _Part(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A part of an explanation; what does not apply is left out."""


class Hold(_Part):
    """A permit plugin that holds a pod back."""

    plugin: str
    message: str = ""


class Awaited(_Part):
    """Something that may happen to objects of a kind and would bring a refused pod back."""

    resource: str
    text: str
    plugins: list[str]  # that refused the pod, and asked to hear of it


class Waiting(_Part):
    """Where a pending pod stands in the scheduler, and what it waits for."""

    queue: str = ""  # active, backoff, error backoff, unschedulable, in flight, permit, binding
    attempts: int = 0
    since: str = ""  # when it first could be tried
    last_attempt: str = ""
    until: str = ""  # when it is tried again, or refused by permit, at the latest
    gated_by: str = ""  # the plugin whose pre_enqueue keeps it out
    gate: str = ""  # what that plugin says
    refused_by: list[str] = []
    held_by: list[Hold] = []
    nominated_node: str = ""
    victims: list[str] = []  # pods that still have to go from there
    events: list[Awaited] = []  # what would bring it back


class Change(_Part):
    """A change after which the filters were seen to let the pod pass, all else being equal."""

    kind: str
    text: str  # what to do
    nodes: int  # on so many
    examples: list[str] = []
    field: str = ""  # of the pod, where it is the pod that would change
    command: str = ""  # to paste into a shell
    parts: list[Change] = []  # of kind "pair": the two changes that help only together


class Reasons(_Part):
    """One plugin's reasons to refuse a node."""

    plugin: str
    reasons: list[str]


class Closest(_Part):
    """Nodes that the fewest plugins refuse."""

    nodes: int
    refused_by: list[Reasons]
    examples: list[str] = []


class Preemption(_Part):
    """What evicting pods of lower priority would do."""

    helps: bool
    message: str = ""  # why not
    node: str = ""
    victims: list[str] = []
    candidates: int = 0  # nodes where it would help, among those that were tried


class Now(_Part):
    """What an attempt would come to at this moment."""

    nodes: int
    feasible: int = 0
    message: str = ""  # as the condition of the pod would say it
    error: str = ""  # a plugin failed
    refused: list[RefusedNodes] = []
    scored_by: list[str] = []
    ranking: list[Ranked] = []  # the best nodes
    best_nodes: int = 0
    claims: list[str] = []  # what the pod's claims need, and what the best nodes have
    changes: list[Change] = []  # each of them alone would do; those that open most nodes first
    closest: list[Closest] = []
    preemption: Preemption | None = None


class PastAttempt(_Part):
    """An outcome, and how often it came about in a row."""

    first: str
    last: str
    count: int
    decision: Decision


class GroupOutline(_Part):
    """The pod group of a pod, in a sentence."""

    group: str
    state: str
    summary: str


class Explanation(_Part):
    """All there is to say about one pod."""

    pod: str
    state: str  # scheduled, pending, gated, waiting (for permission), binding, terminating, finished or gone
    summary: str  # the short answer
    as_of: str
    source: str = ""  # who worked it out, where that is not the scheduler itself
    uid: str = ""
    profile: str = ""  # the pod's schedulerName
    profiles: list[str] = []  # of the scheduler, where none has that name
    phase: str = ""  # of the pod; "" in a manifest that no cluster has seen
    node: str = ""
    condition: str = ""  # what the pod's status says about its scheduling
    group: GroupOutline | None = None  # the pod group that it waits with
    waiting: Waiting | None = None
    now: Now | None = None
    attempts: list[PastAttempt] = []  # oldest first


class Departure(_Part):
    """A node that would take a pod once other pods have left it."""

    node: str
    pods: list[str]
    resource: str = ""  # which the pod lacks there most, with what is free of it and what the node has
    free: str = ""
    allocatable: str = ""


class Lacking(_Part):
    """Members of a group that are alike and have no place."""

    pods: list[str]
    message: str  # as the condition of the first would say it
    needs: str = ""  # what it requests and no node has free: "8 nvidia.com/gpu"
    departure: Departure | None = None
    changes: list[Change] = []  # that would make one of them fit


class GroupMember(_Part):
    """A pod of a group."""

    pod: str
    node: str = ""
    place: str = ""  # where it would go
    message: str = ""  # why it has no place


class TriedPlacement(_Part):
    """A set of nodes that a group was tried on as a whole."""

    name: str
    nodes: int
    places: int


class Starvation(_Part):
    """Pods that came while a group waited, and have nodes."""

    since: str
    pods: int
    examples: list[str]  # the latest
    reserve_after: int | None = None  # seconds after which nodes are kept for the group; None: never


class GroupExplanation(_Part):
    """All there is to say about a group of pods."""

    group: str
    state: str  # scheduled, partial, preempting, fits, pending, gated or missing (has pods, but no object)
    summary: str
    as_of: str
    source: str = ""  # who worked it out, where that is not the scheduler itself
    policy: str = ""  # gang or basic
    min_count: int = 0
    condition: str = ""  # what the group's status says
    topology_key: str = ""  # the node label whose value the members must share
    unlabelled_nodes: int = 0  # that do not have it, and so are in no placement
    pods: int = 0  # that exist
    scheduled: int = 0  # of these, have a node
    places: int = 0  # and would have one
    starts_with: list[str] = []  # groups that must have places as well
    placement: str = ""  # where most of them would, if there is more than one
    placements: list[TriedPlacement] = []  # those with most places first
    lacking: list[Lacking] = []
    victims: list[str] = []  # pods whose eviction would let the group in
    waiting: Waiting | None = None  # of the member that waits for most
    starvation: Starvation | None = None
    members: list[GroupMember] = []


class Workload(_Part):
    """A workload, and why it lacks pods, where their creation was rejected."""

    workload: str  # "deployment/web"
    namespace: str
    desired: int
    pods: int
    pending: int = 0
    reason: str = ""  # FailedCreate
    message: str = ""
    last: str = ""


class Explanations(_Part):
    """Several pods, workloads and pod groups."""

    pods: list[Explanation]
    workloads: list[Workload] = []
    groups: list[GroupExplanation] = []


class Cause(_Part):
    """Pods that are pending for one cause."""

    text: str
    pods: list[str]
    changes: list[Change] = []  # that would make the first of them fit
    group: str = ""  # the pod group that all of them are of


class Causes(_Part):
    """All pending pods, those of the most frequent cause first."""

    pending: int
    causes: list[Cause]
    workloads: list[Workload] = []  # that lack pods


class Outline(_Part):
    """One pod in the list of recent decisions."""

    pod: str
    result: str  # of the last attempt: scheduled, unschedulable or error
    summary: str
    last: str
    attempts: int = 0
    node: str = ""


class Outlines(_Part):
    """The pods that were tried last, the latest first."""

    as_of: str
    pods: list[Outline]
