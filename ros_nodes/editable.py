"""For `pip install -e`, by pyproject.toml: an editable install has its data files too, for by them ROS finds a package.

In setup.py it would not do: colcon reads setup.cfg only beside a setup.py that calls, or names, `setup()`.
"""

from setuptools.command.editable_wheel import editable_wheel


class EditableWheel(editable_wheel):
    """setuptools' command, which asks the distribution whether it `has_data`, and it does not know."""

    def run(self) -> None:
        self.distribution.has_data = self.distribution.has_data_files
        super().run()
