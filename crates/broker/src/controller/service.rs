//! The running controller: one decision after the other, each durable and visible on every shard
//! before the client gets the response.
//!
//! `service/turn.rs` describes a turn, and what happens if its records cannot be written.
//! Invariant: a client that received the response that its topic exists can produce to it
//! immediately on every shard.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use platform::Platform;
use platform::sync::Semaphore;
use storage::Store;
use wire::acl::Operation;
use wire::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, AlterConfigsRequest, AlterConfigsResponse,
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, CreateAclsRequest,
    CreateAclsResponse, CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest,
    CreateTopicsResponse, DeleteAclsRequest, DeleteAclsResponse, DeleteTopicsRequest,
    DeleteTopicsResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
    UnregisterBrokerRequest, UnregisterBrokerResponse, UpdateFeaturesRequest,
    UpdateFeaturesResponse,
};
use wire::records::metadata::{AbortTransactionRecord, MetadataVersion};
use wire::types::{ErrorCode, Offset, ProducerId, TimestampMs, TopicPartition};

use crate::access::Access;
use crate::image::{Image, Replayer};
use crate::metrics::lately::Durations;
use crate::options::BrokerOptions;
use crate::seldom::SeldomLine;

use super::answers::ControllerResponse;
use super::metadata_log::{Home, MetadataLog, MetadataLogError};
use super::mutations::{Caller, Gate, Mutations};
use super::quorum::Quorum;
use super::{
    ControllerDecision, RECORDS_PER_REQUEST_MAX, Rules, allocate_producer_ids, decide,
    producer_ids, startup, topics, uuid_v4,
};

mod audited;
mod stores;
mod turn;

use audited::audited_turn;

/// Maximum records of a start in one batch.
const START_RECORDS_MAX: usize = 5000;
/// Maximum steps by which a leader epoch is raised. A partition has fewer leaders between two
/// backups; a log that is further ahead accepts no writes.
const EPOCHS_RAISED_MAX: i32 = 10_000;

const _: () = assert!(
    START_RECORDS_MAX <= RECORDS_PER_REQUEST_MAX,
    "a start writes no more at once than a request"
);
const _: () = assert!(
    EPOCHS_RAISED_MAX > 0,
    "a log that is ahead is caught up with"
);

/// Hands an image to every shard; completes when all of them use it.
pub type Publish = Rc<dyn Fn(Arc<Image>) -> Pin<Box<dyn Future<Output = ()>>>>;

/// The controller. It lives on one shard.
pub struct Controller<P: Platform> {
    platform: P,
    options: Arc<BrokerOptions>,
    log: MetadataLog<P>,
    known_until: TimestampMs,
    replayer: RefCell<Replayer>,
    mutations: Mutations,
    /// Held during a turn.
    turn: Arc<Semaphore>,
    /// True once the broker serves clients, who do not wait for a disk that hangs.
    serves: Cell<bool>,
    /// True once the broker stops: only the stop itself may change the metadata.
    stopping: Cell<bool>,
    publish: Publish,
    /// Limits the log line about requested topics that cannot be created.
    not_made: SeldomLine,
    me: Weak<Self>,
}

impl<P: Platform> Controller<P> {
    /// Opens the metadata log, fills it if it is empty, registers this broker (still fenced) and
    /// takes the leadership of its partitions.
    ///
    /// The caller applies [`Controller::image`], and then calls [`Controller::unfence`].
    pub async fn start(
        platform: P,
        store: &Store<P>,
        options: Arc<BrokerOptions>,
        home: Home,
        publish: Publish,
    ) -> Result<Rc<Self>, MetadataLogError> {
        let directories = home.directories.clone();
        let (log, mut replayer) = MetadataLog::open(platform.clone(), store, home).await?;
        if options.authorizer.is_some() {
            log.check_acls(replayer.image())?;
            replayer.settle();
        }
        let known_until = replayer.image().applied().timestamp;
        let controller = Rc::new_cyclic(|me| Self {
            platform,
            options,
            log,
            known_until,
            replayer: RefCell::new(replayer),
            mutations: Mutations::default(),
            turn: Arc::new(Semaphore::new(1)),
            serves: Cell::default(),
            stopping: Cell::default(),
            publish,
            not_made: SeldomLine::default(),
            me: me.clone(),
        });
        let applied = controller.begin_epoch().await?;
        controller.replay(Vec::new(), applied);
        controller.log.reserve().await;
        if controller.replayer.borrow().in_transaction() {
            let reason = Some("the leader stopped within the transaction".to_owned());
            controller
                .commit_at_start(vec![AbortTransactionRecord { reason }.into()])
                .await?;
        }
        let is_new = controller.image().feature(MetadataVersion::FEATURE) == 0;
        let bootstrap = controller.log.bootstrap(startup::bootstrap(), is_new);
        let bootstrap = bootstrap.await?;
        if is_new {
            controller.commit_at_start(bootstrap).await?;
        }
        let features = startup::new_features(&controller.image(), controller.options.node_id);
        if !features.is_empty() {
            controller.commit_at_start(features).await?;
        }
        let incarnation = u128::from(controller.platform.random_u64()) << 64
            | u128::from(controller.platform.random_u64());
        let offset = controller.log.end_offset();
        let incarnation = uuid_v4(incarnation);
        let registration = startup::register(&controller.options, incarnation, directories, offset);
        controller.commit_at_start(vec![registration]).await?;
        let elections = startup::lead_all(&controller.image(), controller.options.node_id);
        for chunk in elections.chunks(START_RECORDS_MAX) {
            controller.commit_at_start(chunk.to_vec()).await?;
        }
        controller.snapshot_if_due().await;
        tracing::info!(
            epoch = controller.log.epoch().0,
            offset = controller.log.end_offset().0,
            topics = controller.image().topics().count(),
            "loaded the metadata"
        );
        Ok(controller)
    }

    /// Returns the newest image.
    pub fn image(&self) -> Arc<Image> {
        Arc::new(self.replayer.borrow().image().clone())
    }

    /// Returns the bytes that the metadata log can take on a full disk.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.log.reserved_bytes()
    }

    /// Records that this broker serves clients.
    pub async fn unfence(&self) -> Result<(), ErrorCode> {
        self.fence(false).await?;
        self.serves.set(true);
        Ok(())
    }

    /// Raises leader epochs, each by the given steps, at most [`EPOCHS_RAISED_MAX`]: every step is
    /// a record.
    pub async fn raise_epochs(&self, behind: &[(TopicPartition, i32)]) -> Result<(), ErrorCode> {
        let (image, node) = (self.image(), self.options.node_id);
        let raise = |(name, by): &(TopicPartition, i32)| {
            startup::raise(&image, node, name, (*by).min(EPOCHS_RAISED_MAX))
        };
        let records: Vec<_> = behind.iter().flat_map(raise).collect();
        for chunk in records.chunks(START_RECORDS_MAX) {
            let (records, response) = (chunk.to_vec(), ());
            self.turn(async |_, _| ControllerDecision { records, response })
                .await?;
        }
        Ok(())
    }

    /// Makes the next block of producer ids begin after `known`, unless it already does.
    pub async fn raise_producer_ids(&self, known: ProducerId) -> Result<(), ErrorCode> {
        let node = self.options.node_id;
        self.turn(async |rules, _| {
            let is_behind = rules.image.next_producer_id() <= known.0;
            let next = known.0.saturating_add(1);
            let raised = is_behind.then(|| producer_ids(rules.image, node, next).into());
            ControllerDecision {
                records: raised.into_iter().collect(),
                response: (),
            }
        })
        .await
    }

    /// Returns the time of the last record that the metadata had when the controller opened the
    /// log.
    pub fn known_until(&self) -> TimestampMs {
        self.known_until
    }

    /// Refuses every change that waits for its turn or arrives later: a stop does not wait for
    /// changes of clients.
    pub fn stop_begins(&self) {
        self.stopping.set(true);
    }

    /// Records that this broker stops serving clients, and closes the log.
    pub async fn stop(&self) -> Result<(), MetadataLogError> {
        if self.fence(true).await.is_err() {
            tracing::warn!("the metadata log does not say that this broker has stopped");
        }
        self.log.close().await
    }

    async fn fence(&self, fenced: bool) -> Result<(), ErrorCode> {
        let node = self.options.node_id;
        let is_over = || self.stopping.get() && !fenced;
        self.turn_unless(is_over, &RefCell::default(), async |rules, _| {
            let records = startup::fence(rules.image, node, fenced);
            ControllerDecision {
                records,
                response: (),
            }
        })
        .await
    }

    /// Answers `CreateTopics`; also returns the throttle time.
    pub async fn create_topics(
        &self,
        request: &CreateTopicsRequest,
        caller: &Caller,
    ) -> (CreateTopicsResponse, Duration) {
        self.gated(caller, async |rules, random, gate| {
            let access = caller.access(rules.image);
            decide::create_topics::handle(rules, &access, request, random, gate).await
        })
        .await
    }

    /// Answers `DeleteTopics`; also returns the throttle time.
    pub async fn delete_topics(
        &self,
        request: &DeleteTopicsRequest,
        version: i16,
        caller: &Caller,
    ) -> (DeleteTopicsResponse, Duration) {
        self.gated(caller, async |rules, _, gate| {
            let access = caller.access(rules.image);
            decide::delete_topics::handle(rules, &access, request, version, gate).await
        })
        .await
    }

    /// Answers `CreatePartitions`; also returns the throttle time.
    pub async fn create_partitions(
        &self,
        request: &CreatePartitionsRequest,
        caller: &Caller,
    ) -> (CreatePartitionsResponse, Duration) {
        self.gated(caller, async |rules, _, gate| {
            let access = caller.access(rules.image);
            decide::create_partitions::handle(rules, &access, request, gate).await
        })
        .await
    }

    /// Answers `AlterPartitionReassignments`.
    pub async fn alter_partition_reassignments(
        &self,
        request: &AlterPartitionReassignmentsRequest,
        caller: &Caller,
    ) -> AlterPartitionReassignmentsResponse {
        self.permitted((caller, Operation::Alter), async |rules, _| {
            decide::alter_partition_reassignments::handle(rules, request).await
        })
        .await
    }

    /// Answers `UpdateFeatures`.
    pub async fn update_features(
        &self,
        request: &UpdateFeaturesRequest,
        version: i16,
        caller: &Caller,
    ) -> UpdateFeaturesResponse {
        self.permitted((caller, Operation::Alter), async |rules, _| {
            decide::update_features::handle(rules, request, version)
        })
        .await
    }

    /// Answers `UnregisterBroker`.
    pub async fn unregister_broker(
        &self,
        request: &UnregisterBrokerRequest,
        caller: &Caller,
    ) -> UnregisterBrokerResponse {
        self.permitted((caller, Operation::Alter), async |rules, _| {
            decide::unregister_broker::handle(rules, request)
        })
        .await
    }

    /// Returns how long changes of the metadata took to be committed, lately.
    pub(crate) fn commits(&self) -> Durations {
        self.log.commits()
    }

    /// Returns the quorum of the metadata log: this node.
    pub(crate) fn quorum(&self) -> Quorum {
        let end = Offset(self.image().last_applied_offset().0 + 1);
        Quorum {
            node: self.options.node_id,
            directory: self.log.voter_directory(),
            epoch: self.log.epoch(),
            high_watermark: end,
            end,
            now_ms: self.platform.clock().wall_ms(),
        }
    }

    /// Answers `AlterClientQuotas`.
    pub async fn alter_client_quotas(
        &self,
        request: &AlterClientQuotasRequest,
        caller: &Caller,
    ) -> AlterClientQuotasResponse {
        self.permitted((caller, Operation::AlterConfigs), async |rules, _| {
            decide::alter_client_quotas::handle(rules, request).await
        })
        .await
    }

    /// Answers `AlterUserScramCredentials`.
    pub async fn alter_user_scram_credentials(
        &self,
        request: &AlterUserScramCredentialsRequest,
        caller: &Caller,
    ) -> AlterUserScramCredentialsResponse {
        self.permitted((caller, Operation::Alter), async |rules, _| {
            decide::alter_user_scram_credentials::handle(rules.image, request).await
        })
        .await
    }

    /// Answers `CreateAcls`.
    pub async fn create_acls(
        &self,
        request: &CreateAclsRequest,
        caller: &Caller,
    ) -> CreateAclsResponse {
        if self.options.authorizer.is_none() {
            return decide::create_acls::disabled(request).await;
        }
        self.permitted((caller, Operation::Alter), async |rules, random| {
            self.in_no_doubt(decide::create_acls::handle(rules.image, request, random).await)
        })
        .await
    }

    /// Answers `DeleteAcls`.
    pub async fn delete_acls(
        &self,
        request: &DeleteAclsRequest,
        caller: &Caller,
    ) -> DeleteAclsResponse {
        if self.options.authorizer.is_none() {
            return decide::delete_acls::disabled(request).await;
        }
        self.permitted((caller, Operation::Alter), async |rules, _| {
            self.in_no_doubt(decide::delete_acls::handle(rules.image, request).await)
        })
        .await
    }

    /// Takes back what a decision grants while the log may hold more than the image.
    ///
    /// A client that got the answer "nothing left to delete" must not find otherwise after the next
    /// start.
    fn in_no_doubt<R: ControllerResponse>(
        &self,
        mut decision: ControllerDecision<R>,
    ) -> ControllerDecision<R> {
        if self.log.is_in_doubt() {
            decision.response.fail(ErrorCode::KafkaStorageError);
            decision.records.clear();
        }
        decision
    }

    /// Answers `AlterConfigs`.
    pub async fn alter_configs(
        &self,
        request: &AlterConfigsRequest,
        caller: &Caller,
    ) -> AlterConfigsResponse {
        let changed = |rules: Rules<'_>, access: &Access| {
            decide::alter_configs::changed_stores(rules, access, request)
        };
        let stores = self.checked_stores(caller, changed).await;
        let response = self.answer(caller, async |rules, _| {
            let access = caller.access(rules.image);
            decide::alter_configs::handle(rules, &access, request, &stores).await
        });
        let response = response.await;
        if !request.validate_only {
            let told = response.responses.iter();
            self.read_stores_again(told.map(|it| (it.error_code, it.resource_type)));
        }
        response
    }

    /// Answers `IncrementalAlterConfigs`.
    pub async fn incremental_alter_configs(
        &self,
        request: &IncrementalAlterConfigsRequest,
        caller: &Caller,
    ) -> IncrementalAlterConfigsResponse {
        let changed = |rules: Rules<'_>, access: &Access| {
            decide::incremental_alter_configs::changed_stores(rules, access, request)
        };
        let stores = self.checked_stores(caller, changed).await;
        let response = self.answer(caller, async |rules, _| {
            let access = caller.access(rules.image);
            decide::incremental_alter_configs::handle(rules, &access, request, &stores).await
        });
        let response = response.await;
        if !request.validate_only {
            let told = response.responses.iter();
            self.read_stores_again(told.map(|it| (it.error_code, it.resource_type)));
        }
        response
    }

    /// Allocates a block of producer ids: returns the first id and the count.
    pub async fn allocate_producer_ids(&self) -> Result<(i64, i64), ErrorCode> {
        let node = self.options.node_id;
        self.turn(async |rules, _| allocate_producer_ids(rules.image, node))
            .await?
    }

    /// Creates topics that a client asked for by name or that the broker itself needs, with default
    /// settings or those of the internal topic.
    ///
    /// Leaves topics alone that exist by now, and logs those that cannot be created. Creates none
    /// while the broker stops.
    pub async fn create_missing(&self, names: &[String]) -> Result<(), ErrorCode> {
        self.turn(async |rules, random| {
            if self.stopping.get() {
                let (records, response) = (Vec::new(), ());
                return ControllerDecision { records, response };
            }
            let (records, refused) = topics::create_all_missing(rules, names, random).await;
            // The log gets one line, no matter how many topics clients ask for, and how often.
            if let Some((name, refusal)) = refused.first()
                && let Some(unsaid) = self.not_made.turn(self.platform.clock().now())
            {
                tracing::warn!(
                    topic = name,
                    code = ?refusal.code,
                    reason = refusal.message.as_deref().unwrap_or_default(),
                    others = refused.len().saturating_sub(1),
                    unsaid,
                    "cannot create the topic that a client asked for"
                );
            }
            ControllerDecision {
                records,
                response: (),
            }
        })
        .await
    }

    /// Answers a request that the controller mutation quota may refuse or throttle.
    async fn gated<R: ControllerResponse>(
        &self,
        caller: &Caller,
        decide: impl AsyncFnOnce(Rules<'_>, &mut dyn FnMut() -> u64, &Gate<'_>) -> ControllerDecision<R>,
    ) -> (R, Duration) {
        let pause = Cell::new(Duration::ZERO);
        let response = self.answer(caller, async |rules, random| {
            let now = self.platform.clock().now();
            let gate = self.mutations.gate(rules, caller, now);
            let outcome = decide(rules, random, &gate).await;
            pause.set(gate.pause());
            outcome
        });
        (response.await, pause.get())
    }

    /// Answers a request about the cluster, unless its client has lost the right to it since it
    /// came: who may change ACLs could take back in its turn what was taken away before.
    async fn permitted<R: ControllerResponse>(
        &self,
        (caller, operation): (&Caller, Operation),
        decide: impl AsyncFnOnce(Rules<'_>, &mut dyn FnMut() -> u64) -> ControllerDecision<R>,
    ) -> R {
        self.answer(caller, async |rules, random| {
            let mut decision = decide(rules, random).await;
            if caller.has_lost(operation, rules.image) {
                decision
                    .response
                    .fail(ErrorCode::ClusterAuthorizationFailed);
                decision.records.clear();
            }
            decision
        })
        .await
    }

    async fn answer<R: ControllerResponse>(
        &self,
        caller: &Caller,
        decide: impl AsyncFnOnce(Rules<'_>, &mut dyn FnMut() -> u64) -> ControllerDecision<R>,
    ) -> R {
        let audited = RefCell::default();
        let is_over = || self.stopping.get();
        let told = self.turn_told(is_over, &audited, async |rules, random| {
            let mut outcome = decide(rules, random).await;
            *audited.borrow_mut() = audited_turn(caller, rules, &mut outcome);
            outcome
        });
        let (mut response, carried_out) = told.await;
        if let Err(code) = carried_out {
            response.fail(code);
        }
        response
    }
}
