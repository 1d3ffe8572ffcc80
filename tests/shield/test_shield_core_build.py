"""The compiled core of the shield: an install that does not need it, and which build of it is used."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from core_build import ROOT, build

from deploy.shield import native


def test_without_a_compiler_the_install_goes_on(tmp_path):
    assert build(tmp_path, CC="/bin/false") == []


def test_a_core_that_was_not_built_from_the_sources_beside_it_is_not_used(core, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "deploy.shield._core", core)
    monkeypatch.setattr(native, "__file__", str(tmp_path / "__init__.py"))
    assert native._load() is core  # beside no sources, as in an install
    for source in (ROOT / "deploy" / "shield" / "native").glob("*.[ch]"):
        shutil.copy2(source, tmp_path)
    (tmp_path / ".#rows.c").symlink_to("me@here.1234:5678")  # as an editor locks a file that it has open
    assert native._load() is core
    source = tmp_path / "rows.c"
    source.write_bytes(source.read_bytes().replace(b"0.5", b"0.6", 1) + b"\n")
    os.utime(source, (0, 0))  # a change that looks old
    assert native._load() is None


def test_a_core_that_was_cut_off_is_not_loaded(core, tmp_path):
    """What its pages beyond the end hold is asked for when it is loaded, and ends the process."""
    shield = tmp_path / "deploy" / "shield"
    shield.mkdir(parents=True)
    for folder, of in ((shield.parent, ROOT / "deploy"), (shield, ROOT / "deploy" / "shield")):
        for path in of.iterdir():
            if path.name != "shield" and not path.name.startswith("_core"):
                (folder / path.name).symlink_to(path)
    library = shield / "_core.abi3.so"
    code = "from deploy.shield import native; print(native.compiled)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    for share, says in ((1.0, "<module"), (0.7, "None"), (0.3, "None"), (0.0, "None")):
        whole = Path(core.__file__).read_bytes()
        library.write_bytes(whole[: round(share * len(whole))])
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=tmp_path
        )
        assert done.returncode == 0 and done.stdout.startswith(says), (share, done)
