//! A coordinator of one classic group in miniature: it has no timeouts, and forgets no member.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use wire::StrBytes;
use wire::messages::join_group_response::JoinGroupResponseMember;
use wire::messages::{HeartbeatResponse, JoinGroupResponse, LeaveGroupResponse, SyncGroupResponse};

use crate::group::exchange::{GroupAnswer, GroupRequest, JoinAsk};

const UNKNOWN_MEMBER: i16 = 25;
const ILLEGAL_GENERATION: i16 = 22;
const REBALANCING: i16 = 27;
const ID_REQUIRED: i16 = 79;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Phase {
    #[default]
    Stable,
    Preparing,
    Completing,
}

/// A member that has joined.
struct Joined {
    strategies: Vec<(&'static str, Bytes)>,
    /// The connection on which its join waits.
    waiting: Option<usize>,
}

/// The coordinator; members are known by their ids, their connections by numbers.
#[derive(Default)]
pub(super) struct Coordinator {
    phase: Phase,
    generation: i32,
    members: BTreeMap<String, Joined>,
    promised: BTreeSet<String>,
    syncing: BTreeMap<String, usize>,
    parts: BTreeMap<String, Bytes>,
    out: VecDeque<(usize, GroupAnswer)>,
    ids: usize,
}

impl Coordinator {
    pub(super) fn answers(&mut self) -> Vec<(usize, GroupAnswer)> {
        self.out.drain(..).collect()
    }

    pub(super) fn take(&mut self, from: usize, request: GroupRequest) {
        match request {
            GroupRequest::Join(join) => self.join(from, join),
            GroupRequest::Sync {
                generation,
                member_id,
                assigned,
                ..
            } => {
                let code = if !self.members.contains_key(&member_id) {
                    UNKNOWN_MEMBER
                } else if generation != self.generation {
                    ILLEGAL_GENERATION
                } else if self.phase == Phase::Preparing {
                    REBALANCING
                } else {
                    0
                };
                if code != 0 {
                    let refused = SyncGroupResponse::default().with_error_code(code);
                    return self.out.push_back((from, GroupAnswer::Sync(refused)));
                }
                self.syncing.insert(member_id.clone(), from);
                if self.leader().as_ref() == Some(&member_id) && self.phase == Phase::Completing {
                    let parts = assigned.into_iter();
                    self.parts = parts.map(|one| (one.member_id, one.assignment)).collect();
                    self.phase = Phase::Stable;
                }
                self.give_parts();
            }
            GroupRequest::Heartbeat {
                generation,
                member_id,
            } => {
                let code = if !self.members.contains_key(&member_id) {
                    UNKNOWN_MEMBER
                } else if generation != self.generation {
                    ILLEGAL_GENERATION
                } else if self.phase == Phase::Preparing {
                    REBALANCING
                } else {
                    0
                };
                let answer = HeartbeatResponse::default().with_error_code(code);
                self.out.push_back((from, GroupAnswer::Heartbeat(answer)));
            }
            GroupRequest::Leave { member_id } => {
                self.promised.remove(&member_id);
                if self.members.remove(&member_id).is_some() {
                    self.rebalance();
                }
                let answer = LeaveGroupResponse::default();
                self.out.push_back((from, GroupAnswer::Leave(answer)));
            }
            GroupRequest::Beat(_) => panic!("a heartbeat of the other protocol"),
        }
    }

    fn leader(&self) -> Option<String> {
        self.members.keys().next().cloned()
    }

    fn join(&mut self, from: usize, join: JoinAsk) {
        let refuse = |code: i16, id: &str| {
            let answer = JoinGroupResponse::default()
                .with_error_code(code)
                .with_member_id(StrBytes::from_string(id.to_owned()));
            (from, GroupAnswer::Join(answer))
        };
        if join.member_id.is_empty() {
            self.ids += 1;
            let id = format!("m{}", self.ids);
            self.out.push_back(refuse(ID_REQUIRED, &id));
            self.promised.insert(id);
            return;
        }
        let id = join.member_id;
        if !self.promised.remove(&id) && !self.members.contains_key(&id) {
            return self.out.push_back(refuse(UNKNOWN_MEMBER, ""));
        }
        let joined = Joined {
            strategies: join.strategies,
            waiting: Some(from),
        };
        self.members.insert(id, joined);
        self.rebalance();
    }

    /// Waits until all have joined, then begins a generation.
    fn rebalance(&mut self) {
        self.phase = Phase::Preparing;
        for (_, from) in std::mem::take(&mut self.syncing) {
            let refused = SyncGroupResponse::default().with_error_code(REBALANCING);
            self.out.push_back((from, GroupAnswer::Sync(refused)));
        }
        let all_joined = self.members.values().all(|one| one.waiting.is_some());
        let Some(leader) = self.leader().filter(|_| all_joined) else {
            return;
        };
        self.generation += 1;
        self.phase = Phase::Completing;
        self.parts.clear();
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        let chosen = self.members[&leader].strategies[0].0;
        let everybody = self.members.iter().map(|(id, joined)| {
            let mut strategies = joined.strategies.iter();
            let of_chosen = strategies.find(|(name, _)| *name == chosen);
            JoinGroupResponseMember::default()
                .with_member_id(text(id))
                .with_metadata(of_chosen.unwrap().1.clone())
        });
        let everybody: Vec<_> = everybody.collect();
        for (id, joined) in &mut self.members {
            let members = if *id == leader {
                everybody.clone()
            } else {
                Vec::new()
            };
            let answer = JoinGroupResponse::default()
                .with_generation_id(self.generation)
                .with_protocol_name(Some(text(chosen)))
                .with_leader(text(&leader))
                .with_member_id(text(id))
                .with_members(members);
            let from = joined.waiting.take().unwrap();
            self.out.push_back((from, GroupAnswer::Join(answer)));
        }
    }

    fn give_parts(&mut self) {
        if self.phase != Phase::Stable {
            return;
        }
        for (id, from) in std::mem::take(&mut self.syncing) {
            let part = self.parts.get(&id).cloned().unwrap_or_default();
            let answer = SyncGroupResponse::default().with_assignment(part);
            self.out.push_back((from, GroupAnswer::Sync(answer)));
        }
    }
}
