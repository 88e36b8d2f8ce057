from gang import Gang

from mooring.testing import check_plugin, make_cluster, make_node, make_pod


def member(name, **more):
    return make_pod(name, labels={"gang": "crew", "gang-size": "3"}, **more)


def test_all_or_none():
    cluster = make_cluster([make_node("a")], plugins=[Gang])
    cluster.apply(member("one"), member("two"))
    cluster.schedule()
    assert {pod.spec.node_name for pod in cluster.pods()} == {""}
    cluster.apply(member("three"))
    cluster.schedule()
    assert {pod.spec.node_name for pod in cluster.pods()} == {"a"}


def test_when_one_cannot_start_the_others_do_not_wait():
    cluster = make_cluster([make_node("a")], plugins=[Gang])
    cluster.apply(member("one"), member("two"))
    cluster.schedule()
    cluster.delete(cluster.pod("one"))
    cluster.schedule()
    message = cluster.pod("two").status.conditions[0].message
    assert "pod default/one of the gang could not start" in message


def test_a_member_that_is_started_again_finds_the_others():
    cluster = make_cluster([make_node("a")], plugins=[Gang])
    cluster.apply(member("one", node_name="a"), member("two", node_name="a"), member("three"))
    cluster.schedule()
    assert cluster.node_of("three") == "a"


def test_it_keeps_the_contract():
    check_plugin(Gang, pods=[member("one"), member("two"), member("three")])
