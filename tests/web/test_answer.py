"""What each end of a wait looks like on the wire."""

from dataclasses import asdict, dataclass

import pytest

from purgatory_async.web import _answer


@pytest.mark.parametrize(
    ("value", "body"),
    [
        pytest.param(None, b"null", id="nothing"),
        pytest.param({"status": "green"}, b'{"status":"green"}', id="an object"),
        pytest.param(("jobs", 7), b'["jobs",7]', id="a pair"),
        pytest.param("Grüße", '"Grüße"'.encode(), id="text"),
    ],
)
def test_a_value_is_a_200_in_json(value, body):
    answer = _answer.with_value(value)
    assert (answer.status, answer.media_type, answer.body) == (200, "application/json", body)


CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)
DEEP: list[object] = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param({1, 2}, r"\{1, 2\}", id="a set"),
        pytest.param(float("nan"), "nan", id="not a number"),
        pytest.param(CIRCLE, r"\[\[", id="a circle"),
        pytest.param("\ud800", "ud800", id="a lone surrogate"),
        pytest.param({(1, 2): 3}, "1, 2", id="a key"),
    ],
)
def test_a_value_beyond_json_is_a_type_error_with_a_remedy(value, shown):
    with pytest.raises(TypeError, match=f"what json.dumps takes, got .*{shown}.*pass encode="):
        _answer.with_value(value)


def test_what_is_nested_too_deep_is_a_type_error_too():
    with pytest.raises(TypeError, match="pass encode="):
        _answer.with_value(DEEP)


@dataclass
class Order:
    number: int


class Model:
    """Like one of Pydantic's."""

    def model_dump(self, mode):
        return {"mode": mode}


@pytest.mark.parametrize(
    ("value", "how"),
    [
        pytest.param(Order(7), "encode=dataclasses.asdict", id="a dataclass"),
        pytest.param(Model(), 'encode=lambda value: value.model_dump(mode="json")', id="a model"),
        pytest.param(
            [Order(7)], "encode=, a function that returns what json.dumps takes", id="a list of them"
        ),
        pytest.param(Order, "encode=, a function that returns what json.dumps takes", id="a class"),
        pytest.param(b"{}", "encode=bytes if it is JSON", id="bytes"),
    ],
)
def test_a_value_json_cannot_carry_names_its_type_and_says_how(value, how):
    with pytest.raises(TypeError) as refusal:
        _answer.with_value(value)
    assert f"of type {type(value).__name__}" in str(refusal.value)
    assert f"pass {how}, or complete with what json.dumps takes" in str(refusal.value)


@pytest.mark.parametrize(
    ("encode", "body"),
    [
        pytest.param(asdict, b'{"number":7}', id="to what JSON carries"),
        pytest.param(lambda order: b'{"n": 7}', b'{"n": 7}', id="to JSON"),
    ],
)
def test_a_value_is_encoded_as_the_application_says(encode, body):
    answer = _answer.with_value(Order(7), encode=encode)
    assert (answer.status, answer.media_type, answer.body) == (200, "application/json", body)


def test_what_encode_returns_must_be_json_or_bytes():
    with pytest.raises(TypeError, match=r"got \{1\} of type set .*encode= must return it"):
        _answer.with_value(Order(7), encode=lambda order: {1})


def test_a_huge_value_is_shown_in_part():
    with pytest.raises(TypeError) as refusal:
        _answer.with_value(["x" * 10_000, {1}])
    assert len(str(refusal.value)) < 500


ENDS = [
    pytest.param(_answer.with_value(1), 200, id="a value"),
    pytest.param(_answer.empty(), 204, id="empty"),
    pytest.param(_answer.malformed("x"), 400, id="malformed"),
    pytest.param(_answer.full(0), 503, id="full"),
    pytest.param(_answer.closing(0), 503, id="closing"),
    pytest.param(_answer.unread(), 499, id="unread"),
]


@pytest.mark.parametrize(("answer", "status"), ENDS)
def test_answers_are_not_cached_and_vary_on_prefer(answer, status):
    assert answer.status == status
    assert {("Cache-Control", "no-store"), ("Vary", "Prefer")} <= set(answer.headers)
    assert (answer.media_type is None) == (answer.body == b"")


@pytest.mark.parametrize("refused", [_answer.full, _answer.closing])
def test_who_is_sent_away_is_told_when_to_come_back(refused):
    assert dict(refused(7).headers)["Retry-After"] == "7"


@pytest.mark.parametrize(("answer", "status"), ENDS)
def test_only_a_server_that_closes_closes_the_connection(answer, status):
    assert answer.closes == (answer == _answer.closing(0))
