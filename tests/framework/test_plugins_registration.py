"""How plugins become known: decorator, entry point, "module:Class", in code; and what is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from mooring.config import ConfigError
from mooring.core.build import registry_with
from mooring.core.scheduler import Scheduler
from mooring.framework import Args, Plugin, plugin, registration
from mooring.framework.registration import RegistrationError, check_class
from mooring.runtime.registry import Registry
from mooring.runtime.runners import PluginError
from mooring.testing import VirtualClock, config_with, make_cluster, make_node, make_pod
from tests.framework.kit import probe

SOURCE = """
from mooring.framework import Plugin, unschedulable

class Picky(Plugin):
    name = "{name}"

    def filter(self, state, pod, node):
        return None if node.labels.get("nice") == "yes" else unschedulable("not nice")

broken = 1 {break_it}
"""


@pytest.fixture(autouse=True)
def _nothing_decorated(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is decorated here stays here."""
    monkeypatch.setattr(registration, "decorated", {})


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on the import path, as site-packages is."""
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def install(site: Path, module: str, entry: str, name: str = "Picky", break_it: str = "") -> None:
    """What pip would leave behind for a distribution with one plugin."""
    (site / f"{module}.py").write_text(SOURCE.format(name=name, break_it=break_it))
    info = site / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[mooring.plugins]\npicky = {entry}\n")


def works(cls: type[Plugin]) -> bool:
    """Whether a scheduler with it prefers the nice node."""
    cluster = make_cluster([make_node("a"), make_node("b", labels={"nice": "yes"})], plugins=[cls])
    cluster.apply(make_pod())
    cluster.schedule()
    return cluster.node_of("pod") == "b"


class TestDecorator:
    def test_every_scheduler_of_the_process_knows_it(self) -> None:
        @plugin
        class Decorated(Plugin):
            name = "Decorated"

            def filter(self, state: Any, pod: Any, node: Any) -> None:
                return None

        assert registry_with()["Decorated"] is Decorated
        config = config_with([Decorated])
        cluster = make_cluster([make_node()], config=config)  # not handed over
        assert isinstance(cluster.plugin(Decorated), Decorated)

    def test_the_same_class_again_takes_the_place_of_the_old(self) -> None:
        """As when a module is loaded anew."""

        def define() -> type[Plugin]:
            @plugin
            class Reloaded(Plugin):
                name = "Reloaded"

                def filter(self, state: Any, pod: Any, node: Any) -> None:
                    return None

            return Reloaded

        old, new = define(), define()
        assert registry_with()["Reloaded"] is new is not old

    def test_another_class_of_the_same_name_is_refused(self) -> None:
        plugin(probe("Twice", filter=None))
        with pytest.raises(RegistrationError, match=r'two plugins are named "Twice": .*give one of them'):

            @plugin
            class Other(Plugin):
                name = "Twice"

                def filter(self, state: Any, pod: Any, node: Any) -> None:
                    return None


class TestEntryPoints:
    def test_installed_plugins_are_found(self, site: Path) -> None:
        install(site, "nice_nodes", "nice_nodes:Picky")
        registry = registry_with()
        registry.register_entry_points()
        assert works(registry["Picky"])

    def test_a_broken_one_is_named(self, site: Path) -> None:
        install(site, "nice_nodes", "nice_nodes:Picky", break_it="/ 0")
        expected = 'entry point "picky = nice_nodes:Picky": ZeroDivisionError: division by zero'
        with pytest.raises(RegistrationError, match=expected):
            Registry().register_entry_points()

    def test_one_that_leads_nowhere_is_named(self, site: Path) -> None:
        install(site, "nice_nodes", "nice_nodes:Missing")
        with pytest.raises(RegistrationError, match=r'entry point "picky = .*:Missing": AttributeError'):
            Registry().register_entry_points()

    def test_one_that_is_no_plugin_is_named(self, site: Path) -> None:
        install(site, "nice_nodes", "nice_nodes:broken")
        with pytest.raises(
            RegistrationError, match=r'entry point "picky = .*": 1 is not a plugin: expected a'
        ):
            Registry().register_entry_points()

    def test_one_under_a_default_plugins_name_is_refused(self, site: Path) -> None:
        install(site, "nice_nodes", "nice_nodes:Picky", name="NodeName")
        with pytest.raises(RegistrationError, match='two plugins are named "NodeName"'):
            registry_with().register_entry_points()


class TestPath:
    def test_module_and_class(self, site: Path) -> None:
        install(site, "nice_nodes", "nice_nodes:Picky")
        registry = registry_with()
        registry.register_path("nice_nodes:Picky")
        assert works(registry["Picky"])

    @pytest.mark.parametrize("path", ["nice_nodes", "nice_nodes:", ":Picky", ""])
    def test_another_form_is_refused_with_an_example(self, path: str) -> None:
        with pytest.raises(RegistrationError, match=rf'--plugin {path}: expected "module:Class", e\.g\. '):
            Registry().register_path(path)

    @pytest.mark.parametrize(
        ("path", "problem"),
        [
            ("no_such_module:Picky", 'no module named "no_such_module" in .*site-packages'),
            ("mooring.framework:Nothing", 'no class "Nothing" in .*framework/__init__.py; it has no plugin'),
            (
                "mooring.plugins.node_name:NodeNam",
                'its plugin classes: NodeName\nhint: did you mean "NodeName"',
            ),
            ("./no_such_file.py:Picky", "no such file: .*/no_such_file.py"),
            ("mooring.framework:Args", "is not a plugin: expected a subclass of mooring.framework.Plugin"),
        ],
    )
    def test_one_that_leads_nowhere_is_named(self, path: str, problem: str) -> None:
        with pytest.raises(RegistrationError, match=f"--plugin {path}: .*{problem}"):
            Registry().register_path(path)

    def test_a_file_and_its_class(self, site: Path) -> None:
        install(site, "nice_nodes", "nice_nodes:Picky")
        registry = registry_with()
        cls = registry.register_path(f"{site}/nice_nodes.py:Picky")
        assert works(cls)
        registry.register_path("nice_nodes:Picky")  # the same module, so the same class
        assert registry["Picky"] is cls

    def test_a_file_called_like_a_module_of_python(self, tmp_path: Path) -> None:
        (tmp_path / "json.py").write_text(
            "from mooring.framework import Plugin\n"
            "class Mine(Plugin):\n    name = 'Mine'\n    def filter(self, state, pod, node): return None\n"
        )
        assert Registry().register_path(f"{tmp_path}/json.py:Mine").name == "Mine"
        assert json.loads("1") == 1

    def test_a_module_that_the_plugin_imports_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "importing.py").write_text("import no_such_library\n")
        with pytest.raises(RegistrationError, match="ModuleNotFoundError: No module named 'no_such_library'"):
            Registry().register_path(f"{tmp_path}/importing.py:Mine")


class TestInCode:
    def test_classes_are_handed_to_the_scheduler(self) -> None:
        cls = probe("Handed", filter=None)
        scheduler = Scheduler(make_config([cls]), clock=VirtualClock(), pick=lambda n: 0, plugins=[cls])
        assert isinstance(scheduler.profiles["default-scheduler"].plugins["Handed"], cls)

    def test_the_same_class_twice_is_one(self) -> None:
        cls = probe("Handed", filter=None)
        assert Registry([cls, cls]) == {"Handed": cls}

    def test_two_of_one_name_are_refused(self) -> None:
        with pytest.raises(RegistrationError, match='two plugins are named "Handed"'):
            Registry([probe("Handed", filter=None), probe("Handed", score=0)])

    def test_a_default_plugins_name_is_taken(self) -> None:
        with pytest.raises(RegistrationError, match=r'"NodeName": mooring\.plugins\.node_name\.NodeName and'):
            make_cluster(plugins=[probe("NodeName", filter=None)])


def make_config(plugins: list[type[Plugin]]) -> Any:
    from mooring.config import from_object

    return from_object(config_with(plugins))


class TestClasses:
    @pytest.mark.parametrize("thing", [1, "Plugin", object, Plugin(None, None)])  # type: ignore[arg-type, type-var]
    def test_what_is_no_plugin_class(self, thing: object) -> None:
        with pytest.raises(RegistrationError, match="is not a plugin: expected a subclass of"):
            check_class(thing)

    def test_no_name(self) -> None:
        class Nameless(Plugin):
            def filter(self, state: Any, pod: Any, node: Any) -> None:
                return None

        with pytest.raises(RegistrationError, match=r'a plugin needs a name, e\.g\. name = "Nameless"'):
            check_class(Nameless)

    @pytest.mark.parametrize("name", ["", 7, None])
    def test_a_bad_name(self, name: Any) -> None:
        cls = type("Bad", (Plugin,), {"name": name, "filter": lambda self, state, pod, node: None})
        with pytest.raises(RegistrationError, match="a plugin needs a name"):
            check_class(cls)

    def test_no_extension_point(self) -> None:
        class Idle(Plugin):
            name = "Idle"

        with pytest.raises(RegistrationError, match="implements no extension point; override filter, score"):
            check_class(Idle)

    def test_a_wrong_signature_is_shown_with_the_right_one(self) -> None:
        class Wrong(Plugin):
            name = "Wrong"

            def filter(self, pod: Any, node: Any) -> None:  # type: ignore[override]
                return None

        expected = r"Wrong\.filter\(self, pod: .*expected filter\(self, state, pod, node\)"
        with pytest.raises(RegistrationError, match=expected):
            check_class(Wrong)

    @pytest.mark.parametrize(
        "method",
        ["sorts_before", "filter", "filter_nodes", "score", "score_nodes", "pre_filter", "permit", "bind"],
    )
    def test_parameters_are_checked(self, method: str) -> None:
        cls = type("Wrong", (Plugin,), {"name": "Wrong", method: lambda self: None})
        with pytest.raises(RegistrationError, match=rf"Wrong\.{method}\(self\): expected {method}\(self, "):
            check_class(cls)

    @pytest.mark.parametrize(
        "method",
        [
            *("pre_enqueue", "add_pod", "remove_pod", "post_filter", "pre_score", "normalize_score"),
            *("reserve", "unreserve", "pre_bind", "post_bind", "events_to_register"),
        ],
    )
    def test_parameters_of_other_methods_are_checked(self, method: str) -> None:
        members = {"filter": lambda self, state, pod, node: None, method: lambda self, *, odd: None}
        with pytest.raises(RegistrationError, match=f"expected {method}"):
            check_class(type("Wrong", (Plugin,), {"name": "Wrong", **members}))

    def test_methods_that_cannot_wait_are_not_async(self) -> None:
        class Waits(Plugin):
            name = "Waits"

            async def filter(self, state: Any, pod: Any, node: Any) -> None:  # type: ignore[override]
                return None

        with pytest.raises(RegistrationError, match=r"Waits\.filter.*async"):
            check_class(Waits)

    def test_a_plugin_is_generic_in_its_arguments(self) -> None:
        class LocalArgs(Args):
            most: int = 1

        class Local(Plugin[LocalArgs]):
            name = "Local"

            def filter(self, state: Any, pod: Any, node: Any) -> None:
                return None

        class Derived(Local):
            name = "Derived"

        class Other(Plugin):
            name = "Other"

        assert Local.args_type is Derived.args_type is LocalArgs
        assert Other.args_type is None

    def test_a_generic_base_class_leaves_the_arguments_to_its_subclasses(self) -> None:
        A = TypeVar("A", bound=Args)

        class Base(Plugin[A]):
            def filter(self, state: Any, pod: Any, node: Any) -> None:
                return None

        class Concrete(Base[PackArgs]):
            name = "Concrete"

        assert Base.args_type is None
        assert Concrete.args_type is PackArgs

    def test_extension_points_are_those_overridden_also_in_a_base_class(self) -> None:
        class Base(Plugin):
            def filter(self, state: Any, pod: Any, node: Any) -> None:
                return None

        class Derived(Base):
            name = "Derived"

            def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
                return None

            def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
                return None

        assert Derived.extension_points == {"filter", "reserve", "score"}


class PackArgs(Args):
    resource: str = "cpu"
    reserve_share: float = 0.5


class Pack(Plugin[PackArgs]):
    name = "Pack"

    def score(self, state: Any, pod: Any, node: Any) -> int:
        return 0


class TestArgs:
    def test_they_are_decoded_into_their_type(self) -> None:
        cluster = make_cluster(plugins=[Pack], args={"Pack": {"resource": "memory", "reserveShare": 0.25}})
        assert cluster.plugin(Pack).args == PackArgs(resource="memory", reserve_share=0.25)

    def test_without_any_they_have_their_defaults(self) -> None:
        assert make_cluster(plugins=[Pack]).plugin(Pack).args == PackArgs()

    @pytest.mark.parametrize(
        ("args", "where"),
        [({"resourc": "cpu"}, "resourc"), ({"reserveShare": "half"}, "reserveShare"), ({"resource": 7}, "")],
    )
    def test_wrong_ones_name_the_field(self, args: dict[str, Any], where: str) -> None:
        with pytest.raises(ConfigError, match=rf"pluginConfig\[0\]\.args.*{where}"):
            make_cluster(plugins=[Pack], args={"Pack": args})

    def test_a_plugin_without_a_type_gets_them_as_they_are(self) -> None:
        raw = probe("Raw", filter=None)
        given = {"colour": "blue", "limits": [1, 2]}
        assert make_cluster(plugins=[raw], args={"Raw": given}).plugin(raw).args == given

    def test_a_constructor_that_raises_names_the_plugin(self) -> None:
        class Refuses(Plugin):
            name = "Refuses"

            def __init__(self, args: Any, handle: Any) -> None:
                raise OSError("no such device")

            def filter(self, state: Any, pod: Any, node: Any) -> None:
                return None

        with pytest.raises(PluginError, match='initializing plugin "Refuses": no such device'):
            make_cluster(plugins=[Refuses])


class TestConfiguration:
    def test_an_unknown_plugin_is_named_with_a_hint(self) -> None:
        config = config_with([probe("Pakc", filter=None)])
        with pytest.raises(ConfigError, match=r'(?s)unknown plugin "Pakc".*did you mean "Pack"'):
            make_cluster(plugins=[Pack], config=config)

    def test_a_point_that_it_does_not_implement(self) -> None:
        config = config_with([Pack])
        config["profiles"][0]["plugins"]["filter"] = {"enabled": [{"name": "Pack"}]}
        expected = (
            r'(?s)profiles\[0\]\.plugins\.filter\.enabled\[0\]: plugin "Pack" does not extend FilterPlugin'
            r".*it implements score"
        )
        with pytest.raises(ConfigError, match=expected):
            make_cluster(plugins=[Pack], config=config)

    def test_two_queue_sorts(self) -> None:
        sort = probe("Sort", sorts_before=False)
        config = config_with([sort])
        del config["profiles"][0]["plugins"]["queueSort"]
        with pytest.raises(ConfigError, match=r"only one queue sort plugin required .* but got 2"):
            make_cluster(plugins=[sort], config=config)
