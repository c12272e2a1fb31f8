//! What is asked: for every API and version, everything that can be aimed at in it.
//!
//! A case has a name that makes it again: `API:VERSION:WHAT:PATH:NUMBER:SHARE:SCENE:DICE`.

use std::fmt;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use wire::kafka::Api;
use wire::kafka::fetch::FetchRequest;
use wire::kafka::produce::ProduceRequest;
use wire::kafka::shape::schema::FieldKind;
use wire::kafka::shape::{DECODED_BYTES_MAX, decoded_bytes};

use crate::make::{self, Aim, EXTREMES, FieldPlace, ODD_TEXTS};
use crate::words::Words;

/// A little less than the longest frame that is taken.
const FRAME_BYTES: usize = (100 << 20) - 4096;

/// Seeded, and good enough for choices.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

/// What a case aims at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum CaseAim {
    Distinct,
    Repeated,
    Long,
    Overlong,
    Extreme,
    Odd,
}

const WHATS: [(CaseAim, &str); 6] = [
    (CaseAim::Distinct, "distinct"),
    (CaseAim::Repeated, "repeated"),
    (CaseAim::Long, "long"),
    (CaseAim::Overlong, "overlong"),
    (CaseAim::Extreme, "extreme"),
    (CaseAim::Odd, "odd"),
];

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Case {
    pub(crate) api: Api,
    pub(crate) version: i16,
    pub(crate) what: CaseAim,
    /// "" stands for all.
    path: String,
    /// Which extreme or odd text.
    number: usize,
    /// Which part of the decode limit: the limit divided by this.
    share: usize,
    /// In the middle of things; else the first request of a stranger.
    pub(crate) in_scene: bool,
    pub(crate) dice: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = WHATS.iter().find(|(what, _)| *what == self.what);
        write!(
            f,
            "{}:{}:{}:{}:{}:{}:{}:{}",
            self.api.name(),
            self.version,
            what.map_or("", |(_, name)| name),
            self.path,
            self.number,
            self.share,
            if self.in_scene { "scene" } else { "first" },
            self.dice
        )
    }
}

impl Case {
    pub(crate) fn parse(text: &str) -> anyhow::Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        ensure!(
            parts.len() == 8,
            "API:VERSION:WHAT:PATH:NUMBER:SHARE:SCENE:DICE"
        );
        let api = Api::ALL.iter().find(|api| api.name() == parts[0]);
        let what = WHATS.iter().find(|(_, name)| *name == parts[2]);
        Ok(Self {
            api: *api.with_context(|| format!("no API is called {}", parts[0]))?,
            version: parts[1].parse()?,
            what: what
                .context("distinct, repeated, long, overlong, extreme, odd")?
                .0,
            path: parts[3].to_owned(),
            number: parts[4].parse()?,
            share: parts[5].parse()?,
            in_scene: parts[6] == "scene",
            dice: parts[7].parse()?,
        })
    }

    /// What it is about, whatever the version and the numbers.
    pub(crate) fn kind(&self) -> String {
        let what = WHATS.iter().find(|(what, _)| *what == self.what);
        let what = what.map_or("", |(_, name)| name);
        match self.what {
            CaseAim::Extreme | CaseAim::Odd => format!("{} {what}", self.api.name()),
            _ => format!("{} {what} {}", self.api.name(), self.path),
        }
    }

    pub(crate) fn is_large(&self) -> bool {
        !matches!(self.what, CaseAim::Extreme | CaseAim::Odd)
    }

    /// The frame, and how many items it has.
    pub(crate) fn frame(&self, words: &Words) -> (Vec<u8>, usize) {
        let path = (!self.path.is_empty()).then(|| self.path.clone());
        let (body, count) = match self.what {
            CaseAim::Extreme => {
                let aim = Aim::Extreme {
                    path,
                    which: self.number,
                };
                (make::body(self.api, self.version, &aim, words), 1)
            }
            CaseAim::Odd => {
                let aim = Aim::Odd {
                    path,
                    which: self.number,
                };
                (make::body(self.api, self.version, &aim, words), 1)
            }
            CaseAim::Overlong => {
                let bytes = FRAME_BYTES / self.share;
                let path = self.path.clone();
                let aim = Aim::Overlong { path, bytes };
                (make::body(self.api, self.version, &aim, words), bytes)
            }
            CaseAim::Distinct | CaseAim::Repeated | CaseAim::Long => self.as_many_as_fit(words),
        };
        (make::frame(self.api, self.version, 1, &body), count)
    }

    fn as_many_as_fit(&self, words: &Words) -> (Vec<u8>, usize) {
        let mut words = words.clone();
        // A refusal that comes of the size, not of what is done: nothing shall be left behind by
        // thousands.
        words.say("validate_only", 1);
        let sized = |count: usize| {
            let path = self.path.clone();
            let aim = match self.what {
                CaseAim::Long => Aim::Long { path, bytes: count },
                what => Aim::Many {
                    path,
                    count,
                    distinct: what == CaseAim::Distinct,
                },
            };
            make::body(self.api, self.version, &aim, &words)
        };
        let limits = (DECODED_BYTES_MAX / self.share, FRAME_BYTES / self.share);
        let cost = |count: usize| cost(self.api, self.version, sized(count));
        let (few, more) = (cost(64), cost(1088));
        let each = |few: usize, more: usize| (more.saturating_sub(few) / 1024).max(1);
        let mut count = limits.1 / each(few.1, more.1);
        if each(few.0, more.0) > 1 || few.0 != more.0 {
            count = count.min(limits.0 / each(few.0, more.0));
        }
        loop {
            let body = sized(count);
            if body.len() <= limits.1 && fits(self.api, self.version, &body, limits.0) {
                return (body, count);
            }
            // Names get longer as they get more; no response says how much of the records is taken.
            let part = if matches!(self.api, Api::Produce | Api::Fetch) {
                3
            } else {
                16
            };
            count -= (count / part).max(1);
        }
    }
}

/// Memory for what a body is decoded to, and its length.
fn cost(api: Api, version: i16, body: Vec<u8>) -> (usize, usize) {
    let length = body.len();
    let decoded = decoded_bytes(api, version, &Bytes::from(body)).unwrap_or(0);
    (decoded, length)
}

fn fits(api: Api, version: i16, body: &[u8], limit: usize) -> bool {
    match api {
        Api::Produce => ProduceRequest::decode(&Bytes::copy_from_slice(body), version).is_ok(),
        Api::Fetch => FetchRequest::decode(&Bytes::copy_from_slice(body), version).is_ok(),
        _ => decoded_bytes(api, version, &Bytes::copy_from_slice(body))
            .is_ok_and(|bytes| bytes <= limit),
    }
}

fn aims(what: CaseAim, place: &FieldPlace) -> bool {
    match what {
        CaseAim::Distinct | CaseAim::Repeated => {
            matches!(place.kind, FieldKind::List(_) | FieldKind::Each(_))
        }
        CaseAim::Long => matches!(place.kind, FieldKind::Text | FieldKind::Blob),
        CaseAim::Extreme => matches!(place.kind, FieldKind::Fixed(_)),
        CaseAim::Overlong | CaseAim::Odd => matches!(place.kind, FieldKind::Text),
    }
}

/// For each API one case of every kind, in one version; numbers and texts with all extremes.
pub(crate) fn some(dice: &mut Dice, share: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    for &api in Api::ALL {
        let (oldest, newest) = (*api.versions().start(), *api.versions().end());
        let version = if dice.below(4) == 0 { oldest } else { newest };
        let places = make::places(api, version);
        for (what, _) in WHATS {
            let aimed: Vec<&FieldPlace> = places.iter().filter(|place| aims(what, place)).collect();
            if aimed.is_empty() {
                continue;
            }
            let numbers = match what {
                CaseAim::Extreme => EXTREMES.len(),
                CaseAim::Odd => ODD_TEXTS.len(),
                _ => 1,
            };
            for number in 0..numbers {
                let large = !matches!(what, CaseAim::Extreme | CaseAim::Odd);
                let path = if large || dice.below(2) == 0 {
                    aimed[dice.below(aimed.len())].path.clone()
                } else {
                    String::new()
                };
                cases.push(Case {
                    api,
                    version,
                    what,
                    path,
                    number,
                    share: share * [1, 4, 16][dice.below(3)],
                    in_scene: dice.below(4) != 0,
                    dice: dice.next() % 64,
                });
            }
        }
    }
    cases
}

/// Everything: each version, each place, each number, in the middle of things and as a stranger.
pub(crate) fn all(dice: &mut Dice, share: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    for &api in Api::ALL {
        for version in api.versions() {
            let places = make::places(api, version);
            for (what, _) in WHATS {
                let paths = places.iter().filter(|place| aims(what, place));
                let mut paths: Vec<String> = paths.map(|place| place.path.clone()).collect();
                let numbers = match what {
                    CaseAim::Extreme => EXTREMES.len(),
                    CaseAim::Odd => ODD_TEXTS.len(),
                    _ => 1,
                };
                if numbers > 1 {
                    paths.push(String::new());
                }
                for (path, number) in paths
                    .iter()
                    .flat_map(|path| (0..numbers).map(move |n| (path, n)))
                {
                    cases.push(Case {
                        api,
                        version,
                        what,
                        path: path.clone(),
                        number,
                        // Less than the limit, too: what is refused for its size is not looked at.
                        share: share * [1, 1, 4, 32][dice.below(4)],
                        in_scene: dice.below(3) != 0,
                        dice: dice.next() % 64,
                    });
                }
            }
        }
    }
    dice.shuffle(&mut cases);
    cases
}
