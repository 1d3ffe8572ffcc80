"""Declares the compiled core; everything else is in setup.cfg and pyproject.toml.

colcon takes what these say only where it finds `setup()` in this file, written so.
"""

from hashlib import sha256
from pathlib import Path

from setuptools import Extension, setup

NATIVE = "deploy/shield/native"
files = sorted(Path(NATIVE).glob("[a-z]*.[ch]"))
digest = sha256(b"".join(file.read_bytes() for file in files)).hexdigest()  # so that a build knows its sources

# Without a compiler the install goes on, and NumPy calculates what this would. Its numbers are those of the source: no
# product and sum in one rounding.
setup(
    ext_modules=[
        Extension(
            "deploy.shield._core",
            sources=[str(file) for file in files if file.suffix == ".c"],
            depends=[str(file) for file in files if file.suffix == ".h"],
            define_macros=[("SOURCES", f'"{digest}"')],
            extra_compile_args=["-O2", "-ffp-contract=off"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"build_ext": {"force": True}},  # times of files say little
)
