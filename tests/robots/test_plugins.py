"""Robots and drivers from outside the package, by module and by entry point of an installed distribution."""

import subprocess
import sys

import pytest

from hardware import load_robot, robot_names
from hardware.drivers import DriverError, load_driver
from hardware.plugins import PluginError, registered

ARM = """
from dataclasses import replace
from hardware import load_robot
SPEC = replace(load_robot("ur5e"), name="shop_arm")
COUNT = 3

class Driver:
    def __init__(self, spec, port):
        self.name = f"{spec.name} on {port}"
"""


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with a user's own module, as the working directory."""
    (tmp_path / "shop_arm.py").write_text(ARM)
    (tmp_path / "broken_arm.py").write_text("import os\nSPEC = undefined_name\n")
    (tmp_path / "half_arm.py").write_text("import no_such_sdk\n")
    (tmp_path / "cut_arm.py").write_text("import os\nSPEC = dict(\n")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for module in ("shop_arm", "broken_arm", "half_arm"):
        sys.modules.pop(module, None)
    load_robot.cache_clear()


@pytest.fixture
def installed(shop, monkeypatch):
    """The same, as a distribution that registers a robot and a driver."""
    info = shop / "shop_arm-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-arm\nVersion: 1.0\n")
    points = "[phalanx.robots]\nshop_arm = shop_arm:SPEC\n[phalanx.drivers]\nshop = shop_arm:Driver\n"
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(shop)
    registered.cache_clear()
    yield
    registered.cache_clear()


def test_a_robot_of_the_working_directory_is_named_by_its_module(shop):
    before = list(sys.path)
    assert load_robot("shop_arm:SPEC").name == "shop_arm"
    assert sys.path == before
    assert load_driver("shop_arm:Driver", load_robot("panda"), port="usb0").name == "panda on usb0"


def test_what_an_installed_package_registers_has_a_name(installed):
    assert "shop_arm" in robot_names() and "panda" in robot_names()
    assert load_robot("shop_arm").joint_names == load_robot("ur5e").joint_names
    assert load_driver("shop", load_robot("shop_arm"), port="usb0").name == "shop_arm on usb0"
    with pytest.raises(PluginError, match=r"unknown robot 'shop_amr'.*shop_arm.*did you mean 'shop_arm'"):
        load_robot("shop_amr")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shop_arm:SPECS", "robot 'shop_arm:SPECS': 'shop_arm' has no 'SPECS'; did you mean 'SPEC'?"),
        ("./shop_arm.py:SPEC", "a module is named without .py and with dots: shop_arm:SPEC"),
        ("shop_arm:COUNT", "robot 'shop_arm:COUNT': is of type int, not RobotSpec"),
        (
            "nowhere.arm:SPEC",
            "robot 'nowhere.arm:SPEC': there is no module 'nowhere' here or installed; go to the folder",
        ),
        ("broken_arm:SPEC", "broken_arm.py:2: NameError: name 'undefined_name' is not defined"),
        ("cut_arm:SPEC", "cut_arm.py:2: SyntaxError: '(' was never closed"),
        ("half_arm:SPEC", "half_arm.py:1: ModuleNotFoundError: No module named 'no_such_sdk'"),
        ("shop_arm:", "unknown robot 'shop_arm:'; known robots: crazyflie, fr3, g1, "),
    ],
)
def test_what_cannot_be_loaded_is_said_in_one_line(shop, name, message):
    with pytest.raises(PluginError) as error:
        load_robot(name)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_called_like_one_of_our_packages_does_not_hide_it(shop):
    (shop / "deploy").mkdir()
    (shop / "deploy" / "__init__.py").write_text("raise RuntimeError('the wrong package')")
    (shop / "shop_arm.py").write_text("import deploy.contract\n" + ARM)
    code = "from hardware import load_robot; print(load_robot('shop_arm:SPEC').name)"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd=shop)
    assert done.stdout == "shop_arm\n", done.stderr


def test_a_driver_that_a_file_names_is_not_imported_unless_the_user_allows_it(shop, monkeypatch):
    for allowed in ("", "shop_arm:Other,shop_arm"):
        monkeypatch.setenv("PHALANX_DRIVERS", allowed)
        with pytest.raises(DriverError, match=r"^driver 'shop_arm:Driver': .* export PHALANX_DRIVERS=module:NAME$"):
            load_driver("shop_arm:Driver", load_robot("panda"), port="usb0")
        assert "shop_arm" not in sys.modules
    monkeypatch.setenv("PHALANX_DRIVERS", "other:Driver,shop_arm:Driver")
    assert load_driver("shop_arm:Driver", load_robot("panda"), port="usb0").name == "panda on usb0"


def test_a_driver_needs_a_name_that_exists():
    with pytest.raises(DriverError, match=r"unknown driver 'nonsense'.* or module:NAME"):
        load_driver("nonsense", load_robot("panda"))
