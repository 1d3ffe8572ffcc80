"""The doctor finds what is wrong, and nothing where nothing is wrong."""

import ctypes
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import ros_nodes
from deploy.shield import native
from phalanx.doctor import versions
from phalanx.doctor.machine import wake_up_errors_us
from phalanx.doctor.names import name_checks
from phalanx.doctor.versions import version_checks
from ros_nodes.lifecycle.scheduling import OF_SHIELDS

CAP_SYS_NICE = 23  # of linux/capability.h
CONFIG = Path(ros_nodes.__file__).parent / "config" / "team.yaml"
PR_CAPBSET_DROP = 24  # of linux/prctl.h: root has it no more after the next exec


def test_a_foreign_package_of_the_same_name_is_named(tmp_path):
    (tmp_path / "sim").mkdir()
    (tmp_path / "sim" / "__init__.py").touch()
    command = [sys.executable, "-m", "phalanx", "doctor", "--json"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=60)
    found = json.loads(done.stdout)
    broken = {
        check["name"]: check for check in found["checks"] if check["status"] == "fail" and check["group"] == "names"
    }
    assert done.returncode == 1 and not found["healthy"]
    assert set(broken) == {"sim"}
    assert str(tmp_path) in broken["sim"]["found"] and broken["sim"]["hint"]


def test_names_and_versions_of_this_installation_are_in_order():
    assert [check for check in [*name_checks(), *version_checks()] if check.status == "fail"] == []


@pytest.mark.parametrize(("compiled", "found"), [(None, "NumPy"), (object(), "compiled")])
def test_it_says_which_core_the_shield_has(monkeypatch, compiled, found):
    monkeypatch.setattr(native, "compiled", compiled)
    assert {check.name: check.found for check in version_checks()}["shield's core"] == found


@pytest.mark.parametrize(
    ("found", "wanted", "status"),
    [
        ("2.13.0+cpu", ">=2.5", "ok"),
        ("8.4.4", "==8.4.3", "fail"),
        ("7.2.0", "<7.2,>=7.1", "fail"),
        ("1.9", ">=1.10", "fail"),
        (None, ">=1", "fail"),
    ],
)
def test_version_ranges(found, wanted, status, monkeypatch):
    monkeypatch.setattr(versions, "installed", lambda name: found)
    assert versions.check_version(Requirement(f"thing{wanted}")).status == status


@pytest.mark.ros
def test_messages_make_the_round_trip_over_real_dds():
    from ros_nodes.messages.loopback import round_trips_ms

    times = round_trips_ms(count=20, timeout_s=10.0)
    assert len(times) == 20 and all(0.0 < t < 1000.0 for t in times)


def test_wake_ups_are_never_early():
    assert min(wake_up_errors_us(duration_s=0.1)) >= 0.0


@pytest.mark.skipif(not sys.platform.startswith("linux") or os.geteuid() != 0, reason="only root may drop capabilities")
@pytest.mark.parametrize("dropped", [False, True])
def test_who_may_set_a_niceness_is_who_can_and_real_robots_are_said_to_be_held_up_else(dropped):
    """As root of a container that was given no SYS_NICE."""
    code = (
        "import json, os\n"
        "from phalanx.doctor.machine import held_up, robots_computer_checks\n"
        "from ros_nodes.lifecycle.machine_load import MachineLoad\n"
        "os.getloadavg = lambda: (9.0, 0.0, 0.0)\n"
        "os.sched_getaffinity = lambda process: {0}\n"
        "checks = [[each.name, each.status, each.hint] for each in robots_computer_checks(MachineLoad())]\n"
        "said = held_up()\n"
        "try: os.setpriority(os.PRIO_PROCESS, 0, -15); can = True\n"
        "except PermissionError: can = False\n"
        "print(json.dumps([can, checks, said]))"
    )
    drop = partial(ctypes.CDLL(None).prctl, PR_CAPBSET_DROP, CAP_SYS_NICE) if dropped else None
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, preexec_fn=drop, check=True)
    can, ((_, priority, hint), (_, load, _)), said = json.loads(done.stdout)
    assert (priority, load) == ("ok" if can else "warn", "warn") and not (dropped and can)
    assert ("nice -15" in hint) is not can and ("niceness -15 is not granted" in said) is not can
    assert "load 9.0 on 1 cores" in said and "phalanx doctor" in said


def test_the_niceness_that_is_tried_is_the_one_that_shields_and_drivers_ask_for():
    given = yaml.safe_load(CONFIG.read_text())
    assert {given[f"/**/{node}"]["ros__parameters"]["niceness"] for node in ("shield", "driver")} == {OF_SHIELDS}
