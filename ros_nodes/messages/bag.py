"""A rosbag2 in MCAP that is whole at any moment: who kills the recorder leaves a bag that every reader opens."""

import errno
import json
import os
from io import BytesIO
from pathlib import Path
from typing import Any

from rosbags.interfaces import Connection
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.rosbag2.metadata import dump_qos_v9

LATEST = 9  # version of the format
MOST_BYTES = 8_000_000  # in memory
# Of a message's record, behind opcode, length, channel and sequence: https://mcap.dev/spec#message-op0x05
LOG_TIME, PUBLISH_TIME, DATA = 15, 23, 31


class Bag(Writer):
    """A writer whose `save` writes index and metadata of all so far; what is written next goes over that index."""

    storage: Any

    def __init__(self, folder: Path):
        super().__init__(folder, version=LATEST, storage_plugin=StoragePlugin.MCAP)

    def open(self) -> None:
        super().open()
        self._end = self.storage.bio = _End(self.storage.bio.detach())

    def write(self, connection: Connection, timestamp: int, data: bytes | memoryview, sent_ns: int = 0) -> None:
        """A message that arrived at `timestamp`, ns, and was published at `sent_ns`; 0 where unknown."""
        chunk = self.storage.chunk.bio
        begin = chunk.tell()
        super().write(connection, timestamp, data)
        if sent_ns > 0 and chunk is self.storage.chunk.bio:  # the one that fills a chunk has left it
            with chunk.getbuffer()[begin:] as record:  # rosbags knows of one time, and writes it as both
                if record[LOG_TIME:DATA] != 2 * timestamp.to_bytes(8, "little"):
                    raise RuntimeError("rosbags writes messages otherwise than MCAP's specification says")
                record[PUBLISH_TIME:DATA] = sent_ns.to_bytes(8, "little")

    def save(self) -> None:
        """OSError, where the disk is full, leaves the bag as it was saved last."""
        self._begin_index()
        # JSON is YAML too: to write it as rosbags does at the end takes forty times as long, 2.5 ms a topic.
        about = self._about()
        self.storage.close(self.version, json.dumps(about))
        new = self.metapath.with_suffix(".new")
        new.write_text(json.dumps({"rosbag2_bagfile_information": about}), "utf8")
        new.replace(self.metapath)

    @property
    def is_large(self) -> bool:
        """Whether much has not been saved yet."""
        return self._end.unsaved > MOST_BYTES

    def close(self) -> None:
        """Save for the last time."""
        self._begin_index()
        storage = self.storage
        super().close()  # writes index and metadata
        self.storage = storage
        self.abort()

    def abort(self) -> None:
        """End without saving."""
        if self.storage is not None:
            self.storage, self._end.file = None, self._end.file.close()

    def _begin_index(self) -> None:
        if self.storage.chunk.bio.tell():
            self.storage.close_chunk()
        self._end.begin_index()

    def _about(self) -> dict[str, Any]:
        """What `metadata.yaml` says of the bag: version 9 of https://github.com/ros2/rosbag2's format."""
        count, name = sum(self.counts.values()), self.storage.path.name
        start = {"nanoseconds_since_epoch": self.min_timestamp}
        duration = {"nanoseconds": max(0, self.max_timestamp - self.min_timestamp)}
        topics = [
            {
                "topic_metadata": {
                    "name": each.topic,
                    "type": each.msgtype,
                    "serialization_format": each.ext.serialization_format,
                    "offered_qos_profiles": dump_qos_v9(each.ext.offered_qos_profiles),
                    "type_description_hash": each.digest,
                },
                "message_count": self.counts[each.id],
            }
            for each in self.connections
        ]
        return {
            "version": self.version,
            "storage_identifier": "mcap",
            "relative_file_paths": [name],
            "duration": duration,
            "starting_time": start,
            "message_count": count,
            "topics_with_message_count": topics,
            "compression_format": "",
            "compression_mode": "",
            "files": [{"path": name, "starting_time": start, "duration": duration, "message_count": count}],
            "custom_data": None,
            "ros_distro": "rosbags",
        }


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
