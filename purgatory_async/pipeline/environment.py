"""What a Spark that this process starts takes from the environment: nothing that was set for another program.

Java takes the encoding of file names from the locale, and options from three variables, which it reports. Spark's
scripts take what another installation of Spark or Hadoop has set, and its Python half lets a variable choose between
a master and a server. On this machine none of it counts, but for where temporary files go. On a cluster the variables
of Spark and Hadoop describe the cluster, so they stay.
"""

import os
import pwd
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyspark

from purgatory_async.pipeline import Refused

_JAVA: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_MODES: Final = (
    "MASTER",
    "SPARK_API_MODE",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_LOCAL_REMOTE",
    "SPARK_REMOTE",
)
_CLUSTER: Final = re.compile(r"(SPARK|PYSPARK|HADOOP|YARN)_(?!LOCAL_DIRS$).+")
# Python and Java must name files alike. Only then is Python's encoding not a question of the locale.
_LOCALE: Final = {"LC_ALL": "C.UTF-8"} if sys.getfilesystemencoding() == "utf-8" else {}

EXECUTOR_LOCALE: Final = {f"spark.executorEnv.{name}": value for name, value in _LOCALE.items()}
"""Settings that give the executors of a cluster this process's encoding of file names."""


def check_user() -> None:
    """Check that this process's user has a name, without which Java knows neither user nor home, and Spark stops.

    Raises:
        Refused: It has none, as with ``docker run --user``.
    """
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        raise Refused(
            f"Java needs the name of user {os.getuid()}, got none; add one to /etc/passwd, or run as another user"
        ) from None


def without_modes(environment: Mapping[str, str]) -> dict[str, str | None]:
    """The changes by which only options choose between a master and a Connect server; None removes a variable."""
    return dict.fromkeys(environment.keys() & _MODES)


def without_java_options(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without the options that every Java takes from it."""
    return {name: value for name, value in environment.items() if name not in _JAVA}


def environment_of_spark(environment: Mapping[str, str], *, here: bool) -> dict[str, str | None]:
    """The changes of the environment for the start of Spark; None removes a variable.

    Args:
        environment: This process's variables.
        here: Whether Spark runs on this machine only; otherwise the variables for a cluster stay.
    """
    changes: dict[str, str | None] = dict.fromkeys(environment.keys() & _JAVA)
    if here:
        changes |= dict.fromkeys(filter(_CLUSTER.fullmatch, environment))
    python = None if here else environment.get("PYSPARK_PYTHON")
    changes |= _LOCALE | {"PYSPARK_PYTHON": python or sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    home = None if here else environment.get("SPARK_HOME")
    if home is None or not _is_of_this_version(Path(home)):
        changes["SPARK_HOME"] = _own_home() or environment.get("SPARK_HOME")
    return changes


def _own_home() -> str | None:
    """The Spark that came with the imported PySpark: from pip, or as a whole distribution."""
    package = Path(pyspark.__file__).parent
    places = (package / "spark-distribution", package, package.parents[1])
    return next((str(place) for place in places if _is_of_this_version(place)), None)


def _is_of_this_version(home: Path) -> bool:
    number = re.match(r"[\d.]*\d", pyspark.__version__)
    assert number is not None, pyspark.__version__
    return any((home / "jars").glob(f"spark-core_*-{number[0]}*.jar"))
