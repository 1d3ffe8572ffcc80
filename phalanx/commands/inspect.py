"""`phalanx inspect`: what a policy file expects, does and comes from."""

import json as jsonlib

from phalanx.console import print_json
from phalanx.options import PolicyFile


def inspect(file: PolicyFile, json: bool = False) -> int:
    """Explain a policy file: what it is given, what it answers, where it comes from.

    Args:
        file: Policy file, such as zoo/swarm-swap.onnx.
        json: Print the contract itself, with fingerprint, on stdout.
    """
    from deploy.bundle import load_bundle, self_test
    from deploy.contract.codec import contract_to_json
    from phalanx.contract_view import show_contract

    bundle = load_bundle(file)
    error = self_test(bundle, str(file))
    if json:
        contract = jsonlib.loads(contract_to_json(bundle.contract))
        print_json({"fingerprint": bundle.fingerprint, "probe_error": error, "contract": contract})
    else:
        show_contract(bundle.contract, bundle.fingerprint, error, file)
    return 0
