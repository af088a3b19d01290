"""The example that asks a person, who presses the button in a browser."""

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

from tests.test_ask_a_person import scene

__all__ = ["scene"]  # the fixture

pytestmark = pytest.mark.slow


def test_a_person_with_a_browser_answers_both_replicas(scene, visit):
    def press(url):
        page = visit(url, whole=True).page
        page.get_by_role("button", name="yes").click()
        expect(page.get_by_role("heading", name="Answered")).to_be_visible()
        return True

    scene.told("77", press)
    assert scene.asked() == [("deploy-77", "completed", {"choice": "yes"}, "Ann")]
