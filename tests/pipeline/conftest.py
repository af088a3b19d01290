"""One Spark session for all tests that need one; starting it takes longer than most of them."""

from pathlib import Path

import pytest

from purgatory_async.pipeline.session import QUIET, open_session

HERE = Path(__file__).parent

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.driver.memory": "1g",
    # No test runs long enough for a better compiler or collector to be worth its start.
    "spark.driver.extraJavaOptions": " ".join(
        [QUIET["spark.driver.extraJavaOptions"], "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    ),
}


@pytest.fixture(scope="session")
def spark():
    """A session on two cores of this machine."""
    with open_session("tests", master="local[2]", settings=SETTINGS) as session:
        yield session


def pytest_collection_modifyitems(items):
    """Mark each test that uses the session or starts commands as a Spark test.

    The hook gets the items of the whole suite; here, what is slow is so because it starts Spark.
    """
    for item in items:
        slow_here = item.get_closest_marker("slow") is not None and HERE in item.path.parents
        if slow_here or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
