"""Files of claims outlive pods."""

from __future__ import annotations

from mooring.testing.sandbox_cluster import SandboxCluster

CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
LOCAL = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: local
  local: {path: /tmp/disk}
  claimRef: {name: data, namespace: default}
  nodeAffinity:
    required: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [node-1]}]}]}
"""


def pod(name: str, script: str, node: str, volume: str, fields: str = "") -> str:
    """Return a pod that runs a script on a node, with a volume at /data."""
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{{matchFields: [{{key: metadata.name, operator: In, values: [{node}]}}]}}]
  containers:
  - name: main
    image: busybox
    command: [sh, -c, '{script}']
    volumeMounts: [{{name: data, mountPath: /data}}]
    {fields}
  volumes: [{{name: data, {volume}}}]
"""


def run(cluster: SandboxCluster, name: str, script: str, node: str, volume: str, fields: str = "") -> int:
    """Run a script in a pod, and return its exit code."""
    cluster.apply(pod(name, script, node, volume, fields))
    cluster.wait(lambda: cluster.pod(name).finished)
    status = cluster.get(f"pod/{name}")["status"]
    code: int = status["containerStatuses"][0]["state"]["terminated"]["exitCode"]
    cluster.delete(f"pod/{name}")
    cluster.advance(5)
    return code


OF_CLAIM = "persistentVolumeClaim: {claimName: data}"


def test_files_of_a_claim_outlive_its_pods(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(CLAIM)
    assert run(mooring_cluster, "writer", "ls /data/a || echo 1 > /data/a", "node-1", OF_CLAIM) == 0
    assert run(mooring_cluster, "reader", "test 1 = $(cat /data/a)", "node-1", OF_CLAIM) == 0
    mooring_cluster.delete("pvc/data")
    mooring_cluster.advance(10)
    mooring_cluster.apply(CLAIM)
    assert run(mooring_cluster, "later", "test -e /data/a", "node-1", OF_CLAIM) == 1


def test_a_claim_may_be_mounted_read_only(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(CLAIM)
    assert run(mooring_cluster, "writer", "mkdir /data/a", "node-1", OF_CLAIM) == 0
    read_only = "persistentVolumeClaim: {claimName: data, readOnly: true}"
    assert run(mooring_cluster, "reader", "ls -d /data/a && ! touch /data/b", "node-1", read_only) == 0
    waiting = pod("waits", "true", "node-1", read_only).replace("/data}", "/data, subPath: c}")
    mooring_cluster.apply(waiting)
    mooring_cluster.advance(5)
    state = mooring_cluster.get("pod/waits")["status"]["containerStatuses"][0]["state"]["waiting"]
    assert state == {
        "reason": "CreateContainerConfigError",
        "message": 'failed to create subPath directory for volumeMount "data" of container "main"',
    }


def test_a_local_volume_is_a_path_of_its_node(mooring_cluster: SandboxCluster) -> None:
    mooring_cluster.apply(LOCAL, CLAIM.replace("spec: {", "spec: {storageClassName: local, "))
    mooring_cluster.advance(20)
    of_node = "hostPath: {path: /tmp/disk, type: DirectoryOrCreate}"
    assert run(mooring_cluster, "maker", "true", "node-1", of_node) == 0
    assert run(mooring_cluster, "writer", "echo 1 > /data/a", "node-1", OF_CLAIM) == 0
    of_node = "hostPath: {path: /tmp/disk}"
    assert run(mooring_cluster, "reader", "test 1 = $(cat /data/a)", "node-1", of_node) == 0
    assert run(mooring_cluster, "elsewhere", "test -e /data/a", "node-2", of_node) == 1


def test_privileged_pods_mount_folders_of_their_node(mooring_cluster: SandboxCluster) -> None:
    enter = 'nsenter --mount=/data/proc/1/ns/mnt -- sh -c "{}"'
    scripts = {
        "mkdir -p /tmp/a && mount --bind /tmp/a /tmp/a && umount /tmp/a": 0,
        "mkdir -p /tmp/b && mount -t tmpfs -o size=10m tmpfs-b /tmp/b": 0,
        "umount /tmp/b && rm -r /tmp/b": 0,
        "umount /tmp/a": 1,
        "mount --bind /tmp/none /tmp/none": 255,
    }
    fields = "securityContext: {privileged: true}"
    of_node = "hostPath: {path: /}"
    codes = {
        script: run(mooring_cluster, f"p{at}", enter.format(script), "node-1", of_node, fields)
        for at, script in enumerate(scripts)
    }
    assert codes == scripts


def test_a_pod_waits_for_the_folder_of_its_local_volume(mooring_cluster: SandboxCluster) -> None:
    claim = CLAIM.replace("spec: {", "spec: {storageClassName: local, ")
    mooring_cluster.apply(LOCAL.replace("/tmp/disk", "/tmp/later"), claim)
    mooring_cluster.apply(pod("waits", "true", "node-1", OF_CLAIM))
    mooring_cluster.advance(20)
    assert 'path "/tmp/later" does not exist' in mooring_cluster.events("pod/waits")[-1].note
    enter = 'nsenter --mount=/data/proc/1/ns/mnt -- sh -c "mkdir -p /tmp/later; ls -d /tmp/later"'
    privileged = "securityContext: {privileged: true}"
    assert run(mooring_cluster, "unprivileged", enter, "node-1", "hostPath: {path: /}") == 1
    assert run(mooring_cluster, "maker", enter, "node-1", "hostPath: {path: /}", privileged) == 0
    mooring_cluster.wait(lambda: mooring_cluster.pod("waits").finished)
