"""The executor of programs that a message of a stranger must not end."""

import traceback

from rclpy.executors import SingleThreadedExecutor


class LastingExecutor(SingleThreadedExecutor):
    """Prints what a callback raises, and goes on: rclpy's own services raise where a message says what cannot be."""

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """See rclpy's."""
        try:
            super().spin_once(timeout_sec)
        except Exception:
            traceback.print_exc()
