"""What `forebay tune apply` refuses, each with its reason, exit code 7, nothing written and no transaction begun."""

import json
import shutil
import subprocess

import pytest
from test_tune import FOREBAY, Host, design, rooted, tune, wait_until

SWAP = "sysctl.vm.swappiness"


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def item(id=SWAP, want="1", kind="O", more=""):
    return f'[[item]]\nid = "{id}"\nwant = {want}\nclass = "{kind}"\nwhy = "a test"\nconfidence = "high"\n{more}\n'


def plan(host, *items, name=None):
    fingerprint = name or host.json("inspect")["fingerprint"]
    host.plan.write_text(f'version = 1\nhost = "{fingerprint}"\n' + "".join(items))


def add(host, name, text):
    path = host.dir / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def files(host):
    return {path: path.read_bytes() for path in host.dir.rglob("*") if path.is_file()}


def refused(host, why, *arguments):
    before = files(host)
    said = host.tune("apply", host.plan, *arguments, check=7)
    assert why in said.stderr, said.stderr
    assert files(host) == before
    assert host.json("status") == []


RINGS = "rx=256 rx_max=4096 tx=256 tx_max=4096\n"
ITEMS = {
    "no knob": (item("sysctl.kernel.sysrq"), [], "no such knob"),
    "the driver has none": (item("net.eth0.rings", "{ rx = 512 }", "F"), [], "cannot be read"),
    "out of bounds": (item(want="999"), [], "outside of 0..200"),
    "no number": (item(want='"much"'), [], "no number"),
    "evidence is gone": (item(more='evidence = "listen.overflows > 0"'), [], "listen.overflows"),
    "only an experiment tells": (item().replace('"high"', '"experiment"'), [], "--only"),
    "class": (item("net.eth1.rings", "{ rx = 512 }", "O"), [], "--class-max is F"),
    "another class": (item("net.eth1.rings", "{ rx = 512 }", "L"), ["--class-max", "O"], "--class-max is O"),
    "destroys data": (item(kind="D"), ["--class-max", "B"], "--class-max is B"),
    "twice": (item() * 2, [], "twice"),
    "no such item": (item(), ["--only", "sysctl.vm.max_map_count"], "no such item"),
    "boot option": (item("boot.nohz_full", '"1-3"', "B"), ["--class-max", "B"], "no command writes boot options"),
    "mitigations": (item("boot.mitigations", '"off"', "B"), ["--class-max", "B"], "none of the boot options"),
    "a guard without its measure": (item() + "[guard]\np99_ratio_max = 1.1\n", [], "needs metrics"),
}


@pytest.mark.parametrize("case", ITEMS)
def test_an_item_is_refused(host, case):
    text, arguments, why = ITEMS[case]
    add(host, "ethtool/eth1/rings", RINGS)
    plan(host, text)
    refused(host, why, *arguments)


def test_a_plan_for_another_host_is_refused(host):
    plan(host, item(), name="sha256:00")
    refused(host, "the plan is for sha256:00")


# What else sets a knob: the files that show it, the knob (a card's is there), and the name.
OWNERS = {
    "sysctl.d": ({"etc/sysctl.d/60-db.conf": "vm.swappiness = 10\n"}, item(), "/etc/sysctl.d/60-db.conf"),
    "sysctl.conf": ({"etc/sysctl.conf": "vm.swappiness=10\n"}, item(), "/etc/sysctl.conf"),
    "tuned": ({
        "proc/8/comm": "tuned\n", "etc/tuned/active_profile": "ours\n",
        "etc/tuned/profiles/ours/tuned.conf": "[main]\n[sysctl]\nvm.swappiness=10\n"}, item(), "tuned"),
    "bpftune": ({"proc/9/comm": "bpftune\n"}, item("sysctl.net.core.somaxconn", "4096"), "bpftune"),
    "irqbalance": ({"proc/7/comm": "irqbalance\n"}, item("net.eth1.rx-0.irq", '"2"'), "irqbalance"),
    "perftune": ({"proc/7/comm": "perftune.py\n"}, item("net.eth1.rx-0.rps_cpus", '"2"'), "perftune.py"),
    "networkd": (
        {"etc/systemd/network/10-eth1.link": "[Match]\nOriginalName=eth1\n[Link]\nTransmitQueueLength=5000\n"},
        item("net.eth1.tx_queue_len", "2000"), "/etc/systemd/network/10-eth1.link"),
    "NetworkManager": (
        {"etc/NetworkManager/system-connections/lan.nmconnection": "[connection]\ninterface-name=eth1\n[ethtool]\nring-rx=512\n"},
        item("net.eth1.rings", "{ rx = 512 }", "L"), "lan.nmconnection"),
    "cloud-init": (
        {"etc/cloud/cloud.cfg.d/90-db.cfg": "bootcmd:\n - sysctl -w vm.swappiness=10\n", "etc/cloud/cloud.cfg": "\n"}, item(),
        "cloud-init (/etc/cloud/cloud.cfg.d/90-db.cfg)"),
    "a unit of another tuner": (
        {"etc/systemd/system/multi-user.target.wants/set_irq_affinity.service": ""}, item("net.eth1.rx-0.irq", '"2"'),
        "set_irq_affinity.service"),
}


@pytest.mark.parametrize("owner", OWNERS)
def test_what_something_else_sets_is_refused_unless_it_is_taken(host, owner):
    more, text, name = OWNERS[owner]
    card = "sys/class/net/eth1"
    for path, content in {
        "ethtool/eth1/rings": RINGS, f"{card}/tx_queue_len": "1000\n", f"{card}/queues/rx-0/rps_cpus": "0\n",
        f"{card}/device/msi_irqs/40": "msix\n", "proc/interrupts": "  CPU0\n 40: 5 PCI-MSIX eth1-TxRx-0\n",
        "proc/irq/40/smp_affinity_list": "0\n"}.items():
        add(host, path, content)
    plan(host, text)
    allowed = ("--class-max", "L")
    # Nothing else is wrong with the plan.
    host.tune("plan", "--check", host.plan, check=0)
    for path, content in more.items():
        add(host, path, content)
    refused(host, f"{name} sets it", *allowed)
    before = files(host)
    id = text.split('"')[1]
    if id.endswith("rings"):
        # A file cannot stand for the card, which answers with what it has.
        return
    applied = host.json("apply", host.plan, *allowed, "--take-over", id)
    assert applied["whole"] and files(host) != before
    [ours] = [one for one in host.json("inspect")["knobs"] if one["id"] == id]
    assert ours["transaction"] == applied["transaction"]
    journal = "".join(path.read_text() for path in host.state.glob("*.jsonl"))
    assert f'"taken":["{id}"]' in journal
    host.tune("undo", check=0)
    assert files(host) == before


def test_an_experiment_that_cannot_answer_is_refused(host, tmp_path):
    load = ["-c", "print('{}')"]
    plan(host, item(want="60"))
    design(tmp_path / "design.toml", load)
    said = host.tune("experiment", tmp_path / "design.toml", check=7)
    assert "nothing of the plan is left to change" in said.stderr
    add(host, "etc/forebay/cpus", "0-3\n")
    plan(host, item("process.cpus", '"1-3"', "P"))
    said = host.tune("experiment", tmp_path / "design.toml", "--class-max", "P", check=7)
    assert "fleet assign" in said.stderr
    design(tmp_path / "design.toml", load, pairs=5)
    said = host.tune("experiment", tmp_path / "design.toml")
    assert said.returncode not in (0, 4, 5) and "cannot decide" in said.stderr
    assert host.json("status") == []


def real(tmp_path):
    """A plan for this machine, in whose place a refusal comes first."""
    shown = json.loads(tune("--format", "json", "inspect", check=0).stdout)
    path = tmp_path / "plan.toml"
    path.write_text(f'version = 1\nhost = "{shown["fingerprint"]}"\n' + item("sysctl.net.ipv4.tcp_mtu_probing"))
    return path


@rooted
@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv is not installed")
@pytest.mark.parametrize("capability", ["net_admin", "sys_nice"])
def test_a_process_without_a_capability_is_refused(tmp_path, capability):
    bounds = ["setpriv", f"--bounding-set=-{capability}", f"--inh-caps=-{capability}"]
    plan = real(tmp_path)
    for command in (("apply", plan), ("verify", "--watch"), ("boot",)):
        said = tune("--state", tmp_path / "state", *command, prefix=bounds, check=7)
        assert f"lacks CAP_{capability.upper()}" in said.stderr
    assert not (tmp_path / "state").exists()


@rooted
@pytest.mark.parametrize("mark", ["container=podman", "KUBERNETES_SERVICE_HOST=10.0.0.1", "read-only"])
def test_a_container_is_refused_unless_it_names_the_hosts_root(host, tmp_path, mark):
    """Processes of its own, and an engine's mark or a `/proc/sys` that is read-only."""
    own = ["unshare", "--pid", "--net", "--mount", "--fork", "--mount-proc"]
    if mark == "read-only":
        script = 'mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys; exec "$@"'
        own += ["bash", "-euc", script, "bash"]
    else:
        own += ["env", mark]
    said = tune("--state", tmp_path / "state", "apply", real(tmp_path), prefix=own, check=7)
    assert "this is a container" in said.stderr
    # The plan of a tree that it is told of is applied, and taken back.
    host.write_plan({SWAP: 1})
    host.tune("apply", host.plan, check=0, prefix=own)
    assert host.files()["proc/sys/vm/swappiness"] == "1\n"
    host.tune("undo", check=0)


@rooted
@pytest.mark.parametrize("how", ["deadline", "confirmed"])
def test_a_watchdog_that_ends_with_its_container_is_waited_for(host, how):
    """The first process of a container ends all others: what nobody confirms would stay."""
    add(host, "proc/self/stat", "1 (x) S\n")
    host.write_plan({SWAP: 1})
    before = host.files()
    own = ["unshare", "--pid", "--mount", "--fork", "--mount-proc", "env", "container=podman"]
    within = "2s" if how == "deadline" else "1m"
    command = [*own, FOREBAY, "tune", "--sysroot", host.dir, "--state", host.state, "apply", host.plan, "--confirm-within", within]
    applying = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: host.state.exists() and host.json("status") and host.json("status")[-1]["whole"])
    if how == "confirmed":
        host.tune("confirm", host.json("status")[-1]["transaction"], check=0)
    _, said = applying.communicate(timeout=30)
    assert "waits in it" in said
    if how == "confirmed":
        assert applying.returncode == 0 and host.files() != before
        host.tune("undo", check=0)
    else:
        assert applying.returncode == 1 and "it was taken back" in said
    assert host.files() == before
