"""Which admission plugins run, in which order."""

from __future__ import annotations

from mooring.embedded.admission.chain import Admission, AdmissionPlugin
from mooring.embedded.admission.namespace_lifecycle import NamespaceLifecycle

PLUGINS: tuple[type[AdmissionPlugin], ...] = (NamespaceLifecycle,)


def default_admission() -> Admission:
    return Admission([plugin() for plugin in PLUGINS])
