"""The policy file: reading, checking and writing it."""

from deploy.bundle.file import (
    CONTRACT_KEY,
    PROBE_TOLERANCE,
    PROBES_KEY,
    Bundle,
    BundleError,
    load_bundle,
    save_bundle,
    self_test,
)

__all__ = [
    "CONTRACT_KEY",
    "PROBES_KEY",
    "PROBE_TOLERANCE",
    "Bundle",
    "BundleError",
    "load_bundle",
    "save_bundle",
    "self_test",
]
