"""Everything is declared in setup.cfg and pyproject.toml; colcon needs this file to exist."""

from setuptools import setup

setup()
