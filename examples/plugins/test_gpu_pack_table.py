import gpu_pack_table

from mooring.testing import check_plugin, make_node, make_pod

GPU = "nvidia.com/gpu"


def test_both_forms_agree():
    nodes = [make_node(f"gpu-{n}", resources={GPU: n}) for n in (0, 1, 2, 4)]
    pods = [make_pod(f"train-{n}", requests={GPU: n}) for n in (0, 1, 2, 4)]
    check_plugin(gpu_pack_table.GpuPack, {"reserve": 1}, nodes=nodes, pods=pods)
