//! The columns of the table of requests, and their values.
//!
//! It does not know any API; the rows are in `dispatch.rs`. The first word of a row is no value: it
//! is the step that checks the rights, a type of `dispatch/guards.rs`.

pub use wire::acl::{Operation, ResourceType};

/// The row of one API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Row {
    /// The rights that a client needs, in the order in which a step checks them; where the handler
    /// checks, one of them may imply another, or be enough instead.
    pub(super) rights: &'static [Right],
    /// The shard that handles it.
    pub(super) runs: Runs,
    /// Whether it begins while other requests of its connection wait.
    pub(super) order: Order,
    /// What the client is charged.
    pub(super) quota: Quota,
    /// What a client loses if it never gets the response.
    pub(super) loss: Loss,
    /// How many things the request may be about.
    pub(super) size: Size,
}

/// Something that a client may be allowed to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Right {
    /// What it does.
    pub operation: Operation,
    /// The type of the resource with which it does it.
    pub resource_type: ResourceType,
    /// Which of that type.
    pub which: RightScope,
}

/// The resources with which a client must be allowed to do something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RightScope {
    /// Those that the request names; the cluster has one name.
    Named,
    /// At least one of the type, which the request does not name.
    Any,
}

/// The shard that handles a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Runs {
    /// The shard of the connection.
    Here,
    /// The shard of the controller.
    Controller,
    /// The shard of the group that it names.
    Group,
    /// The shard of the transactional id that it names.
    Transaction,
    /// The shard of each partition that it names.
    Partitions,
}

/// When a request may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// After all requests before it on its connection are answered.
    Alone,
    /// While other requests of its kind wait, unless it belongs to a transaction.
    OverlapsUnlessTransactional,
}

/// How a request counts against the quotas of its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Quota {
    /// Its handler charges it, because the response depends on the charge.
    Own,
    /// Free: a request between brokers.
    Free,
    /// The time that it takes.
    Time,
    /// The time that it takes, and the partitions that it changes. From `strict_since` on, clients
    /// understand a refusal before anything is changed.
    Mutations {
        /// The first such version.
        strict_since: i16,
    },
}

/// What is lost with a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Loss {
    /// Nothing: the request changes nothing, and no group waits for it, so the client can retry.
    Nothing,
    /// Nothing, and the request may be dropped while it waits; its response is made smaller instead
    /// of refused.
    NothingWhileItWaits,
    /// The effect of the request, or the knowledge that it took effect.
    Something,
}

/// How many things a request may be about; each takes many times the memory that it takes in the
/// request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Size {
    /// Few, or things that take little memory.
    Few,
    /// Very many: a large request takes one of the places for such requests, and waits for nothing
    /// from clients while it has it.
    Many,
    /// Very many, and the handler takes the place over and gives it up.
    Own,
}
