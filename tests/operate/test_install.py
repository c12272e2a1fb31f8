"""The package on a machine with systemd, by the commands of docs/install.md, upgrade.md and backup.md: installed, run, killed,
upgraded, backed up, restored, removed, purged."""

import json
import re
import shutil
import subprocess

import pytest

from operate import pages
from operate.machine import Failed
from peers.process import wait_until

# What builds the package; the test has it.
BUILDS = ("cargo",)
DATA = "/var/lib/forebay/data"


@pytest.fixture
def installed(host, typed, package):
    host.copy(package, "~ada/target/debian/forebay_1_amd64.deb")
    host.root("chown -R ada: ~ada/target")
    typed("install.md", "Debian package", leave_out=BUILDS)
    return host


def ready(host):
    answer = host.type("curl -s 127.0.0.1:9644/readyz", check=False)
    return answer.startswith("{") and json.loads(answer)["status"] == "ready"


def unit(host, name):
    return host.root(f"systemctl show forebay -p {name} --value").strip()


def test_the_package_has_what_the_pages_say(package):
    listed = subprocess.run(["dpkg-deb", "-c", package], capture_output=True, text=True, check=True).stdout
    for path in ("usr/bin/forebay", "etc/forebay/server.properties", "usr/lib/systemd/system/forebay.service",
                 "usr/lib/sysusers.d/forebay.conf", "usr/lib/tmpfiles.d/forebay.conf", "usr/share/forebay/prometheus/forebay.rules.yml",
                 "usr/share/forebay/grafana/forebay-overview.json", "usr/share/doc/forebay/runbook.md"):
        assert f"./{path}\n" in listed, path
    for path in ("usr/lib/systemd/system/forebay-tune-boot.service", "usr/share/forebay/ansible/forebay.tune/plugins/modules/tune.py"):
        assert f"./{path}\n" in listed, path
    # Files belong to root, by its name or, as cargo-deb writes, by its number; and only the programs can be executed.
    programs = ("./usr/bin/forebay", "./usr/share/forebay/ansible/forebay.tune/carrier", "./usr/share/forebay/ansible/forebay.tune/service")
    for line in listed.splitlines():
        assert line.split()[1] in ("root/root", "0/0"), line
        executable = line.startswith("-rwx")
        assert executable == line.endswith(tuple(f" {program}" for program in programs)), line


@pytest.mark.skipif(not shutil.which("lintian"), reason="lintian is missing")
def test_the_package_has_no_error_for_debians_own_check(package):
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error", package], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_service_runs_as_the_page_says(installed):
    host = installed
    assert ready(host), "systemctl enable --now returned before it was ready"
    assert unit(host, "NotifyAccess") == "main" and unit(host, "NRestarts") == "0"
    assert int(unit(host, "LimitNOFILE")) == 1048576
    verified = host.root("systemd-analyze verify forebay.service 2>&1")
    assert "forebay" not in verified, verified
    exposure = host.root("systemd-analyze security forebay.service --no-pager | tail -1")
    assert float(re.search(r"(\d+\.\d+)", exposure)[1]) < 3, exposure
    # Whoever is the broker cannot put something else in the place of what root keeps beside the data.
    owner = host.root(f"stat -c '%U:%G %a' {DATA} /var/lib/forebay")
    assert owner == "forebay:forebay 750\nroot:root 755\n"
    host.root("install -d /var/lib/forebay/tune && ! runuser -u forebay -- mv /var/lib/forebay/tune /var/lib/forebay/mine")
    assert host.root("getent passwd forebay").strip().endswith("/var/lib/forebay:/usr/sbin/nologin")
    host.type("printf 'a\\nb\\n' | forebay topic produce orders --allow-auto-topic-creation")
    # A reload is no stop, and a kill is a start.
    before = unit(host, "MainPID")
    host.type("sudo systemctl reload forebay")
    assert ready(host) and unit(host, "MainPID") == before
    host.type("sudo systemctl kill -s KILL forebay")
    wait_until(lambda: unit(host, "NRestarts") == "1" and ready(host), "the next start", 30, every=0.2)
    assert host.type("forebay topic consume orders -e") == "a\nb\n"
    assert '"commit"' in host.type("journalctl -u forebay -o cat")
    # The service manager stops what does not feed its watchdog.
    host.root("kill -STOP $(systemctl show forebay -p MainPID --value)")
    wait_until(lambda: unit(host, "NRestarts") == "2" and ready(host), "a start after the watchdog", 120, every=0.5)
    # The audit file of docs/audit.md has a place that the sandbox allows.
    host.root("echo audit.path=/var/log/forebay/audit.log >> /etc/forebay/server.properties && systemctl restart forebay")
    assert ready(host) and host.root("stat -c %U:%a /var/log/forebay") == "forebay:750\n"
    assert "/var/log/forebay/audit.log" in host.root("ls /var/log/forebay/audit.log")
    host.type("sudo systemctl stop forebay")
    assert unit(host, "Result") == "success" and '"stopped"' in host.type("journalctl -u forebay -o cat -n 20")


def test_wrong_settings_keep_the_service_from_starting(installed):
    host = installed
    host.root("systemctl stop forebay && echo 'log.retention.hrs=1' >> /etc/forebay/server.properties"
              " && echo 'num.shards=no' >> /etc/forebay/server.properties")
    with pytest.raises(Failed, match="num.shards"):
        host.type("sudo systemctl start forebay")
    # What only a start finds is an error in the journal, as the runbook asks for it.
    host.root("systemctl stop forebay && systemctl reset-failed forebay"
              " && sed -i '/log.retention.hrs/d; /num.shards/d; s,^log.dirs=.*,log.dirs=/proc/none,' /etc/forebay/server.properties")
    with pytest.raises(Failed):
        host.type("sudo systemctl start forebay")
    said = host.type("journalctl -u forebay -p err -o cat --since -1h")
    assert "forebay: " in said and "/proc/none" in said and '"level":"INFO"' not in said, said


def test_a_new_disk_by_the_runbook(installed, typed):
    """A directory without a format beside one that has it: refused, and taken by the start with the operator's consent."""
    host = installed
    host.root("systemctl stop forebay && install -d -o forebay -g forebay /var/lib/forebay/second"
              " && sed -i 's,^log.dirs=.*,&\\,/var/lib/forebay/second,' /etc/forebay/server.properties"
              " && mkdir -p /etc/systemd/system/forebay.service.d && cd /etc/systemd/system/forebay.service.d"
              " && printf '[Service]\\nReadWritePaths=/var/lib/forebay/second\\n' > second.conf && systemctl daemon-reload")
    with pytest.raises(Failed, match="/var/lib/forebay/second"):
        host.type("sudo systemctl start forebay")
    typed("runbook.md", "A start with your consent")
    assert ready(host) and "format-new" not in unit(host, "ExecStart")
    host.type("sudo systemctl restart forebay")
    assert ready(host) and host.root("ls /var/lib/forebay/second/meta.properties")


def test_upgrade_backup_and_removal_by_their_pages(installed, typed, later):
    host = installed
    host.type("echo one | forebay topic produce orders --allow-auto-topic-creation")
    host.root("sed -i 's/^# Metrics.*/# Mine/' /etc/forebay/server.properties")
    host.copy(later, "~ada/forebay_NEW.deb")
    before = unit(host, "MainPID")
    first, *rest = pages.commands("upgrade.md", "Of the program")
    said = host.type(first)
    assert "still runs" in said and unit(host, "MainPID") == before, said
    for command in rest:
        host.type(command)
    assert unit(host, "MainPID") != before and ready(host)
    assert "# Mine" in host.root("cat /etc/forebay/server.properties")
    assert host.type("forebay topic consume orders -e") == "one\n"
    typed("upgrade.md", "Of features")
    typed("backup.md", "While the broker runs")
    assert "0 damaged" in host.root("forebay check /backup/2026-11-28")
    typed("backup.md", "With the broker stopped")
    host.type("echo two | forebay topic produce orders")
    typed("backup.md", "Restore")
    wait_until(lambda: ready(host), "the restored broker", 30, every=0.2)
    assert host.type("forebay topic consume orders -e") == "one\n"

    host.root("dpkg -r forebay")
    assert unit(host, "ActiveState") == "inactive"
    assert host.root("test -e /usr/bin/forebay || echo gone") == "gone\n"
    assert "# Mine" in host.root("cat /etc/forebay/server.properties")
    said = host.root("dpkg -P forebay")
    assert "stay" in said and host.root(f"ls {DATA}") and host.root("getent passwd forebay")
    assert host.root("test -e /etc/forebay/server.properties || echo gone") == "gone\n"
    # And again, on what is left.
    host.root("dpkg -i ~ada/forebay_NEW.deb && systemctl start forebay")
    assert host.type("forebay topic consume orders -e") == "one\n"


def test_a_layout_without_the_package(host, package, tmp_path):
    """The second way of the page, with the program of the package: its user and directories are the same."""
    subprocess.run(["dpkg-deb", "-x", package, tmp_path / "tree"], check=True)
    host.copy(tmp_path / "tree/usr/bin/forebay", "/tmp/source/target/dist/forebay")
    host.root(f"cp -r {pages.DOCS.parent}/deploy /tmp/source/ && chmod -R a+rX /tmp/source && chmod 755 /tmp/source/target/dist/forebay")
    for command in pages.commands("install.md", "Without the package"):
        if not command.startswith(BUILDS):
            host.type(command, cwd="/tmp/source")
    host.type("sudo systemctl start forebay")
    assert ready(host)
