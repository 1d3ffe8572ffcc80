"""The contract: everything that a robot, an operator or a person must know about a policy file."""

from deploy.contract.codec import contract_from_json, contract_to_json
from deploy.contract.plant import Plant, make_plant
from deploy.contract.types import (
    FORMAT,
    ChannelSpec,
    CommandSpec,
    Contract,
    ContractError,
    MemorySpec,
    Provenance,
    RobotInterface,
    TeamSpec,
    TensorSpec,
    robot_interface,
)

__all__ = [
    "FORMAT",
    "ChannelSpec",
    "CommandSpec",
    "Contract",
    "ContractError",
    "MemorySpec",
    "Plant",
    "Provenance",
    "RobotInterface",
    "TeamSpec",
    "TensorSpec",
    "contract_from_json",
    "contract_to_json",
    "make_plant",
    "robot_interface",
]
