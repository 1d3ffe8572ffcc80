"""The service by which a policy node that flies gets another policy file."""

from collections.abc import Callable
from functools import partial

from std_srvs.srv import Trigger

from deploy.runtime import PolicyRuntime
from deploy.runtime.swap import SwapRuntime
from ros_nodes.lifecycle.lifecycle_node import ManagedNode
from ros_nodes.lifecycle.parameters import ALWAYS, declare

NEXT_BUNDLE = "next_bundle"


def declare_next_bundle(node: ManagedNode) -> None:
    """Parameter `next_bundle`, which may be set at any time."""
    declare(
        node, NEXT_BUNDLE, "", "Policy file (.onnx) that the service `policy/swap` lets take over.", may_be_set=ALWAYS
    )


def serve_swaps(node: ManagedNode, runtime: SwapRuntime, load: Callable[[str], PolicyRuntime]) -> None:
    """Serve `policy/swap` until clean-up; what `load` refuses, and what cannot be swapped now, is the answer.

    The file is loaded in the executor's thread, while the loop goes on.
    """

    def serve(request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        file = node.get_parameter(NEXT_BUNDLE).value
        try:
            if not file:
                raise ValueError(f"parameter {NEXT_BUNDLE!r} names no policy file")
            if not node.is_active:
                raise ValueError("the policy node is not active")
            runtime.offer(load, file)
        except ValueError as error:
            response.message = str(error)
            return response
        response.success = True
        response.message = f"{file} runs beside {runtime.file} and takes over if it does well: see policy/status"
        return response

    service = node.create_service(Trigger, "policy/swap", serve)
    node.on_release(partial(node.destroy_service, service))
