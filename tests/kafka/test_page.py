"""The broker's page says what the broker serves."""

import re

from purgatory_async.kafka.configs.definition import NO_EFFECT
from purgatory_async.kafka.configs.topic_configs import TOPIC_CONFIGS
from purgatory_async.kafka.requests import APIS
from purgatory_async.kafka.testing.refusals import API_KEYS
from tests.source_tree import ROOT


def table_of(head: str) -> str:
    page = (ROOT / "purgatory_async" / "kafka" / "README.md").read_text(encoding="utf-8")
    return page[page.index(head) :].partition("\n\n")[0]


def test_the_page_lists_the_configs_that_have_an_effect():
    effects = {name for name, config in TOPIC_CONFIGS.items() if config.effect != NO_EFFECT}
    first_cells = [line.split("|")[1] for line in table_of("| config | effect").splitlines()[2:]]
    assert {*re.findall(r"`([a-z.]+)`", "".join(first_cells))} == effects


def test_the_page_lists_the_versions_that_are_served():
    table = table_of("| api | versions")
    cells = [cell.strip() for line in table.splitlines() for cell in line.strip("|").split("|")]
    listed = {
        name: tuple(map(int, re.findall(r"\d+", versions)[:2]))
        for names, versions in zip(cells[::2], cells[1::2], strict=True)
        for name in names.split(", ")
        if re.match(r"\d", versions)
    }
    served = {name: APIS[key] for name, key in API_KEYS.items()}
    assert listed == {
        name: (api.least if api.served_from is None else api.served_from, api.most)
        for name, api in served.items()
    }
