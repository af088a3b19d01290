"""Both wheels take any integer from 2 on as their size, and nothing else."""

import pytest

from purgatory_async.timing import HashedWheel, TimingWheel

Wheel = type[HashedWheel] | type[TimingWheel]

both_wheels = pytest.mark.parametrize("wheel", [TimingWheel, HashedWheel], ids=["TimingWheel", "HashedWheel"])


@both_wheels
@pytest.mark.parametrize("size", [1, 0, -1, -(10**20)])
def test_a_wheel_of_fewer_than_two_buckets_cannot_turn(wheel: Wheel, size: int) -> None:
    with pytest.raises(ValueError, match=f"wheel_size must be at least 2 buckets, got {size}"):
        wheel(size)


@both_wheels
@pytest.mark.parametrize(
    ("size", "kind"),
    [
        pytest.param(20.0, "float", id="a float"),
        pytest.param("256", "str", id="a string"),
        pytest.param(None, "NoneType", id="none"),
        pytest.param(True, "bool", id="a bool"),
    ],
)
def test_a_size_that_is_no_integer_is_refused_by_its_type(wheel: Wheel, size: object, kind: str) -> None:
    with pytest.raises(TypeError, match=f"wheel_size must be an integer, got {kind}"):
        wheel(size)


@both_wheels
def test_the_arguments_may_be_named(wheel: Wheel) -> None:
    assert wheel(wheel_size=2, start_tick=41).now_tick == 41
