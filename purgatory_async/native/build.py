"""Build the compiled core: ``python purgatory_async/native/build.py`` puts it beside its sources.

It needs Cython, setuptools and a C compiler, and does nothing if the extension is up to date. Hatchling's build hook is
here too: `pip install` goes on without the core where it cannot be built; ``PURGATORY_ASYNC_PURE=1`` leaves it out, and
``PURGATORY_ASYNC_PURE=0`` makes a failure an error.
"""

import os
import sys
import sysconfig
import tempfile
from pathlib import Path
from runpy import run_path
from typing import Any, Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent
MODULE: Final = "purgatory_async.native._core"
PATH: Final = HERE / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"  # beside its sources
SHARED: Final = run_path(str(HERE / "switch.py"))  # the package may not be importable yet
MARK: Final[str] = SHARED["sources_mark"]()


def why_pure() -> str | None:
    """Return why this interpreter gets no extension, or None if it gets one."""
    if SHARED["asked_for"]() == "pure":
        return "PURGATORY_ASYNC_PURE=1"
    if sys.implementation.name != "cpython":
        return f"{sys.implementation.name} has its own compiler"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this interpreter is free-threaded"
    return None


def compile_into(folder: Path) -> Path:
    """Compile the extension into a folder; returns its path.

    Raises:
        RuntimeError: Cython or setuptools is not installed, or the C compiler fails or does not exist.
    """
    try:
        from Cython import Build  # noqa: PLC0415 - only a build needs them
        from setuptools import Distribution, Extension  # noqa: PLC0415
        from setuptools.errors import BaseError, CCompilerError  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise RuntimeError(f"{error.name} is not installed") from None

    cython: Any = Build
    extension = Extension(
        MODULE,
        [str((HERE / "_core.pyx").relative_to(ROOT))],
        define_macros=[("PURGATORY_SOURCES", MARK.rpartition(" ")[2])],
        extra_compile_args=[] if "CFLAGS" in os.environ or os.name == "nt" else ["-O2", "-g0"],
    )
    before = Path.cwd()
    os.chdir(ROOT)  # Cython derives the module's name and the C file's place from a relative path
    try:
        modules = cython.cythonize([extension], build_dir=str(folder / "c"), quiet=True)
        distribution = Distribution({"ext_modules": modules, "packages": [], "py_modules": []})
        command: Any = distribution.get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(folder / "lib"), str(folder / "c")
        command.ensure_finalized()
        command.run()
        return folder / "lib" / str(command.get_ext_filename(MODULE))
    except (BaseError, CCompilerError, OSError) as error:
        raise RuntimeError(f"{error}".splitlines()[0]) from error
    finally:
        os.chdir(before)


def build_beside_sources() -> Path:
    """Compile the extension, unless it is up to date, and move it beside its sources; returns its path.

    Raises:
        RuntimeError: As for `compile_into`.
    """
    if PATH.exists() and MARK.encode() in PATH.read_bytes():
        return PATH
    with tempfile.TemporaryDirectory(dir=HERE, prefix="build-") as scratch:
        # Moved, not written: a running process goes on with the old file.
        return compile_into(Path(scratch)).replace(PATH)


def add_extension(version: str, build_data: dict[str, Any], scratch: Path) -> str | None:
    """Add the extension to a wheel, or build it beside its sources for an editable installation.

    Returns:
        Why it was left out, or None.
    """
    reason = why_pure()
    try:
        if reason is None and version == "editable":
            build_beside_sources()
        elif reason is None:
            path = compile_into(scratch)
            build_data["force_include"][str(path)] = f"purgatory_async/native/{path.name}"
            build_data.update(pure_python=False, infer_tag=True)
    except (RuntimeError, OSError) as error:
        if SHARED["asked_for"]() == "compiled":
            raise
        reason = str(error)
    if reason is not None and version == "editable":
        PATH.unlink(missing_ok=True)  # of an earlier build
    return reason


def get_build_hook() -> type[Any]:
    """Return the class that hatchling runs for each wheel."""
    from hatchling.builders.hooks.plugin.interface import (  # noqa: PLC0415 - absent when run as a script
        BuildHookInterface,
    )

    class CompiledCore(BuildHookInterface[Any]):
        """Puts the extension into a wheel, or says in one line why not."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Run before the wheel is written."""
            self.scratch = tempfile.TemporaryDirectory()
            reason = add_extension(version, build_data, Path(self.scratch.name))
            if reason is not None:
                self.app.display_warning(f"purgatory-async: installed without its compiled core: {reason}")

        def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
            """Run after the wheel is written."""
            self.scratch.cleanup()

    return CompiledCore


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{why_pure() or build_beside_sources()}\n")
    except RuntimeError as failure:
        sys.exit(f"cannot build the compiled core: {failure}")
