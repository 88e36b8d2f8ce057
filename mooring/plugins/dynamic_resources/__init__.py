"""Dynamic resource allocation: devices for the resource claims of pods.

claims.py              which claims a pod uses
usage.py               the devices that claims hold
tracker.py             claims as they will be, once writes under way have arrived
inventory.py           resource slices: pools and the devices each node can reach
device_selectors.py    CEL selectors, evaluated once for each device
plan.py                what claims ask for, in a form that the search can use
search.py              which devices to allocate on a node
constraints.py, capacity.py, counters.py   what a candidate must satisfy
results.py             from chosen devices to an allocation
verdicts.py            the search's answers for all nodes, cached for claims that ask for the same
extended_resources.py  claims for extended resources that device classes stand behind
device_counts.py       devices in place of extended resources, for scores
manager.py             what the plugins of all profiles share
pod_claims.py          the claims of a pod in one scheduling cycle
offers.py              what is to be allocated for them
claim_filter.py        on which nodes they can be used
claim_binder.py        writing them before the pod is bound
binding.py             the writes themselves, and binding conditions
contention.py          devices that another scheduler allocated at the same time
device_view.py         devices in the form that plugins of users see
dynamic_resources.py   the extension points
"""
