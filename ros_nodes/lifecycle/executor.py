"""The executor of programs that a message of a stranger must not end."""

import traceback
from collections.abc import Callable
from typing import Any

from rclpy.exceptions import InvalidHandle
from rclpy.executors import SingleThreadedExecutor
from rclpy.service import Service

# Request, response, when it was sent (ns, its sender's system clock) -> response
Timed = Callable[[Any, Any, int], Any]


class LastingExecutor(SingleThreadedExecutor):
    """Prints what a callback raises, and goes on: rclpy's own services raise where a message says what cannot be.

    A service that has a `timed` callback hears when a request was sent, which rclpy does not pass on: here that takes
    the place of its `_take_service`.
    """

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """See rclpy's."""
        try:
            super().spin_once(timeout_sec)
        except Exception:
            traceback.print_exc()

    def _take_service(self, service: Service) -> Any:
        timed: Timed | None = getattr(service, "timed", None)
        if timed is None:
            return super()._take_service(service)
        try:
            with service.handle:
                request, header = service.handle.service_take_request(service.srv_type.Request)
        except InvalidHandle:  # destroyed meanwhile
            return None

        async def serve() -> None:
            if header is not None:
                sent_ns = header.source_timestamp
                service.send_response(timed(request, service.srv_type.Response(), sent_ns), header)

        return serve
