"""Dynamic resource allocation: devices for the resource claims of pods.

claims.py              which claims a pod uses
usage.py               the devices that claims hold
tracker.py             claims as they will be, once writes under way have arrived
inventory.py           resource slices: pools and the devices each node can reach
selectors.py           CEL selectors, evaluated once for each device
plan.py                what claims ask for, in a form that the search can use
search.py              which devices to allocate on a node
constraints.py, capacity.py, counters.py   what a candidate must satisfy
results.py             from chosen devices to an allocation
verdicts.py            the search's answers for all nodes, cached for claims that ask for the same
extended_resources.py  claims for extended resources that device classes stand behind
binding.py             writing claims before the pod is bound
manager.py             what the plugins of all profiles share
dynamic_resources.py   the extension points
"""
