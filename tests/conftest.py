"""One compute thread a process: tests share few cores, and thread pools that fight for them slow everything down."""

import gc
import os
import re
import signal
from contextlib import suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from phalanx.report.render import choose_opengl

gc.disable()  # until all tests are found: what they import stays, and to look for garbage in it takes a second a worker
with suppress(ValueError):  # tests of pictures are skipped without; MuJoCo, once imported, does not ask again
    choose_opengl()
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["PHALANX_DRIVERS"] = ",".join(
    (
        "mujoco_driver:MujocoDriver",
        "radio_dongle:CrazyflieByRadio",
        "mujoco_driver:BatteryDriver",
        "mujoco_driver:PlantDriver",
        "test_ros_drill:Driver",
        "test_posture:Hears",
        "shop_arm:Driver",
        "no_such_module:Driver",
        "none:Such",
        "hardware.drivers:Nothing",
    )
)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that Ctrl-C is ignored


@pytest.fixture(scope="session", autouse=True)
def _own_ros_domains():
    """Parallel workers look for free ROS domains among different ones: until its nodes are up a domain looks free."""
    worker, count = os.environ.get("PYTEST_XDIST_WORKER"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if worker is None:
        yield
        return

    class Share(Random):
        def shuffle(self, domains):
            super().shuffle(domains)
            domains[:] = [domain for domain in domains if domain % count == int(worker.removeprefix("gw"))]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ros_nodes.lifecycle.processes.Random", Share)
        yield


@pytest.fixture(autouse=True)
def _own_stops(request):
    """Emergency stops of real robots outlive a run, not a test."""
    if request.node.get_closest_marker("ros") is None:
        yield
        return
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", folder)
        yield


@pytest.fixture(scope="session")
def pd_bundle(tmp_path_factory) -> Path:
    """The policy file of a PD controller, which takes seconds to export."""
    from pd_bundle import save_pd_bundle

    path = tmp_path_factory.mktemp("bundle") / "pd.onnx"
    save_pd_bundle(path)
    return path


@pytest.fixture(scope="session")
def policy_file(tmp_path_factory) -> Path:
    """The sample policy file, to be read only."""
    from bundle_fixture import save_policy

    path = tmp_path_factory.mktemp("bundle") / "policy.onnx"
    save_policy(path)
    return path


@pytest.fixture(scope="session")
def core(tmp_path_factory):
    """The shield's compiled core, always built from the source at hand, never the one of an install."""
    from core_build import build

    built = build(tmp_path_factory.mktemp("core"))
    if not built:
        pytest.skip("no C compiler here")
    spec = spec_from_file_location("_core", built[0])
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def quickly_compiled():
    """Compiled code for few steps of few worlds: made in half the time, it runs some times slower."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def quickly_exported(monkeypatch):
    """Policy files whose graph is made in a tenth of the time: see `quick_onnx`."""
    from quick_onnx import quick_onnx

    monkeypatch.setattr("policies.export.export.to_onnx", quick_onnx)


def pytest_collection_finish() -> None:
    """What is imported stays: the collector need not go through it again and again, nor so often through the rest."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.hookimpl(tryfirst=True)  # xdist looks at the groups in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of parallel workers one runs all tests of a file that share a fixture; other tests go to any that is free."""
    if not config.pluginmanager.hasplugin("xdist"):
        return
    sharing = {item.path for item in items if any(map(is_shared, item._fixtureinfo.name2fixturedefs.values()))}
    for item in items:
        if item.path in sharing and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)  # long ones first: no worker waits at the end


def pytest_configure(config: pytest.Config) -> None:
    """`colcon test` runs the tests of the robot side: it gives its package's name as a prefix, and no marker."""
    if config.getoption("junitprefix") == "phalanx" and not config.getoption("markexpr"):
        config.option.markexpr = "ros"


@pytest.hookimpl(trylast=True)  # after what failed was kept
def pytest_sessionfinish(session: pytest.Session) -> None:
    """xdist writes a test's group behind its name: `--last-failed` looks for it with and without."""
    cache = getattr(session.config, "cache", None)
    if cache is not None and not hasattr(session.config, "workerinput"):
        failed = cache.get("cache/lastfailed", {})
        cache.set("cache/lastfailed", {**failed, **{re.sub(r"@[\w/-]+$", "", name): True for name in failed}})


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Who runs the tests of ROS or of devices alone need not import the others: a robot's computer has no trainer."""
    wanted = re.findall(r"(?<!not )\b(?:ros|real_time|alone)\b", config.option.markexpr)
    if not wanted or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text("utf-8")
    return not any(f"mark.{name}" in text for name in wanted) or None


def is_shared(definitions) -> bool:
    """Whether a fixture of a test file is made once for several tests."""
    return any(each.scope == "module" for each in definitions)
