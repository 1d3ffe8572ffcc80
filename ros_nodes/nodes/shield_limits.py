"""The limits of a shield as parameters of its node."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from rclpy.node import Node

from deploy.shield import make_shield_params, narrowed_limits, untried_limits
from deploy.shield.param_checks import bounds_of
from hardware.spec import RobotSpec
from ros_nodes.lifecycle.parameters import declare_following


def declare_limits(node: Node, spec: RobotSpec, trained: Mapping[str, Any]) -> Any:
    """All limits, each a parameter `shield.<field>`: by default the robot's, or what `trained` narrows it to.

    Where `trained` would widen one, or the owner does, a warning says so.
    """
    limits, held = narrowed_limits(spec, trained)
    for line in held:
        node.get_logger().warning(line)
    defaults = make_shield_params(spec, **limits)
    bounds = bounds_of(type(defaults))
    values = {}
    for field in fields(defaults):
        default = getattr(defaults, field.name)
        value = list(default) if isinstance(default, tuple) else default
        low, high = bounds.get(field.name, (None, None))
        text = f"{type(defaults).__name__}.{field.name}, see deploy/shield."
        given = declare_following(node, f"shield.{field.name}", value, text, low, high)
        values[field.name] = tuple(given) if isinstance(default, tuple) else given
    params = make_shield_params(spec, **values)
    for line in untried_limits(spec, params):
        node.get_logger().warning(line)
    return params


def limits_of_bundle(
    file: str, spec: RobotSpec, trusted_keys: Sequence[str], warn: Callable[[str], object]
) -> tuple[Mapping[str, Any], str]:
    """What the policy was trained behind, and the file's fingerprint; `warn` hears of what the file does not state.

    Both are empty for no file.

    BundleError, a ValueError, for a file that is not for this robot or signed by none of `trusted_keys`.
    """
    if not file:
        return {}, ""
    from deploy.bundle import load_bundle  # here, for a shield without a file needs no onnxruntime
    from deploy.runtime.compatibility import check_robot

    bundle = load_bundle(file, trusted_keys)
    check_robot(bundle.contract, spec, file, warn)
    return bundle.contract.shield, bundle.fingerprint
