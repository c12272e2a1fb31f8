import os, subprocess, sys, threading, time, collections
from peers import hostile
from peers.hostile import Prey
from hostile.test_hostile import Attacker, Honest, ATTACKS, ATTACKERS, victim, MB, Closed, wait_until
LOG = []
def name_of(a): return getattr(a, "__name__", "crowd").replace("<lambda>", "crowd")
class Logged(Attacker):
    def run(self):
        only = os.environ.get("ONLY", "")
        mine = [a for a in ATTACKS if not only or name_of(a) in only.split(",")]
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        while not self.ending.is_set():
            for attack in self.dice.sample(mine, len(mine)):
                if self.ending.is_set(): return
                t = time.monotonic()
                try: attack(self.prey)
                except (Closed, OSError, AssertionError) as error: self.failed.append(repr(error)[:100])
                LOG.append((t, time.monotonic(), name_of(attack))); self.done += 1
def test_mix(victim, tmp_path):
    secs = int(os.environ.get("SECS", "60"))
    with Prey(victim.port).client() as c: c.create_topic("probe", 1, {})
    time.sleep(1)
    out = tmp_path / "probe"; ending = threading.Event()
    a = [Logged(victim, n, 1, ending) for n in range(ATTACKERS)]
    if not os.environ.get("ALONE"):
        for x in a: x.start()
    probe = subprocess.Popen([sys.executable, "/tmp/hx/probe.py", str(victim.port), "probe", str(out)])
    h = Honest(victim, tmp_path, "h-mix", "50MB")
    if os.environ.get("NOLINGER"):
        i = h.arguments.index("--linger"); del h.arguments[i:i + 2]
    try: p = h.load(secs)
    finally: ending.set(); probe.terminate(); probe.wait()
    for x in a:
        if x.is_alive(): x.join(180)
    rows = [tuple(map(float, l.split())) for l in open(out) if l.strip().count(" ") == 1]
    lat = sorted(r[1] for r in rows)
    print(f"MIX p99 {p:.1f}; probe n {len(lat)} p50 {lat[len(lat)//2]:.1f} p90 {lat[int(len(lat)*.9)]:.1f} p99 {lat[int(len(lat)*.99)]:.1f} max {lat[-1]:.1f}")
    slow = [(t, t + l / 1000) for t, l in rows if l > 30]; dur, hit = collections.Counter(), collections.Counter()
    for b, e, n in LOG:
        dur[n] += e - b
        for x, y in slow: hit[n] += max(0, min(e, y) - max(b, x))
    for n, d in dur.most_common(): print(f"   {n:45s} {d:6.1f} s, of them slow {100 * hit[n] / d:5.1f} %   count {sum(1 for l in LOG if l[2] == n)}")
