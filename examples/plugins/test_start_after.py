from start_after import StartAfter

from mooring.testing import check_plugin, make_cluster, make_node, make_pod

LATER = {"start-after": "2030-01-01T00:10:00Z"}


def test_the_pod_starts_when_its_time_has_come():
    cluster = make_cluster([make_node("a")], plugins=[StartAfter])
    cluster.apply(make_pod("now"), make_pod("later", annotations=LATER))
    cluster.advance(599)
    assert (cluster.node_of("now"), cluster.node_of("later")) == ("a", "")
    cluster.advance(1)
    assert cluster.node_of("later") == "a"


def test_a_pod_whose_annotation_is_taken_away_starts_at_once():
    cluster = make_cluster([make_node("a")], plugins=[StartAfter])
    cluster.apply(make_pod("later", annotations=LATER))
    cluster.schedule()
    cluster.apply(make_pod("later"))
    cluster.schedule()
    assert cluster.node_of("later") == "a"


def test_an_annotation_that_is_no_time_is_ignored():
    cluster = make_cluster([make_node("a")], plugins=[StartAfter])
    cluster.apply(make_pod("odd", annotations={"start-after": "tomorrow"}))
    cluster.schedule()
    assert cluster.node_of("odd") == "a"


def test_it_keeps_the_contract():
    check_plugin(StartAfter, pods=[make_pod("later", annotations=LATER)])
