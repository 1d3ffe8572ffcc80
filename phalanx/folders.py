"""Where results go and runs lie: looked at before any work is done for them."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hardware.names import nearest_path
from policies.records import RECORD, read_record

CHECKPOINT = "checkpoint.pt"  # as in `policies.checkpoint`, which takes seconds to import
LEAST_FREE = 100e6  # bytes: the bag of a short flight of a large team, with logs


def check_run(path: Path) -> None:
    """ValueError unless `path` is a checkpoint, or the folder of a training run that has one."""
    file = path / CHECKPOINT if path.is_dir() else path
    if not file.is_file():
        near = "" if path.exists() else nearest_path(path)
        raise ValueError(f"no checkpoint at {file}: give the folder of a training run, or a checkpoint in it{near}")


def check_out(path: Path | None, folder: bool = False) -> None:
    """ValueError unless `path` can become a file, or with `folder` a folder: said before any work is done for it."""
    if path is None:
        return
    if path.exists() and path.is_dir() != folder:
        raise ValueError(
            f"out = {path}: is a {'file' if folder else 'folder'}, wanted a {'folder' if folder else 'file'}"
        )
    above = next(parent for parent in (path if folder else path.parent, *path.parents) if parent.exists())
    if not above.is_dir():
        raise ValueError(f"out = {path}: {above} is a file, not a folder")
    if not os.access(above, os.W_OK | os.X_OK):
        raise ValueError(f"out = {path}: {above} cannot be written")


def check_files_out(run: Path, group: str | None, path: Path | None) -> None:
    """`check_policies_out` where the run in a folder says how many groups it has; else its checkpoint does, later."""
    if (run / RECORD).is_file():  # else it is a copy of a checkpoint alone, which takes seconds to read
        check_policies_out(path, folder=group is None and len(read_record(run)["algorithm"]) > 1)


def check_policies_out(path: Path | None, folder: bool) -> None:
    """`check_out` for one policy file, or the `folder` of several; ValueError also for a file of another kind."""
    check_out(path, folder)
    if path is not None and not folder and path.suffix != ".onnx":
        raise ValueError(f"out = {path}: a policy file ends in .onnx")
    if path is not None and folder and path.suffix == ".onnx" and not path.is_dir():
        raise ValueError(f"out = {path}: there are several policies, which go into a folder; give the name of one")


def fingerprints(paths: Iterable[Path]) -> dict[Path, str]:
    """Of those of the policy files `paths` that are there; ValueError for what is none: it is not to be replaced."""
    from deploy.bundle import BundleError, load_bundle

    try:
        return {path: load_bundle(path).fingerprint for path in paths if path.exists()}
    except BundleError as error:
        raise ValueError(f"{error}; it is not replaced") from error


def fresh_folder(parent: Path) -> Path:
    """The first of parent/1, parent/2, ... that does not exist; made here, so that two of the same moment differ."""
    number = 1
    while True:
        try:
            (parent / str(number)).mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return parent / str(number)


@contextmanager
def results_folder(given: Path | None, parent: Path) -> Iterator[Path]:
    """The folder `given`, or a fresh one in `parent`, which is taken away again where nothing was written into it."""
    if given:
        yield with_room(given)
        return
    folder = fresh_folder(with_room(parent))
    try:
        yield folder
    finally:
        with suppress(OSError):  # it holds something
            folder.rmdir()


def with_room(folder: Path) -> Path:
    """`folder`, which need not be there yet; ValueError where its disk is nearly full: no node could begin its log."""
    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if (free := shutil.disk_usage(there).free) < LEAST_FREE:
        raise ValueError(
            f"--out {folder}: {free / 1e6:.0f} MB are free on its disk; logs and bag need {LEAST_FREE / 1e6:.0f}"
        )
    return folder
