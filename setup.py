"""Declares the compiled core; everything else is in setup.cfg and pyproject.toml.

colcon takes what these say only where it finds `setup()` in this file, written so.
"""

from setuptools import Extension, setup

NATIVE = "deploy/shield/native"

# Without a compiler the install goes on, and NumPy calculates what this would. Its numbers are those of the source: no
# product and sum in one rounding.
setup(
    ext_modules=[
        Extension(
            "deploy.shield._core",
            sources=[f"{NATIVE}/{name}.c" for name in ("module", "rows", "flight", "joints", "links")],
            depends=[f"{NATIVE}/{name}.h" for name in ("native", "flight")],
            extra_compile_args=["-O2", "-ffp-contract=off"],
            py_limited_api=True,
            optional=True,
        )
    ]
)
