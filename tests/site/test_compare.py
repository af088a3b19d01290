"""The page of comparisons: a section for each product, and what it says that it shows."""

import asyncio
import http.client
import re
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from tests.cluster.servers import PROGRAMS, Postgres, Server, need_postgres
from tests.source_tree import ROOT
from tests.test_readme import links

FOLDER = ROOT / ".github" / "site"
PAGE = (FOLDER / "compare.md").read_text(encoding="utf-8")
PRODUCTS = {
    "asyncio by hand": ("asyncio by hand",),
    "Redis BLPOP and pub/sub": ("Redis `BLPOP`", "Redis pub/sub"),
    "LISTEN and NOTIFY": ("`LISTEN`/`NOTIFY`",),
    "Celery eta": ("Celery eta",),
    "SQS": ("SQS",),
    "nchan": ("nchan",),
    "Temporal": ("Temporal",),
    "DBOS": ("DBOS",),
    "Restate": ("Restate",),
    "Trigger.dev tokens": ("Trigger.dev tokens",),
    "LangGraph interrupts": ("LangGraph interrupts",),
    "testcontainers (Kafka)": (),
}
# What a test here, or of the migrations, runs and shows, by the row of the table that says so.
SHOWN = {
    "asyncio by hand": "test_a_program_in_one_process_moves",
    "Redis `BLPOP`": "test_a_program_on_redis_moves",
    "Redis pub/sub": "test_a_program_on_redis_moves",
    "`LISTEN`/`NOTIFY`": "test_listen_hears_nothing_of_what_came_before",
    "Celery eta": "test_a_program_on_celery_moves",
    "nchan": "test_nchan_keeps_messages_until_nginx_restarts",
    "`Purgatory`": "test_a_program_in_one_process_moves",
}
NCHAN = Path("/usr/lib/nginx/modules/ngx_nchan_module.so")
CONFIGURATION = """
load_module {module}; pid nginx.pid; error_log stderr; worker_processes 1;
events {{}}
http {{
  access_log off; client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e;
  server {{
    listen 127.0.0.1:{port};
    location = /publish {{ nchan_publisher; nchan_channel_id it; }}
    location / {{ return 204; }}
    location = /poll {{ nchan_subscriber longpoll; nchan_channel_id it; }}
  }}
}}
"""


def section(title):
    """What is under a heading."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("product", PRODUCTS)
def test_each_product_has_its_section_with_a_source(product):
    text = section(product)
    assert text.lstrip().startswith("For: ")
    assert "\nHere: " in text
    assert re.search(r"\bTake\b|\bUse both\b", text)
    assert [link for link in links(text) if "://" in link]
    table = section("Side by side")
    assert [row for row in PRODUCTS[product] if f"\n| {row} |" not in table] == []


def test_what_the_table_shows_has_a_test():
    rows = re.findall(r"^\| ([^|]+) \|.*\*shown\*", section("Side by side"), flags=re.MULTILINE)
    assert rows == list(SHOWN)
    tests = "".join(
        (ROOT / "tests" / "site" / f"test_{name}.py").read_text("utf-8") for name in ("compare", "migrations")
    )
    assert [test for test in SHOWN.values() if f"\ndef {test}(" not in tests] == []


def test_when_not_to_use_this_comes_first():
    titles = re.findall(r"^## (.*)$", PAGE, flags=re.MULTILINE)
    assert titles[:3] == ["When not to use this", "By need", "Side by side"]
    assert set(PRODUCTS) <= set(titles)
    assert section("When not to use this").count("\n- **") >= 6


def test_each_page_from_elsewhere_is_linked():
    pages = {f"from/{path.name}" for path in (FOLDER / "from").glob("*.md")}
    assert pages <= set(links(section("Ways from elsewhere")))


def test_the_links_of_the_comparison_lead_somewhere():
    slugs = {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        for title in re.findall("^## (.*)$", PAGE, re.MULTILINE)
    }
    broken = []
    for link in links(PAGE):
        path, _, anchor = link.partition("#")
        if "://" not in link and not ((FOLDER / path).exists() if path else anchor in slugs):
            broken.append(link)
    assert broken == []


@pytest.mark.slow
def test_listen_hears_nothing_of_what_came_before():
    need_postgres()
    import asyncpg  # noqa: PLC0415 - only where it is installed

    async def heard(url):
        here, there = await asyncpg.connect(url), await asyncpg.connect(url)
        came = asyncio.Queue()
        await there.execute("NOTIFY paid, 'before'")
        await here.add_listener("paid", lambda *notification: came.put_nowait(notification[-1]))
        await there.execute("NOTIFY paid, 'after'")
        first = await came.get()
        await here.close()
        await there.close()
        return first

    with closing(Postgres()) as postgres:
        postgres.start()
        assert asyncio.run(heard(postgres.url)) == "after"


class Nginx(Server):
    """nginx with nchan, one channel."""

    def command(self):
        (self.folder / "nginx.conf").write_text(CONFIGURATION.format(module=NCHAN, port=self.port), "utf-8")
        return [shutil.which("nginx", path=PROGRAMS), "-p", ".", "-c", "nginx.conf", "-g", "daemon off;"]

    def answers(self):
        try:
            return self.ask("GET", "/").status == 204
        except OSError:
            return False

    def ask(self, method, path, body=None):
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, path, body)
            answer = connection.getresponse()
            answer.text = answer.read().decode()
            return answer


@pytest.mark.slow
def test_nchan_keeps_messages_until_nginx_restarts():
    if not NCHAN.exists():
        pytest.skip("nchan is not installed; on Debian: apt-get install libnginx-mod-nchan")
    with closing(Nginx()) as nginx:
        nginx.start()
        for message in ("first", "second"):
            assert nginx.ask("POST", "/publish", message).status in {201, 202}
        assert nginx.ask("GET", "/poll").text == "first"
        nginx.stop()
        nginx.start()
        nginx.ask("POST", "/publish", "third")
        assert nginx.ask("GET", "/poll").text == "third"
