//! A simulated host for tests, with the behaviours of kernels: values that are clamped, rounded up,
//! refused or silently ignored; pairs that exclude each other; lists that show the chosen entry.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use rustix::io::Errno;

use crate::form::{Spread, fields, spread};
use crate::root::{Tree, natural};

/// How a file treats a written value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Habit {
    /// Raises smaller values to this one.
    AtLeast(i64),
    /// Rounds up to a power of two.
    PowerOfTwo,
    /// Refuses the write.
    Refuses(Errno),
    /// Refuses to be read and written.
    Fails(Errno),
    /// Accepts the write without effect.
    Ignores,
    /// Selects from a list, which shows the choice in brackets.
    Chooses,
    /// Takes a row of numbers, shown with tabs.
    Row,
    /// Takes a mask, shown with all its digits.
    Mask,
    /// Refuses 0, and sets the other file of the pair to 0.
    Excludes(&'static str),
    /// Takes `equal=N`, shows a table, and refuses more queues than this card's channels.
    Spreads(&'static str),
    /// Takes fields, all of them kept except these, which no driver changes.
    Fixes(&'static str),
    /// Takes fields one by one, and refuses another value of this one.
    TakesUpTo(&'static str),
    /// Takes fields, and gives the interrupts of this device other numbers and these CPUs.
    Renumbers(&'static str, &'static str),
}

/// The simulated host.
#[derive(Default, Debug)]
pub(crate) struct Fake {
    files: RefCell<BTreeMap<String, String>>,
    links: RefCell<BTreeMap<String, String>>,
    habits: RefCell<BTreeMap<String, Habit>>,
    life: RefCell<Option<Rc<Life>>>,
    pub(crate) writes: Cell<u64>,
    reads: RefCell<BTreeMap<String, u64>>,
}

/// The number of steps until a process is killed, by a panic that a test catches.
#[derive(Debug)]
pub(crate) struct Life(Cell<u64>);

/// Ends the process, which loses its memory; not printed, because it is no failure.
pub(crate) fn kill() -> ! {
    std::panic::resume_unwind(Box::new("killed"))
}

impl Life {
    pub(crate) fn of(steps: u64) -> Rc<Life> {
        Rc::new(Life(Cell::new(steps)))
    }

    /// Counts a step; returns whether it is still executed.
    pub(crate) fn step(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }
}

impl Fake {
    pub(crate) fn new(files: &[(&str, &str)]) -> Fake {
        let fake = Fake::default();
        for (name, text) in files {
            fake.set(name, text);
        }
        fake
    }

    pub(crate) fn set(&self, name: &str, text: &str) {
        let text = if text.ends_with('\n') {
            text.to_owned()
        } else {
            format!("{text}\n")
        };
        self.files.borrow_mut().insert(name.to_owned(), text);
    }

    pub(crate) fn remove(&self, name: &str) {
        self.files.borrow_mut().remove(name);
    }

    pub(crate) fn set_link(&self, name: &str, target: &str) {
        self.links
            .borrow_mut()
            .insert(name.to_owned(), target.to_owned());
    }

    pub(crate) fn habit(self, name: &str, habit: Habit) -> Fake {
        self.becomes(name, habit);
        self
    }

    /// Changes how a file behaves from now on.
    pub(crate) fn becomes(&self, name: &str, habit: Habit) {
        self.habits.borrow_mut().insert(name.to_owned(), habit);
    }

    /// Counts each write from now on as a step of this life.
    pub(crate) fn lives(&self, life: Option<Rc<Life>>) {
        *self.life.borrow_mut() = life;
    }

    /// Returns how often a file was read.
    pub(crate) fn reads_of(&self, name: &str) -> u64 {
        self.reads.borrow().get(name).copied().unwrap_or(0)
    }

    pub(crate) fn files(&self) -> BTreeMap<String, String> {
        self.files.borrow().clone()
    }

    /// Gives the interrupts of a device numbers that are higher by a hundred, on these CPUs.
    fn renumber(&self, device: &str, cpus: &str) {
        let table = self.files.borrow().get("proc/interrupts").cloned();
        let mut lines = Vec::new();
        for line in table.unwrap_or_default().lines() {
            let number: Option<u32> = line
                .split_once(':')
                .filter(|_| line.contains(device))
                .and_then(|(number, _)| number.trim().parse().ok());
            let Some(number) = number else {
                lines.push(line.to_owned());
                continue;
            };
            let (new, msi) = (
                number + 100,
                format!("sys/class/net/{device}/device/msi_irqs"),
            );
            let rest = line.split_once(':').map_or("", |(_, rest)| rest);
            lines.push(format!("{new}:{rest}"));
            self.remove(&format!("proc/irq/{number}/smp_affinity_list"));
            self.remove(&format!("{msi}/{number}"));
            self.set(&format!("proc/irq/{new}/smp_affinity_list"), cpus);
            self.set(&format!("{msi}/{new}"), "msix");
        }
        self.set("proc/interrupts", &lines.join("\n"));
    }

    /// Returns the number of a card's queues.
    fn channels(&self, device: &str) -> u32 {
        let shown = self
            .files
            .borrow()
            .get(&format!("ethtool/{device}/channels"))
            .cloned();
        let found = fields(&shown.unwrap_or_default()).unwrap_or_default();
        let count = found.iter().find(|(name, _)| name == "combined");
        count
            .and_then(|(_, count)| u32::try_from(*count).ok())
            .unwrap_or(u32::MAX)
    }

    /// Returns the table of a spread; none over more queues than the card has.
    fn spread_over(&self, device: &str, old: &str, text: &str) -> io::Result<String> {
        let entries = u32::try_from(old.split_whitespace().count()).unwrap_or(0);
        let (last, shown) = match spread(text) {
            Some(Spread::Equal(count)) => (count.checked_sub(1), table(entries, count)),
            Some(Spread::Table(queues)) => (queues.iter().max().copied(), text.to_owned()),
            None => (None, String::new()),
        };
        if last.is_none_or(|last| last >= self.channels(device)) {
            return Err(Errno::INVAL.into());
        }
        Ok(shown)
    }

    /// Gives a card the kernel's own spread over its queues.
    fn spread_again(&self, device: &str) {
        let name = format!("ethtool/{device}/rss");
        let shown = self.files.borrow().get(&name).cloned();
        if let Some(shown) = shown {
            let entries = u32::try_from(shown.split_whitespace().count()).unwrap_or(0);
            self.set(&name, &table(entries, self.channels(device)));
        }
    }

    fn take(&self, name: &str, text: &str) -> io::Result<Option<String>> {
        let old = self.files.borrow().get(name).cloned();
        let old = old.ok_or(io::ErrorKind::NotFound)?;
        let habit = self.habits.borrow().get(name).copied();
        let number = || {
            text.parse::<i64>()
                .map_err(|_| io::Error::from(Errno::INVAL))
        };
        Ok(Some(match habit {
            None => text.to_owned(),
            Some(Habit::AtLeast(least)) => number()?.max(least).to_string(),
            Some(Habit::PowerOfTwo) => match number()? {
                0 => "0".to_owned(),
                value => value.unsigned_abs().next_power_of_two().to_string(),
            },
            Some(Habit::Refuses(errno) | Habit::Fails(errno)) => return Err(errno.into()),
            Some(Habit::Ignores) => return Ok(None),
            Some(Habit::Chooses) => chosen(&old, text)?,
            Some(Habit::Row) => text.replace(' ', "\t"),
            Some(Habit::Mask) => {
                let bits = u64::from_str_radix(&text.replace(',', ""), 16)
                    .map_err(|_| io::Error::from(Errno::INVAL))?;
                format!("{:08x},{:08x}", bits >> 32, bits & 0xffff_ffff)
            }
            Some(Habit::Fixes(name)) => {
                let others = text
                    .split_whitespace()
                    .filter(|pair| !pair.starts_with(name));
                with_fields(&old, &others.collect::<Vec<_>>().join(" "))
            }
            Some(Habit::TakesUpTo(last)) => {
                let (shown, is_whole) = taken_up_to(last, &old, text);
                if !is_whole {
                    self.set(name, &shown);
                    return Err(Errno::INVAL.into());
                }
                shown
            }
            Some(Habit::Spreads(device)) => self.spread_over(device, &old, text)?,
            Some(Habit::Renumbers(device, cpus)) => {
                self.renumber(device, cpus);
                let shown = with_fields(&old, text);
                self.set(name, &shown);
                self.spread_again(device);
                shown
            }
            Some(Habit::Excludes(other)) => {
                if number()? == 0 {
                    return Err(Errno::INVAL.into());
                }
                self.set(other, "0");
                text.to_owned()
            }
        }))
    }
}

/// Returns a list of words with brackets around the chosen one.
fn chosen(old: &str, text: &str) -> io::Result<String> {
    let plain = old.replace(['[', ']'], "");
    let words: Vec<&str> = plain.split_whitespace().collect();
    if !words.contains(&text) {
        return Err(Errno::INVAL.into());
    }
    let shown = words.iter().map(|word| {
        if *word == text {
            format!("[{word}]")
        } else {
            (*word).to_owned()
        }
    });
    Ok(shown.collect::<Vec<_>>().join(" "))
}

/// Returns the fields after the pairs before one that begins with `last` were taken, and whether
/// these were all.
fn taken_up_to(last: &str, old: &str, text: &str) -> (String, bool) {
    let is_taken =
        |pair: &&str| !pair.starts_with(last) || old.split_whitespace().any(|field| field == *pair);
    let wanted: Vec<&str> = text.split_whitespace().collect();
    let taken = wanted.iter().copied().take_while(|pair| is_taken(pair));
    let taken: Vec<&str> = taken.collect();
    let shown = with_fields(old, &taken.join(" "));
    (shown, taken.len() == wanted.len())
}

/// Returns the kernel's own table.
fn table(entries: u32, queues: u32) -> String {
    let texts: Vec<String> = (0..entries)
        .map(|entry| (entry % queues.max(1)).to_string())
        .collect();
    texts.join(" ")
}

/// Returns fields as they are shown, with those of `wanted` replaced.
fn with_fields(shown: &str, wanted: &str) -> String {
    let value = |name: &str| {
        let mut pairs = wanted
            .split_whitespace()
            .filter_map(|pair| pair.split_once('='));
        pairs
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    };
    let field = |pair: &str| {
        let (name, old) = pair.split_once('=').unwrap_or((pair, ""));
        format!("{name}={}", value(name).unwrap_or(old))
    };
    let fields: Vec<String> = shown.split_whitespace().map(field).collect();
    fields.join(" ")
}

impl Tree for Fake {
    fn read(&self, name: &str) -> io::Result<String> {
        *self.reads.borrow_mut().entry(name.to_owned()).or_default() += 1;
        if let Some(Habit::Fails(errno)) = self.habits.borrow().get(name) {
            return Err((*errno).into());
        }
        let found = self.files.borrow().get(name).cloned();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let life = self.life.borrow().clone();
        if life.is_some_and(|life| !life.step()) {
            kill();
        }
        self.writes.set(self.writes.get() + 1);
        if let Some(taken) = self.take(name, text)? {
            self.set(name, &taken);
        }
        Ok(())
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let prefix = format!("{dir}/");
        let files = self.files.borrow();
        let links = self.links.borrow();
        let inside = files
            .keys()
            .chain(links.keys())
            .filter_map(|name| name.strip_prefix(&prefix));
        let mut names: Vec<String> = inside
            .filter_map(|rest| rest.split('/').next())
            .map(str::to_owned)
            .collect();
        names.sort_by_key(|name| natural(name));
        names.dedup();
        if names.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(names)
    }

    fn link(&self, name: &str) -> io::Result<String> {
        let found = self.links.borrow().get(name).cloned();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
