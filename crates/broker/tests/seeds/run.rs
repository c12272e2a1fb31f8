//! A run: some lives of one broker with clients at work, and an inspection on a healthy disk at the
//! end.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use broker::authorizer::AuthorizerMode;
use platform::sim::{Effect, Fault, OpKind, Rng, SimDisk};
use platform::task;
use platform::{Disk, Platform};

use crate::book::{Book, Counts, Life, SharedBook};
use crate::harness::{Cluster, Setup};
use crate::members::Member;
use crate::{chain, classic, members, rights};

const CHAINS: usize = 2;
const INSTANCES: usize = 2;
const MEMBERS: usize = 3;
/// Longer than any start or stop may take, in simulated time.
const PATIENCE: Duration = Duration::from_mins(30);

/// Separates the draw of journals from all others.
const JOURNAL_SALT: u64 = 0x6a6f_7572;

/// Parts of a life.
const PARTS: u64 = 4;

/// What a run without a violation was.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct RunResult {
    pub(crate) counts: Counts,
    trace: u64,
}

/// Runs what `seed` describes; with `careless`, on logs that answer before they sync.
pub(crate) fn run(seed: u64, careless: bool) -> Result<RunResult, String> {
    let mut rng = Rng::new(seed);
    let mut setup = Setup::shards(1 + usize::try_from(rng.below(2)).unwrap());
    setup.seed = rng.next_u64();
    // The clients are super users; what ACLs permit to others is not asked.
    setup = setup.authorized(AuthorizerMode::Enforce);
    if careless {
        setup = setup.with("durability", "replicated");
    }
    if !careless && Rng::new(seed ^ JOURNAL_SALT).chance(50) {
        setup = setup.with_journal(None);
    }
    setup.store.save_interval_bytes = [8 << 10, 1 << 30][usize::from(rng.chance(50))];
    let book = SharedBook::default();
    let members: Vec<_> = (0..MEMBERS)
        .map(|number| Rc::new(RefCell::new(Member::fresh(number))))
        .collect();
    let mut disk = SimDisk::new(rng.next_u64());
    for number in 0..2 + rng.below(4) {
        let plan = Plan::draw(number == 0, careless, &mut rng);
        disk = plan.live(&disk, &mut setup, &book, &members, &mut rng);
        setup = setup.next();
        if let Some(violation) = book.borrow().violation() {
            return Err(format!("life {number}: {violation}"));
        }
    }
    disk.set_latency(Duration::ZERO, Duration::ZERO);
    in_life(&disk, &setup, &book, async |life| {
        rights::inspect(&life).await;
        chain::inspect(&life, CHAINS).await;
        classic::inspect(&life).await;
    })
    .expect("a healthy disk");
    let book = book.borrow();
    match book.violation() {
        Some(violation) => Err(format!("in the end: {violation}")),
        None => Ok(RunResult {
            counts: book.counts,
            trace: book.trace(),
        }),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Stop,
    Kill,
    Crash,
}

/// What the machine is short of, in some parts of a life.
#[derive(Clone, Copy)]
enum Spell {
    /// The bytes that are left on the disk.
    Room(u64),
    /// Descriptors: the operating system gives this number.
    Descriptors(i32),
}

/// What happens in a life.
struct Plan {
    first: bool,
    trouble: Option<Fault>,
    spell: Option<Spell>,
    /// At every other part of the life there, and back at the next.
    jump_ms: i64,
    lasts_ms: u64,
    end: End,
}

impl Plan {
    fn draw(first: bool, careless: bool, rng: &mut Rng) -> Self {
        let end = match rng.below(10) {
            _ if careless => End::Crash,
            0..2 => End::Stop,
            2..6 => End::Kill,
            _ => End::Crash,
        };
        let trouble = match rng.below(10) {
            0..4 => Some(Fault::at(rng.below(3_000), Effect::PowerOff)),
            4..5 => Some(Fault::at_kind(
                rng.below(500),
                OpKind::Write,
                Effect::Fail(std::io::ErrorKind::StorageFull),
            )),
            5..6 => Some(Fault::at_kind(
                rng.below(500),
                OpKind::Sync,
                Effect::Fail(std::io::ErrorKind::Other),
            )),
            _ => None,
        };
        let spell = match rng.below(6) {
            _ if trouble.is_some() || careless => None,
            0..2 => Some(Spell::Room(rng.below(64 << 10))),
            2 => Some(Spell::Descriptors(24)),
            _ => None,
        };
        // A failed sync leaves it open what is there, and a kill would keep what the power would
        // take.
        let end = if trouble.is_some() { End::Crash } else { end };
        Self {
            first,
            trouble: trouble.filter(|_| !careless),
            spell,
            jump_ms: match rng.below(6) {
                0 => 7_200_000,
                1 => -600_000,
                2 => -7_200_000,
                _ => 0,
            },
            lasts_ms: 20_000 + rng.below(120_000),
            end,
        }
    }

    /// A part of the life begins: in every other one the machine is short of something.
    async fn turn(&self, life: &Life, disk: &SimDisk, part: u64) {
        if part > 0 && self.jump_ms != 0 {
            let there = if part % 2 == 1 { 1 } else { -1 };
            life.cluster.platform.clock().jump_ms(there * self.jump_ms);
            life.count(|counts| counts.jumps += 1);
        }
        end_spell(disk);
        let Some(spell) = self.spell.filter(|_| part % 2 == 1) else {
            return;
        };
        match spell {
            Spell::Room(bytes) => {
                let space = disk.space(Path::new("/")).await;
                let used = space.map_or(0, |space| space.total - space.free);
                disk.set_capacity_bytes(Some(used + bytes));
            }
            Spell::Descriptors(errno) => disk.set_exhausted(Some(errno)),
        }
        life.count(|counts| counts.spells += 1);
    }

    /// Lives on `disk`; gives the disk of the next life.
    fn live(
        &self,
        disk: &SimDisk,
        setup: &mut Setup,
        book: &SharedBook,
        members: &[Rc<RefCell<Member>>],
        rng: &mut Rng,
    ) -> SimDisk {
        let slow = Duration::from_micros(rng.below(2_000));
        disk.set_latency(slow / 4, slow);
        let seed = rng.next_u64();
        let mut own = Rng::new(rng.next_u64());
        let first = self.first;
        let lived = in_life(disk, setup, book, async |life| {
            rights::inspect(&life).await;
            if first {
                life.cluster.create("t", chain::PARTITIONS).await;
            }
            if let Some(trouble) = &self.trouble {
                disk.inject(trouble.clone());
            }
            spawn(&life, members, &mut own);
            for part in 0..PARTS {
                self.turn(&life, disk, part).await;
                life.cluster.pass_ms(self.lasts_ms / PARTS).await;
            }
            end_spell(disk);
            if self.end == End::Stop {
                life.cluster.stop().await;
            }
        });
        lived.expect("nothing is wrong with the disk when a life begins");
        let mut book = book.borrow_mut();
        book.before_ms += self.lasts_ms;
        let counts = &mut book.counts;
        match self.end {
            End::Stop => counts.stops += 1,
            End::Kill => counts.kills += 1,
            End::Crash => counts.crashes += 1,
        }
        book.note(&[6, disk.trace_hash().cast_signed()]);
        if self.end == End::Crash {
            disk.crash(seed)
        } else {
            disk.kill(seed)
        }
    }
}

fn end_spell(disk: &SimDisk) {
    disk.set_capacity_bytes(None);
    disk.set_exhausted(None);
}

fn spawn(life: &Life, members: &[Rc<RefCell<Member>>], rng: &mut Rng) {
    let mut rng = || Rng::new(rng.next_u64());
    for instance in 0..CHAINS * INSTANCES {
        task::spawn(chain::run(life.clone(), instance % CHAINS, rng()));
    }
    task::spawn(rights::run(life.clone(), rng()));
    for (number, member) in members.iter().enumerate() {
        task::spawn(members::run(life.clone(), Rc::clone(member), rng()));
        task::spawn(classic::run(life.clone(), number, rng()));
    }
}

fn in_life(
    disk: &SimDisk,
    setup: &Setup,
    book: &Rc<RefCell<Book>>,
    story: impl AsyncFnOnce(Life),
) -> Result<(), String> {
    let run = async {
        let cluster = Cluster::start(disk.clone(), setup).await?;
        let life = Life {
            began: cluster.platform.clock().now(),
            cluster: Rc::new(cluster),
            book: Rc::clone(book),
        };
        let lived = task::timeout(PATIENCE, story(life)).await;
        lived.map_err(|_| "a life does not end".to_owned())
    };
    platform::runtime::run_simulated(run).expect("an executor")
}
