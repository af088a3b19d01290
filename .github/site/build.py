"""Build the site: stage the pages, run Sphinx with warnings as errors, add what machines read, check every link.

    PYTHON .github/site/build.py OUTPUT --packages SITE-PACKAGES

PYTHON has Sphinx, MyST and Furo; SITE-PACKAGES is where the package's own dependencies are installed.
"""

import argparse
import os
import shutil
import site
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]


def main() -> int:
    """Build into the folder that the command line names; return 0, or 1 if there are warnings or broken links."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--packages", help="where the package's dependencies are, if not where Sphinx is")
    arguments = parser.parse_args()
    begin = time.monotonic()
    os.environ["PURGATORY_ASYNC_PURE"] = "1"  # the reference core has docstrings and signatures
    sys.path[:0] = [str(ROOT), str(HERE)]
    if arguments.packages:
        site.addsitedir(arguments.packages)
    from checks import faults  # noqa: PLC0415 - found by the path above
    from mend import mend  # noqa: PLC0415
    from sphinx.cmd.build import build_main  # noqa: PLC0415
    from stage import stage  # noqa: PLC0415

    output: Path = arguments.output
    shutil.rmtree(output, ignore_errors=True)
    with tempfile.TemporaryDirectory() as directory:
        staged, machines = Path(directory, "stage"), Path(directory, "machines")
        broken = stage(staged, machines)
        flags = ["-q", "-W", "--keep-going", "-b", "html", "-c", str(HERE), "-d", f"{directory}/doctrees"]
        status = build_main([*flags, str(staged), str(output)])
        mend(output, os.environ.get("SITE_URL", "/"))
        shutil.copytree(machines, output, dirs_exist_ok=True)
    broken += faults(output)
    sys.stderr.writelines(f"{fault}\n" for fault in broken)
    files = [path for path in output.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1e6
    pages = sum(path.suffix == ".html" for path in files)
    sys.stdout.write(
        f"{pages} pages, {size:.1f} MB, {len(broken)} faults, {time.monotonic() - begin:.0f} s\n"
    )
    return 1 if status or broken else 0


if __name__ == "__main__":
    sys.exit(main())
