"""The page in a real browser, with a simulated fabric of 20 switches behind it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from ebb_dashboard.replicas import Replica, StoredObject, objects_message
from ebb_dashboard.serving import Serving
from ebb_dashboard.simulated import Simulated
from ebb_experiments.scenario.loaded import all_at_once
from support import WRITE, needs_simulator, running, simulated

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
RED = {"light": "rgb(209, 26, 42)", "dark": "rgb(255, 90, 104)"}
"""`--down` of page.css."""
EVERYBODY = {"traffic": [all_at_once("all", {"type": "permutation"}, 500_000)]}
playwright = pytest.importorskip(
    "playwright.sync_api", reason="needs playwright: run `tools/setup dev`"
)
pytestmark = [
    needs_simulator,
    pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: `apt-get install chromium`"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as tool:
        # Its sandbox needs a user that is not root; it shows only what this test serves.
        opened = tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Serving, Simulated]]:
    """Everybody sends; the clock stands until a test lets it go."""
    with Serving(port=0) as served:
        directory = tmp_path_factory.mktemp("simulated")
        watched = simulated(served.feed, directory, samples_hz=0, workload=EVERYBODY)
        served.handler = watched
        with running(watched):
            yield served, watched


@pytest.fixture
def page(browser: Any, serving: tuple[Serving, Simulated]) -> Iterator[Any]:
    """The page at desktop size, light. Fails with anything that the browser complains of."""
    complaints: list[str] = []
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, color_scheme="light")
    opened = context.new_page()
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.goto(serving[0].address)
    opened.wait_for_selector("[data-switch]")
    yield opened
    context.close()
    assert complaints == []


@contextmanager
def going(page: Any, samples_hz: int = 10) -> Iterator[None]:
    """Lets the clock run while the block lasts."""
    page.select_option("[aria-label='samples per second']", str(samples_hz))
    page.get_by_role("button", name="Go").click()
    yield
    page.get_by_role("button", name="Halt").click()


def until(page: Any, condition: str) -> None:
    """Waits for a JavaScript expression. Not `wait_for_function`, which the page's policy
    forbids."""
    deadline = time.monotonic() + 20
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        time.sleep(0.05)


def test_the_fabric_is_there_and_moves(page: Any) -> None:
    assert page.locator("[data-switch]").count() == 20
    assert page.locator("[data-host]").count() == 16
    assert page.locator("[data-link]").count() == 48
    with going(page):
        until(page, "Number(document.body.dataset.samples) > 5")
        # Somebody sends, and somewhere packets wait.
        until(
            page,
            "[...document.querySelectorAll('.half')]"
            ".some(half => half.style.getPropertyValue('--share') > 0.5)",
        )
        until(
            page,
            "[...document.querySelectorAll('.queue')].some(queue => queue.dataset.bytes > 1000)",
        )


def test_a_link_that_is_taken_down_turns_red(page: Any) -> None:
    page.locator('[data-link="4"]').dispatch_event("click")
    page.get_by_role("button", name="Take down").click()
    page.wait_for_selector('[data-link="4"].down')
    stroke = "document.querySelector('[data-link=\"4\"] .base')"
    assert page.evaluate(f"getComputedStyle({stroke}).stroke") == RED["light"]
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(f"getComputedStyle({stroke}).stroke") == RED["dark"]
    assert page.locator("#link-state").text_content() == "down"
    page.get_by_role("button", name="Bring up").click()
    page.wait_for_selector('[data-link="4"]:not(.down)')


def test_the_plot_of_a_queue_grows_and_frames_are_captured(page: Any) -> None:
    page.locator('[data-link="0"]').dispatch_event("click")
    points = "Number(document.querySelector('#panel .plot').dataset.points)"
    before = page.evaluate(points)
    page.get_by_role("button", name="Capture at p0e0:1").click()
    page.wait_for_selector("#panel .files >> text=_out.pcap")
    with going(page):
        until(page, f"{points} >= {before} + 5")
    page.get_by_role("button", name="End capture at p0e0:1").click()
    page.wait_for_selector("#panel table >> text=10.0.0.2 >")
    assert page.locator("#panel .plot canvas").count() == 1
    page.wait_for_selector("#panel table >> text=p0e0:1 to h1")


def test_a_switch_tells_its_tables_and_a_packet_its_trace(page: Any) -> None:
    page.locator('[data-switch="p0e0"]').dispatch_event("click")
    page.wait_for_selector("#panel summary >> text=ipv4_route")
    page.get_by_role("button", name="Trace 5 packets").click()
    with going(page):
        page.wait_for_selector("#panel .packet")
    page.locator("#panel .packet summary").first.click()
    assert "ipv4_route" in page.locator("#panel .packet pre").first.text_content()


def test_completion_times_come_with_the_end(page: Any, serving: tuple[Serving, Simulated]) -> None:
    with going(page, samples_hz=100):
        page.wait_for_selector("[data-scheme=ndp] >> text=FCT p50", timeout=60_000)
    assert page.locator("#phase").text_content().endswith("ended")


def test_without_the_token_it_only_shows(browser: Any, serving: tuple[Serving, Simulated]) -> None:
    with browser.new_context() as context:
        opened = context.new_page()
        opened.goto(serving[0].address.partition("#")[0])
        opened.wait_for_selector("[data-switch]")
        opened.locator('[data-link="4"]').dispatch_event("click")
        opened.wait_for_selector("#panel h2")
        assert opened.locator("button").count() == 0


def test_it_fits_a_phone(browser: Any, serving: tuple[Serving, Simulated]) -> None:
    with browser.new_context(viewport={"width": 390, "height": 844}) as context:
        opened = context.new_page()
        opened.goto(serving[0].address)
        opened.wait_for_selector("[data-switch]")
        opened.locator('[data-link="0"]').dispatch_event("click")
        opened.wait_for_selector("#panel table")
        assert opened.evaluate("document.documentElement.scrollWidth") <= 390


def test_tenants_fit_a_narrow_phone(browser: Any, serving: tuple[Serving, Simulated]) -> None:
    """Names as long as scenarios may have them; and the numbers say what they are, as no finger
    hovers over them."""
    names = ["search", "a-tenant-whose-name-is-31-bytes"]
    tenants = [
        {"tenant": name, "source": f"{name}-4096", "destination": f"{name}-4095", "conforms": True}
        | {"longest_ns": 7_010_000, "bound_ns": 596_000}
        for name in names
    ]
    result = {"scheme": "ndp", "flows": 1, "fct_ns": [5], "percentiles_ns": [5, 5, 5]}
    counts = {"drop": 0, "trim": 0, "mark": 0, "utilisation": [], "queue": [], "dropped": []}
    with browser.new_context(viewport={"width": 360, "height": 740}) as context:
        page = context.new_page()
        page.goto(serving[0].address)
        page.wait_for_selector("[data-switch]")
        serving[0].feed.publish("result", result | counts | {"phase": "all", "tenants": tenants})
        page.wait_for_selector(".numbers .late")
        assert page.locator(".numbers .late").all_inner_texts() == [
            f"slowest packet of {name}\n7.01 ms, bound 596 us" for name in names
        ]
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert not page.locator(".card").evaluate("card => card.scrollWidth > card.clientWidth")


def test_text_of_a_switch_is_shown_and_not_obeyed(page: Any, serving: tuple[Serving, Any]) -> None:
    hostile = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    serving[0].feed.publish("line", {"text": hostile})
    page.wait_for_selector("#lines >> text=onerror")
    assert page.locator("#lines li").first.text_content() == hostile
    assert page.locator("#lines img, #lines script").count() == 0


def test_groups_and_their_replicas_are_drawn(
    browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Serving(port=0) as served:
        directory = tmp_path_factory.mktemp("groups")
        watched = simulated(served.feed, directory, 0, workload=WRITE, schemes=["trevi"])
        served.handler = watched
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        with running(watched):
            page.goto(served.address)
            page.wait_for_selector(".host.member")
            members = page.locator(".host.member").evaluate_all(
                "all => all.map(host => host.dataset.host)"
            )
            assert members == ["h5", "h9", "h13"]
            # A core, and three links to each of the three pods.
            assert page.locator(".wire.tree").count() == 9
            choice = page.locator("[aria-label='multicast group']")
            assert choice.locator("option").all_text_contents()[1].endswith(": h5 h9 h13")
            page.select_option("[aria-label='samples per second']", "100")
            page.get_by_role("button", name="Go").click()
            page.wait_for_selector("#replicas .replica.whole", timeout=60_000)
            replicas = page.locator("#replicas td .replica").all_text_contents()
            assert [text.partition("complete")[0] for text in replicas] == ["h13", "h5", "h9"]
            silent = {"host": "h9", "state": "lost", "note": "20 rows"}
            store = objects_message(
                [StoredObject("a", 9, (Replica("h9", "lost"),))], servers=[silent]
            )
            served.feed.publish("objects", store)
            page.wait_for_selector("[data-host=h9].host.gone")
            assert page.locator("#replicas .servers").last.text_content() == "h9silent, 20 rows"
            if picture := os.environ.get("EBB_PICTURE"):
                page.screenshot(path=picture)
        page.close()
