"""What a user gets from the wheel."""

import shutil
import subprocess
import sys
import zipfile

import pytest
from places import ROOT

from phalanx.names import PACKAGES
from policies.algorithms import own


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """Built from a copy, so that the build leaves nothing in the source tree."""
    source = tmp_path_factory.mktemp("source")
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    for name in filter(None, files):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return zipfile.ZipFile(next(out.glob("*.whl")))


def test_every_module_and_data_file_is_in(wheel):
    shipped = set(wheel.namelist())
    wanted = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".py", ".xml", ".json", ".yaml", ".html", ".css", ".js") or path.name == "py.typed"
        if "__pycache__" not in path.parts
    }
    assert wanted - shipped == set()


def test_nothing_else_is_in(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {*PACKAGES} == {*own.PACKAGES}  # a lower layer, which must not ask `phalanx`
    assert tops == {*PACKAGES, "phalanx-0.1.0.dist-info", "phalanx-0.1.0.data"}


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_the_compiled_core_is_in_without_its_source(wheel):
    inside = {name for name in wheel.namelist() if name.startswith("deploy/shield/") and not name.endswith(".py")}
    assert [name.split(".")[0] for name in inside] == ["deploy/shield/_core"]


def test_ros_finds_the_package(wheel):
    names = {name.split(".data/data/")[-1] for name in wheel.namelist() if ".data/data/" in name}
    assert {"share/ament_index/resource_index/packages/phalanx", "share/phalanx/package.xml"} <= names
    assert any(name.startswith("share/phalanx/launch/") for name in names)
    assert any(name.startswith("share/phalanx/config/") for name in names)


def test_ros_run_finds_an_executable_for_every_node(wheel):
    """`ros2 run` looks for files in lib/phalanx that may be executed."""
    found = {
        info.filename.rpartition("/")[2]
        for info in wheel.infolist()
        if "/lib/phalanx/" in info.filename
        if info.external_attr >> 16 & 0o111 == 0o111
    }
    nodes = {path.stem for path in (ROOT / "ros_nodes" / "nodes").glob("*_node.py")}
    assert found == nodes | {"host", "launch_plan"}


def test_metadata_gives_the_robot_a_light_install(wheel):
    metadata = wheel.read("phalanx-0.1.0.dist-info/METADATA").decode()
    core = [line for line in metadata.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert any("onnxruntime" in line for line in core)
    assert not any(name in line for line in core for name in ("torch", "mujoco", "rclpy", "onnxscript"))
    assert "phalanx = phalanx.__main__:main" in wheel.read("phalanx-0.1.0.dist-info/entry_points.txt").decode()
