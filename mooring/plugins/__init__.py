"""The default plugins of kube-scheduler v1.36, and Coscheduling of scheduler-plugins."""

from mooring.framework.plugin import Plugin
from mooring.plugins.coscheduling import Coscheduling
from mooring.plugins.default_binder import DefaultBinder
from mooring.plugins.default_preemption.default_preemption import DefaultPreemption
from mooring.plugins.dynamic_resources.dynamic_resources import DynamicResources
from mooring.plugins.gang_scheduling import GangScheduling
from mooring.plugins.image_locality import ImageLocality
from mooring.plugins.inter_pod_affinity.inter_pod_affinity import InterPodAffinity
from mooring.plugins.node_affinity import NodeAffinity
from mooring.plugins.node_declared_features import NodeDeclaredFeatures
from mooring.plugins.node_name import NodeName
from mooring.plugins.node_ports import NodePorts
from mooring.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from mooring.plugins.node_resources_fit.node_resources_fit import NodeResourcesFit
from mooring.plugins.node_unschedulable import NodeUnschedulable
from mooring.plugins.node_volume_limits.node_volume_limits import NodeVolumeLimits
from mooring.plugins.pod_group_pods_count import PodGroupPodsCount
from mooring.plugins.pod_topology_spread.pod_topology_spread import PodTopologySpread
from mooring.plugins.priority_sort import PrioritySort
from mooring.plugins.scheduling_gates import SchedulingGates
from mooring.plugins.taint_toleration import TaintToleration
from mooring.plugins.topology_placement_generator import TopologyPlacementGenerator
from mooring.plugins.volume_binding.volume_binding import VolumeBinding
from mooring.plugins.volume_restrictions import VolumeRestrictions
from mooring.plugins.volume_zone import VolumeZone

IN_TREE: tuple[type[Plugin], ...] = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
    GangScheduling,
    TopologyPlacementGenerator,
    PodGroupPodsCount,
    Coscheduling,
)


def in_tree_registry() -> dict[str, type[Plugin]]:
    """The built-in plugins by name."""
    return {cls.name: cls for cls in IN_TREE}
