"""Draw the dashboard's picture in the service's README from a running demo.

``python -m tests.ui.screenshot purgatory_async/service/dashboard.png`` takes two minutes, and needs Chromium and
the extras ``dev`` and ``spark`` (for Pillow).
"""

import io
import shutil
import subprocess
import sys
from contextlib import closing

from PIL import Image
from playwright.sync_api import sync_playwright

from purgatory_async.client import Client

GRAPH_S = 75  # fills the graphs, which show the last minute
CLIENTS_PER_SECOND = 120
SIZE = {"width": 1180, "height": 1240}
COLOURS = 256  # a third of the bytes, and no difference to see

# A few operations that wait longer than the demo's.
DEPLOYS = ("eu-north", "eu-west", "us-east", "us-west", "asia")


def submit_long_waits(address):
    with closing(Client(address)) as client:
        question = {"title": "Deploy 78 to eu-west?", "choices": ["yes", "no"], "comment": "optional"}
        client.attach(
            "deploy-78", ask={**question, "text": "The build passed; it has a migration."}, timeout="24h"
        )
        client.submit(
            ["tests:77", "image:77", "review:77"], need="all", timeout=600, operation_id="release-77"
        )
        client.submit(["commit:9"], need={"voters": 3}, timeout=120, operation_id="leader-election")
        client.submit(
            ["orders-0", "orders-1"], need={"amount": 65_536}, timeout=180, operation_id="fetch-orders"
        )
        for region in DEPLOYS:
            client.submit(["release:77", f"region:{region}"], timeout=900, operation_id=f"deploy-{region}")
        for worker in range(3):
            client.submit(["config:changed", "release:77"], operation_id=f"worker-{worker}")


def take(address):
    """Open the dashboard; returns its picture as a PNG once its graphs are full."""
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(f"{address}/ui/")
        page.wait_for_timeout(GRAPH_S * 1000)
        png = page.screenshot()
        browser.close()
    return png


def main(path):
    rate = str(CLIENTS_PER_SECOND)
    demo = subprocess.Popen(
        [sys.executable, "-m", "purgatory_async", "demo", "--rate", rate], stdout=subprocess.PIPE, text=True
    )
    try:
        address = demo.stdout.readline().split()[-1]
        submit_long_waits(address)
        png = take(address)
    finally:
        demo.terminate()
        demo.communicate()
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1])
