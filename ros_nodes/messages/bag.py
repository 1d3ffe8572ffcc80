"""A rosbag2 in MCAP that is whole at any moment: who kills the recorder leaves a bag that every reader opens."""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, TextIO

from rosbags.rosbag2 import StoragePlugin, Writer, writer

LATEST = 9  # version of the format
MOST_BYTES = 8_000_000  # in memory


class Bag(Writer):
    """A writer whose `save` writes index and metadata of all so far; what is written next goes over that index."""

    storage: Any

    def __init__(self, folder: Path):
        super().__init__(folder, version=LATEST, storage_plugin=StoragePlugin.MCAP)

    def open(self) -> None:
        super().open()
        self._end = self.storage.bio = _End(self.storage.bio.detach())

    def save(self) -> None:
        """OSError, where the disk is full, leaves the bag as it was saved last."""
        with _metadata_as_json():
            self._save()

    def _save(self) -> None:
        storage = self.storage
        if storage.chunk.bio.tell():
            storage.close_chunk()
        self._end.begin_index()
        super().close()  # writes index and metadata
        self.storage = storage

    @property
    def is_large(self) -> bool:
        """Whether much has not been saved yet."""
        return self._end.unsaved > MOST_BYTES

    def close(self) -> None:
        """Save for the last time."""
        self._save()
        self.abort()

    def abort(self) -> None:
        """End without saving."""
        if self.storage is not None:
            self.storage, self._end.file = None, self._end.file.close()


class _Json:
    """Writes YAML as JSON, which is part of it."""

    default_flow_style = False

    def __init__(self, typ: str):
        assert typ == "safe"

    @staticmethod
    def dump(data: object, stream: TextIO) -> None:
        json.dump(data, stream)


@contextmanager
def _metadata_as_json() -> Iterator[None]:
    """A fortieth of what rosbags' own YAML takes, 2.5 ms a topic: with 16 drones nearly half a core."""
    yaml, writer.YAML = writer.YAML, _Json
    try:
        yield
    finally:
        writer.YAML = yaml


class _End:
    """The end of a file, in memory until `close`, which writes it at once: none sees a part of it."""

    def __init__(self, file):
        self.file = file
        file.seek(0, os.SEEK_END)
        self._begin, self._index_at, self._index = file.tell(), 0, b""
        self._bytes = BytesIO()

    def tell(self) -> int:
        return self._begin + self._bytes.tell()

    def write(self, data: bytes) -> int:
        return self._bytes.write(data)

    @property
    def unsaved(self) -> int:
        return self._bytes.tell()

    def begin_index(self) -> None:
        """What is written from here on is overwritten after the next `close`."""
        self._index_at = self._bytes.tell()

    def close(self) -> None:
        data = self._bytes.getvalue()
        try:
            if os.pwrite(self.file.fileno(), data, self._begin) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.pwrite(self.file.fileno(), self._index, self._begin)
            os.ftruncate(self.file.fileno(), self._begin + len(self._index))
            raise
        self._begin, self._index = self._begin + self._index_at, data[self._index_at :]
        self._bytes = BytesIO()
