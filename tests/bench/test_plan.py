"""The planner's report and its page as a reader has them: on a phone and on a desk, light and dark, by keyboard, without scripts."""

import json
import os
import re
import resource
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from peers.broker import Forebay
from peers.process import free_port, wait_until

ROOT = Path(__file__).resolve().parents[2]
WINDOWS = {"phone": (390, 844), "tablet": (820, 1100), "desktop": (1280, 900)}
MEASURE = (Path(__file__).parent / "measure.js").read_text()
TODAY = ["--today", "2026-11"]
SCENARIOS = {"car-ingest": 0, "burst": 0, "steady": 0, "linkedin": 0, "keyed": 0, "infeasible": 1}


def binary():
    named = os.environ.get("TEST_BROKER")
    built = [ROOT / "target" / kind / "forebay" for kind in ("release", "debug")]
    return Path(named) if named else next((path for path in built if path.exists()), built[0])


class Address:
    """What a browser opens, where it is no file."""

    def __init__(self, uri):
        self.uri = uri

    def resolve(self):
        return self

    def as_uri(self):
        return self.uri


@pytest.fixture(scope="session")
def plans(tmp_path_factory):
    """A directory with a directory per scenario, with all files of its plan."""
    directory = tmp_path_factory.mktemp("plans")
    for name, code in SCENARIOS.items():
        change = ["--set", "goals.threshold=0.5", "--set", "given.brokers=1"] if name == "infeasible" else []
        scenario = "burst" if name == "infeasible" else name
        command = [binary(), "plan", scenario, "--out", directory / name, *TODAY, *change]
        assert subprocess.run(command, stdout=subprocess.DEVNULL).returncode == code, name
    return directory


@pytest.fixture(scope="session")
def served():
    process = subprocess.Popen([binary(), "plan", "--page", "127.0.0.1:0", *TODAY], stdout=subprocess.PIPE, text=True)
    yield process.stdout.readline().strip()
    process.terminate()
    process.wait()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_report_layout(plans, browser, scenario, window, dark):
    with browser.open(plans / scenario / "report.html", *WINDOWS[window], dark=dark) as page:
        assert page.run(MEASURE) == []
        assert page.complaints() == []


def test_report_reads_without_scripts(plans, browser):
    with browser.open(plans / "burst" / "report.html", *WINDOWS["phone"], scripts=False) as page:
        shown = page.ask("DOM.getOuterHTML", nodeId=page.ask("DOM.getDocument")["root"]["nodeId"])["outerHTML"]
        assert '<div id="sliders" hidden' in shown, "the script did not run"
        assert "<table" in shown and "On plain Kafka" in shown and "binds" in shown


def test_sliders_look_up_what_is_in_the_table(plans, browser):
    with browser.open(plans / "burst" / "report.html", *WINDOWS["desktop"]) as page:
        first = page.run("document.getElementById('grid-answer').textContent")
        page.run("document.getElementById('grid-peak').focus()")
        for _ in range(7):
            page.ask("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39)
            page.ask("Input.dispatchKeyEvent", type="keyUp", key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39)
        last = page.run("document.getElementById('grid-answer').textContent")
        cell = page.run("document.querySelector('#grid-table tbody tr:last-child').querySelectorAll('td')[4].dataset.answer")
        assert first != last == cell


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("window", WINDOWS)
def test_page_layout(served, browser, window, dark):
    for query in ("", "?scenario=burst", "?scenario=burst&goals.threshold=0.5&given.brokers=1", "?scenario=burst&cost.old_prices=false"):
        with browser.open(Address(served + query), *WINDOWS[window], dark=dark) as page:
            assert page.run(MEASURE) == [], query


def answered(page):
    """Waits until an answer is there, and says it."""
    return page.run("""new Promise((done) => {
        const look = () => {
            const result = document.getElementById('result');
            const ready = result.children.length && !result.hasAttribute('aria-busy');
            ready ? done(result.textContent) : setTimeout(look, 20);
        };
        look();
    })""")


def press(page, key, code, number, text=None):
    page.ask("Input.dispatchKeyEvent", type="keyDown", key=key, code=code, windowsVirtualKeyCode=number, **({"text": text} if text else {}))
    page.ask("Input.dispatchKeyEvent", type="keyUp", key=key, code=code, windowsVirtualKeyCode=number)


def test_page_by_keyboard_alone(served, browser):
    with browser.open(Address(served), *WINDOWS["desktop"]) as page:
        press(page, "Tab", "Tab", 9)
        assert page.run("document.activeElement.name") == "scenario"
        page.run("document.activeElement.value = 'burst'")
        press(page, "Tab", "Tab", 9)
        assert page.run("document.activeElement.name") == "load.peak"
        page.ask("Input.insertText", text="4 GB/s")
        press(page, "Enter", "Enter", 13, "\r")
        said = answered(page)
        assert "4 GB/s at the peak" in said or "brokers" in said
        assert "binds" in said
        assert page.run("document.activeElement.id") == "result", "who listens is taken to the answer"
        assert "load.peak=4" in page.run("location.search")


def test_page_names_the_field_that_is_wrong(served, browser):
    with browser.open(Address(served), *WINDOWS["desktop"]) as page:
        names = page.run("[...document.querySelectorAll('#plan input')].map((field) => field.name)")
        for name in names:
            page.run(f"""(() => {{
                for (const field of document.querySelectorAll('#plan input')) field.value = '';
                document.querySelector('select').value = 'burst';
                document.querySelector('[name="{name}"]').value = '-1e40 bananas';
                document.getElementById('result').replaceChildren();
                document.getElementById('plan').requestSubmit();
            }})()""")
            said = answered(page)
            assert "Not answered." in said, f"{name}: {said}"
            marked = page.run("[...document.querySelectorAll('[aria-invalid]')].map((field) => field.name)")
            if not name.startswith(("given.server", "hardware.object", "given.brokers")):
                assert marked == [name], f"{name}: {said}"


def test_page_says_why_nothing_carries_a_load(served, browser):
    with browser.open(Address(served + "?scenario=burst&goals.threshold=0.5&given.brokers=1"), *WINDOWS["phone"]) as page:
        said = answered(page)
        assert "Nothing in the catalogue carries this load" in said
        assert re.search(r"60 s where 44\.7 s is allowed", said), said


def test_page_without_scripts(served, browser):
    address = Address(served + "?scenario=burst&load.base=200+MB%2Fs")
    with browser.open(address, *WINDOWS["phone"], scripts=False) as page:
        shown = page.ask("DOM.getOuterHTML", nodeId=page.ask("DOM.getDocument")["root"]["nodeId"])["outerHTML"]
        assert 'id="answer"' in shown and 'value="200 MB/s"' in shown


def test_emitted_settings_are_sound(plans, tmp_path):
    for name, code in SCENARIOS.items():
        if code:
            continue
        directory = plans / name
        checked = subprocess.run([binary(), "config", "check", directory / "server.properties"], capture_output=True, text=True)
        assert checked.returncode == 0, f"{name}: {checked.stderr}"
        dry = [binary(), "bench", "run", directory / "verify.toml", "--dry-run", "--out", tmp_path / name, "--dir", tmp_path]
        ran = subprocess.run(dry, capture_output=True, text=True)
        # A machine with less disk than was planned refuses for that reason alone.
        is_small = all("are needed, " in line for line in ran.stderr.splitlines() if line.startswith("  "))
        assert ran.returncode == 0 or "does not fit this machine" in ran.stderr and is_small, f"{name}: {ran.stderr}"


def test_emitted_topics_are_made_on_a_broker(plans, tmp_path):
    """Each script runs twice, as an operator may: what it says is what the broker has."""
    scripts = sorted(plans.glob("**/topics.sh"))
    assert len(scripts) >= len([code for code in SCENARIOS.values() if not code])
    tiers = {"storage.tiers": "fast,bulk"}
    for tier in ("fast", "bulk"):
        (tmp_path / tier).mkdir()
        tiers |= {f"storage.tier.{tier}.paths": tmp_path / tier, f"storage.tier.{tier}.capacity": 4_000_000_000}

    def run(*command, **environment):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env={**os.environ, **environment})
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    for script in scripts:
        where = script.parent.relative_to(plans)
        # A broker has one segment of each active partition, which tiers this small have no room for.
        home = tmp_path / str(where).replace("/", "-")
        with Forebay(home, {**tiers, "log.preallocate": "false"} if "tier." in script.read_text() else {}) as broker:
            for _ in range(2):
                run("sh", script, broker.address, FOREBAY=str(binary()), REPLICAS="1")
            for line in script.read_text().splitlines():
                if "topic create" not in line:
                    continue
                words = line.split()
                name, partitions = words[words.index("create") + 1], int(words[words.index("-p") + 1])
                settings = [words[at + 1] for at, word in enumerate(words) if word == "-s"]
                said = json.loads(run(binary(), "topic", "describe", name, "-b", broker.address, "--all-settings", "--format", "json"))
                text = json.dumps(said)
                assert text.count('"leader"') >= partitions, f"{where}: {name}"
                for setting in settings:
                    key, value = setting.split("=", 1)
                    assert f'"{key}"' in text and value in text, f"{where}: {name}: {setting}"


def test_published_figures_are_printed_with_what_contradicts_itself():
    said = subprocess.run([binary(), "plan", "--published"], check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^([A-Z]\d)  (\S*)", said, re.MULTILINE)
    assert len(rows) == 21
    assert [name for name, mark in rows if mark == "!"] == ["C1", "C3", "C4", "B2", "B6", "P1", "K2", "K3", "K4"]
    # Of the index in persistent memory no smaller loss was published than this.
    assert "PMem index -2.0, -3.3, -2.0 % on 28 cores, -4.8 % half and half on 24" in said


def planned(name, *options):
    """Every variant of a scenario's plan."""
    command = [binary(), "plan", name, "--format", "json", *options, *TODAY]
    answers = json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True).stdout)
    return answers if isinstance(answers, list) else [answers]


def test_the_car_fleet_is_planned_for_both_rates_that_were_published():
    answers = planned("car-ingest")
    assert [answer["variant"] for answer in answers] == [None, "800 GB/s"]
    chosen = [answer["chosen"] for answer in answers]
    for answer in answers:
        assert any("384 GB/s, not 800 GB/s" in note for note in answer["notes"])
        assert answer["chosen"]["binding"] and answer["chosen"]["bulk"]["count"]
        assert [beside["software"] for beside in answer["kafka"]] == ["kafka", "kafka-synced"]
        assert all(beside["chosen"]["brokers"] for beside in answer["kafka"])
    assert 1.8 < chosen[1]["brokers"] / chosen[0]["brokers"] < 2.3, "800 / 384"


def test_what_the_documentation_says_beside_other_planners_is_what_is_answered():
    documentation = (ROOT / "docs" / "plan.md").read_text()
    small = ["load.keyed.keys=1e10", "load.keyed.lookups=500 K/s", "load.keyed.hit_locality=0", "load.replication=3", "load.retention=10 TB"]
    for name, changes, says in (
        ("linkedin", [], "L: 7 brokers, room binds"),
        ("linkedin", ["load.replication=3"], "L, three copies: 10 brokers, $315,240 over three years"),
        ("keyed", small, "S: 4 x 2u-32c-mixed with 3 x 30 TB, endurance binds"),
    ):
        assert says in documentation
        options = [word for change in changes for word in ("--set", change)]
        text = subprocess.run([binary(), "plan", name, *options, *TODAY], check=True, capture_output=True, text=True).stdout
        for part in re.findall(r"[0-9]+ brokers|\$[0-9,]+|\b(?:room|endurance) binds", says):
            known = part.replace(" binds", "") if part.endswith(" binds") else part
            assert known in text, f"{name} {changes}: {part}"
        if says.startswith("S:"):
            (answer,) = planned(name, *options)
            assert answer["chosen"]["brokers"] == 4 and "2u-32c-mixed" in answer["chosen"]["mix"]


def test_a_simulation_is_drawn_beside_the_plan():
    said = subprocess.run([binary(), "plan", "burst", "--simulate", *TODAY], check=True, capture_output=True, text=True).stdout
    drawn = re.findall(r"\|([ ps*]{51})\| +([0-9]+) % +([0-9]+) %", said)
    assert len(drawn) == 17
    assert all(abs(int(planned) - int(simulated)) < 10 for _, planned, simulated in drawn), said


def test_what_was_not_measured_near_is_called_extrapolated_in_every_answer(tmp_path):
    command = [binary(), "plan", "linkedin", "--set", "load.size=20 B", "--set", "load.batch=200 B", "--out", tmp_path, *TODAY]
    said = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
    for answer in (said, (tmp_path / "plan.json").read_text(), (tmp_path / "report.html").read_text()):
        assert "extrapolated" in answer
    assert "extrapolated" not in subprocess.run([binary(), "plan", "steady", *TODAY], check=True, capture_output=True, text=True).stdout


def test_a_broker_plans_for_its_own_load_if_it_is_allowed_to(tmp_path):
    for allowed in (True, False):
        port = free_port()
        settings = {"admin.listener": f"127.0.0.1:{port}", **({"admin.plan": "true"} if allowed else {})}
        with Forebay(tmp_path / str(allowed), settings):
            if not allowed:
                with pytest.raises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/plan", timeout=30)
                assert refused.value.code == 404
                continue
            page = urllib.request.urlopen(f"http://127.0.0.1:{port}/plan?scenario=measured", timeout=30).read().decode()
            assert 'id="answer"' in page and "measured" in page
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/plan/solve", b'{"scenario":"burst"}', {"Content-Type": "application/json"})
            assert urllib.request.urlopen(request, timeout=30).status == 200


# Runs a command five times. In a small process of its own: the system counts what the process that starts another has in memory as
# the other's, until it is replaced.
SPENT = """
import json, os, subprocess, sys
seconds, memory = [], []
for _ in range(5):
    process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    seconds.append(usage.ru_utime + usage.ru_stime)
    memory.append(usage.ru_maxrss * 1024)
print(json.dumps([min(seconds), max(memory)]))
"""


def spent(*command):
    """Seconds of a processor that a command takes, and its largest memory in bytes.

    Of five runs the shortest: the first reads the binary, and whatever else a machine does takes the processor's caches.
    """
    told = subprocess.run([sys.executable, "-c", SPENT, *map(str, command)], check=True, capture_output=True, text=True)
    return json.loads(told.stdout)


@pytest.mark.parametrize("scenario", [name for name, code in SCENARIOS.items() if not code])
def test_an_answer_takes_a_tenth_of_a_second(scenario):
    seconds, memory = spent(binary(), "plan", scenario, *TODAY)
    assert seconds < 0.1, seconds
    assert memory < 50e6, memory


def test_a_million_mixes_take_a_second(tmp_path):
    kinds = []
    for at in range(16):
        kinds += [
            f'[[device]]\nid = "f{at}"\nclass = "flash"\nslot = "nvme"\ncapacity = "{2 + at * 3} TB"\nread = "{3 + at} GB/s"\n'
            f'write = "{1 + at // 2} GB/s"\ndwpd = 3\nprice = {{ usd = {500 + at * 700}, date = "2026-10", source = "made up" }}\n',
            f'[[device]]\nid = "b{at}"\nclass = "disk"\nslot = "sata"\ncapacity = "{8 + at * 2} TB"\nread = "{200 + at * 10} MB/s"\n'
            f'write = "{200 + at * 10} MB/s"\nprice = {{ usd = {150 + at * 60}, date = "2026-10", source = "made up" }}\n']
    prices = tmp_path / "many.toml"
    prices.write_text("".join(kinds))
    command = [binary(), "plan", "car-ingest", "--prices", prices, "--set", "load.messages=100 K/s", *TODAY]
    answer = json.loads(subprocess.run([*command, "--format", "json"], check=True, capture_output=True).stdout)
    first = answer[0] if isinstance(answer, list) else answer
    assert first["mixes"] > 900_000
    seconds, memory = spent(*command)
    assert seconds < 1, seconds
    assert memory < 50e6, memory


def test_the_page_goes_on_after_descriptors_ran_out():
    """Who opens more connections than the process has descriptors for keeps others waiting, and ends nothing."""

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))

    command = [binary(), "plan", "--page", "127.0.0.1:0", *TODAY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=few) as process:
        address = process.stdout.readline().strip()
        place = urllib.parse.urlsplit(address)
        idle = [socket.create_connection((place.hostname, place.port)) for _ in range(30)]
        assert "cannot accept" in process.stderr.readline()
        for connection in idle:
            connection.close()
        assert urllib.request.urlopen(address, timeout=60).status == 200
        process.terminate()


def test_hostile_requests_leave_the_page_alive(served):
    """Each of these ended the process, or took all memory, before what is asked for was bounded."""
    plain = 'name = "x"\n[[load]]\nname = "l"\npeak = "1 GB/s"\nretention = "1 d"\n'
    wide = plain + "".join(
        f'[[catalogue.device]]\nid = "{kind}{at}"\nclass = "{kind}"\nslot = "{kind}"\ncapacity = "1 TB"\nread = "1 GB/s"\nwrite = "1 GB/s"\n'
        for at in range(40) for kind in ("flash", "disk"))
    server = '[[catalogue.server]]\nid = "s"\ncores = 1\nslots = {{ flash = {0}, disk = {0} }}\nmemory = ["1 GB"]\nnetwork = "1 Gb/s"\n'
    for body in (
        {"toml": plain, "set": ["a." * 200_000 + "a=1"]},
        {"toml": plain + server.format(60_000)},
        {"toml": plain + "x = [" + "{}," * 100_000 + "]\n", "set": ["load.x." + "y" * 1000 + "=" + "1" * 100_000]},
        {"toml": plain, "set": ["load.partitions=4000000000"]},
        {"toml": "a." * 200_000 + "a = 1\n" + plain},
        {"toml": plain, "set": ["goals.fill=0.5"] * 100_000},
        {"toml": wide + server.format(1000)},
    ):
        request = urllib.request.Request(served + "/solve", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        assert refused.value.code in (400, 503), str(body)[:100]
        assert len(refused.value.read()) < 10_000
    request = urllib.request.Request(served + "/solve", b'{"scenario":"burst"}', {"Content-Type": "application/json"})

    def is_answered():
        # The turn of who asked before may not be over.
        try:
            return urllib.request.urlopen(request, timeout=60).status == 200
        except urllib.error.HTTPError as error:
            assert error.code == 503
            return False

    wait_until(is_answered, "an answer")
