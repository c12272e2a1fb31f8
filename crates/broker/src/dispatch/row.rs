//! What a row of the table of requests says: its columns, and what may stand in them.
//!
//! It does not: know any API; the rows are in `table.rs`.

/// What is known of one API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Row {
    /// What a client must be allowed to do.
    pub(super) guard: Guard,
    /// Where it is handled.
    pub(super) runs: Runs,
    /// Whether it begins while others of its connection wait.
    pub(super) order: Order,
    /// What it is charged.
    pub(super) quota: Quota,
    /// What a client loses that never gets the answer.
    pub(super) loss: Loss,
    /// About how many things it may be.
    pub(super) size: Size,
}

/// An operation, as Kafka's ACLs have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// CREATE.
    Create,
    /// DELETE.
    Delete,
    /// ALTER.
    Alter,
    /// DESCRIBE.
    Describe,
    /// `CLUSTER_ACTION`: what brokers ask of each other.
    ClusterAction,
    /// `DESCRIBE_CONFIGS`.
    DescribeConfigs,
    /// `ALTER_CONFIGS`.
    AlterConfigs,
    /// `IDEMPOTENT_WRITE`.
    IdempotentWrite,
}

/// What an operation is done to, as Kafka's ACLs have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResourceType {
    /// A topic.
    Topic,
    /// A group.
    Group,
    /// The cluster.
    Cluster,
    /// A transactional id.
    TransactionalId,
}

/// What a client must be allowed to do, and which step asks that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Guard {
    /// The step.
    pub(super) asked: Asked,
    /// Each right; where the handler asks, one of them may do for another.
    pub(super) rights: &'static [(ResourceType, Operation)],
}

/// Where rights are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    /// Nowhere: anybody may.
    Open,
    /// Before it is handled: there is one resource, for all of the request.
    Step,
    /// In the handler, for each resource that it meets.
    Handler,
}

/// The shard that handles a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Runs {
    /// That of the connection.
    Here,
    /// That of the controller.
    Controller,
    /// That of the group which it names.
    Group,
    /// That of the transactional id which it names.
    Transaction,
    /// That of each partition which it names.
    Partitions,
}

/// When a request may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// When those before it on its connection are answered.
    Alone,
    /// While others of its kind wait, unless it is of a transaction.
    OverlapsUnlessTransactional,
}

/// What the quotas of its client have to do with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Quota {
    /// It is charged where it is handled: the answer depends on it.
    Own,
    /// Brokers ask it of each other.
    Free,
    /// The time that it takes.
    Time,
    /// The same, and what it changes; clients know from this version on that they may be told to wait before anything is changed.
    Mutations {
        /// The version.
        strict_since: i16,
    },
}

/// What is lost with an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Loss {
    /// It changes nothing, and nobody waits in a group for it: the client asks again.
    Nothing,
    /// The same, and it may be dropped while it waits; its answer is made smaller instead of refused.
    NothingWhileItWaits,
    /// What was done, or that it was done.
    Something,
}

/// How many things a request may be about, each of which takes many times in memory of what it takes in the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Size {
    /// Few, or such as take little.
    Few,
    /// Very many: a large one takes a place among those, and waits for nothing that clients bring while it has it.
    Many,
    /// The same, and it takes its place, and gives it up, where it is handled.
    Own,
}
