"""Build the compiled core in place: ``python purgatory_async/native/build.py`` (needs Cython, setuptools, a C compiler)."""

import os
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def build() -> Path:
    """Compile the extension next to its source; returns its path."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension

    root = HERE.parent.parent
    before = Path.cwd()
    os.chdir(root)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            source = HERE.relative_to(root) / "_core.pyx"
            extension = Extension("purgatory_async.native._core", [str(source)], extra_compile_args=["-O2"])
            modules = cythonize([extension], build_dir=scratch, quiet=True)
            distribution = Distribution({"ext_modules": modules, "packages": [], "py_modules": []})
            command = distribution.get_command_obj("build_ext")
            command.inplace = True
            command.build_temp = scratch
            command.ensure_finalized()
            command.run()
            return root / command.get_ext_filename("purgatory_async.native._core")
    finally:
        os.chdir(before)


if __name__ == "__main__":
    print(build())
