from gpu_pack import GpuPack

from mooring.testing import check_plugin, make_cluster, make_node, make_pod

GPU = "nvidia.com/gpu"


def gpu_cluster(**args):
    nodes = [make_node("gpu-1", resources={GPU: 4}), make_node("gpu-2", resources={GPU: 4})]
    cluster = make_cluster(nodes, plugins=[GpuPack], args={"GpuPack": args})
    cluster.apply(make_pod("running", requests={GPU: 1}, node_name="gpu-1"))
    return cluster


def test_the_fuller_node_scores_higher():
    cluster = gpu_cluster()
    cluster.apply(make_pod("train", requests={GPU: 1}))
    cluster.schedule()
    decision = cluster.decision("train")
    assert decision.feasible == ["gpu-1", "gpu-2"]
    assert decision.scores["GpuPack"].raw == [25, 0]


def test_a_pod_waits_until_there_is_room():
    cluster = gpu_cluster(reserve=1)
    cluster.apply(make_pod("other", requests={GPU: 1}, node_name="gpu-2"))
    cluster.apply(make_pod("train", requests={GPU: 3}))
    cluster.schedule()
    assert cluster.node_of("train") == ""
    assert "2 node(s) had too few free GPUs" in cluster.decision("train").message
    cluster.delete(cluster.pod("running"))
    cluster.advance(5)
    assert cluster.node_of("train") == "gpu-1"


def test_it_keeps_the_contract():
    check_plugin(GpuPack)
    check_plugin(GpuPack, {"reserve": 1}, pods=[make_pod("train", requests={GPU: 3})])
