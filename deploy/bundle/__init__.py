"""The policy file: reading and checking it; `policies.export.save` writes it."""

from deploy.bundle.file import (
    CONTRACT_KEY,
    PROBE_TOLERANCE,
    PROBES_KEY,
    Bundle,
    BundleError,
    load_bundle,
    read_bundle,
    self_test,
)

__all__ = [
    "CONTRACT_KEY",
    "PROBES_KEY",
    "PROBE_TOLERANCE",
    "Bundle",
    "BundleError",
    "load_bundle",
    "read_bundle",
    "self_test",
]
