//! The ACLs in the metadata log, by id, and the index by which they are enforced.
//!
//! The index follows the ACLs without being made for each of them. While a log is loaded there is
//! none, and the first question makes it of all ACLs; later changes are noted, and
//! [`Image::settle`] makes them once for each batch that is committed, before a shard sees it.
//! An ACL whose type of resource or of pattern is not known has no place in the index, because the
//! broker does not know what it protects: its record is kept as it was, and a broker with an
//! authorizer does not start with it (`controller/service.rs`). Invariants: an id is that of one
//! ACL, placed or not; the index is that of the placed ones; a snapshot has the records that were
//! replayed. Not here: which ACLs may be made (`controller/decide/create_acls.rs`), and decisions
//! (`wire::acl`).

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use platform::task::yield_now;
use wire::acl::{
    AclBinding, AclIndex, CHANGES_MAX, Change, Client, Decision, NamesWalk, Operation, Policy,
    RawAcl, ResourceType, SharedMap, UnplacedAcl,
};
use wire::records::metadata::{AccessControlEntryRecord, MetadataRecord};
use wire::types::Uuid;

use super::{Image, ReplayError};
use crate::rests::PIECE;

mod worth;

use worth::WorthVerdicts;

/// Bytes that an ACL counts besides its texts: its id, its codes, and its place in maps.
const ACL_BYTES: usize = 64;

/// The ACLs by id.
#[derive(Clone, Default, Debug)]
pub struct Acls {
    // Bounded: `controller::bounds::ACLS_BYTES_MAX`; a log that was taken over may hold more.
    by_id: SharedMap<Uuid, Arc<AclBinding>>,
    // Unbounded: no request makes one; a log that was taken over may hold some.
    unplaced: BTreeMap<Uuid, AccessControlEntryRecord>,
    /// Sum of [`acl_bytes`] of the placed ones.
    bytes: usize,
    index: LaggingIndex,
}

/// An index, and what it lacks.
#[derive(Clone, Default, Debug)]
struct LaggingIndex {
    /// The index of an earlier state.
    before: AclIndex,
    /// What has changed since; `None` if the index is made of all ACLs, which takes no longer.
    // Bounded: `CHANGES_MAX`.
    since: Option<Vec<Change>>,
    /// The index of this state, once it was asked for.
    now: OnceLock<AclIndex>,
    /// What this state says of whole types of resources.
    worth: WorthVerdicts,
}

impl LaggingIndex {
    fn note(&mut self, change: Change) {
        self.worth = WorthVerdicts::default();
        if let Some(index) = self.now.take() {
            self.before = index;
            self.since = Some(Vec::new());
        }
        match &mut self.since {
            Some(changes) if changes.len() < CHANGES_MAX => changes.push(change),
            _ => *self = Self::default(),
        }
    }
}

/// Two sets of ACLs are equal when they hold the same ones, whatever was asked of them.
impl PartialEq for Acls {
    fn eq(&self, other: &Self) -> bool {
        self.by_id == other.by_id && self.unplaced == other.unplaced
    }
}

impl Acls {
    /// Returns the index of all ACLs that have a place.
    pub fn index(&self) -> &AclIndex {
        self.index.now.get_or_init(|| {
            if let Some(changes) = &self.index.since {
                return self.index.before.with(changes);
            }
            let all = self.by_id.iter().map(|(_, acl)| Arc::clone(acl));
            AclIndex::new(&all.collect::<Vec<_>>())
        })
    }

    /// Decides, with rests, whether the client may do `operation` on at least one resource of a
    /// type.
    ///
    /// A decision that was kept does not name the ACL that permits it, unless that is wanted.
    pub(crate) async fn decide_any(
        &self,
        policy: &Policy,
        client: &Client<'_>,
        (operation, resource_type): (Operation, ResourceType),
        wants_rule: bool,
    ) -> Decision<'_> {
        let index = self.index();
        let quickly = index.decide_any_quickly(policy, client, operation, resource_type);
        if let Some(decision) = quickly {
            return decision;
        }
        match self.index.worth.known(client, operation, resource_type) {
            Some(false) => return Decision::NoMatch,
            Some(true) if !wants_rule => return Decision::NoAcl { allowed: true },
            Some(true) | None => {}
        }
        let (asked, mut walk) = ((operation, resource_type), NamesWalk::default());
        let decision = loop {
            match index.decide_any_by_names(client, asked, &mut walk, PIECE) {
                Some(decision) => break decision,
                None => yield_now().await,
            }
        };
        let is_allowed = decision.is_allowed();
        let worth = &self.index.worth;
        worth.keep((client, operation, resource_type), is_allowed);
        decision
    }

    /// Returns the ACLs that have a place, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (Uuid, &Arc<AclBinding>)> {
        self.by_id.iter().map(|(id, acl)| (*id, acl))
    }

    /// Returns how many verdicts on whole types of resources are kept.
    #[cfg(test)]
    pub(crate) fn kept_verdicts(&self) -> usize {
        self.index.worth.count()
    }

    /// Returns the ACL with this id, if it has a place.
    pub(crate) fn get(&self, id: Uuid) -> Option<&Arc<AclBinding>> {
        self.by_id.get(&id)
    }

    /// Returns how many ACLs have a place.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns true if no ACL has a place.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Returns the ACLs that have no place, and why.
    pub fn unplaced(&self) -> impl Iterator<Item = (Uuid, UnplacedAcl)> {
        let records = self.unplaced.iter();
        records.filter_map(|(id, record)| Some((*id, RawAcl::from(record).read().err()?)))
    }

    /// Returns how many ACLs have no place.
    pub fn unplaced_count(&self) -> usize {
        self.unplaced.len()
    }

    /// Returns true if there is an ACL with this id.
    pub(crate) fn has(&self, id: Uuid) -> bool {
        self.by_id.get(&id).is_some() || self.unplaced.contains_key(&id)
    }

    /// Returns the bytes of the ACLs that have a place.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Puts an ACL in the place of the one with its id, if there is one.
    fn add(&mut self, record: AccessControlEntryRecord) {
        self.remove(record.id);
        match RawAcl::from(&record).read() {
            Ok(acl) => {
                let acl = Arc::new(acl);
                self.bytes = self.bytes.saturating_add(acl_bytes(&acl));
                self.index.note(Change::Added(Arc::clone(&acl)));
                self.by_id.insert(record.id, acl);
            }
            Err(_) => drop(self.unplaced.insert(record.id, record)),
        }
    }

    fn remove(&mut self, id: Uuid) {
        self.unplaced.remove(&id);
        if let Some(acl) = self.by_id.remove(&id) {
            let bytes = acl_bytes(&acl);
            assert!(self.bytes >= bytes, "the sum of all ACLs");
            self.bytes = self.bytes.saturating_sub(bytes);
            self.index.note(Change::Removed(acl));
        }
    }

    fn is_settled(&self) -> bool {
        let since = self.index.since.as_ref();
        since.is_some_and(Vec::is_empty) && self.index.now.get().is_some()
    }

    fn settle(&mut self) {
        let index = self.index().clone();
        assert!(index.count() == self.by_id.len(), "the index has each ACL");
        self.index = LaggingIndex {
            before: AclIndex::default(),
            since: Some(Vec::new()),
            now: OnceLock::from(index),
            worth: WorthVerdicts::default(),
        };
    }
}

impl Image {
    /// Makes the index of ACLs ready, so that no request waits for it, and forgets the changes that
    /// led to it.
    pub fn settle(&mut self) {
        if !self.acls.is_settled() {
            Arc::make_mut(&mut self.acls).settle();
        }
    }

    pub(super) fn add_acl(&mut self, record: AccessControlEntryRecord) {
        Arc::make_mut(&mut self.acls).add(record);
    }

    pub(super) fn remove_acl(&mut self, id: Uuid) -> Result<(), ReplayError> {
        if !self.acls.has(id) {
            return Err(ReplayError::Acl(id));
        }
        Arc::make_mut(&mut self.acls).remove(id);
        Ok(())
    }

    pub(super) fn acl_records(&self, records: &mut Vec<MetadataRecord>) {
        let placed = self.acls.iter().map(|(id, acl)| acl.to_record(id));
        let unplaced = self.acls.unplaced.values().cloned();
        records.extend(placed.chain(unplaced).map(MetadataRecord::from));
    }
}

/// Returns the bytes that an ACL counts.
pub(crate) fn acl_bytes(acl: &AclBinding) -> usize {
    let texts = [
        &*acl.pattern.name,
        acl.principal.as_str(),
        acl.host.as_str(),
    ];
    let bytes = texts.into_iter().map(str::len);
    bytes.fold(ACL_BYTES, usize::saturating_add)
}

#[cfg(test)]
mod tests;
