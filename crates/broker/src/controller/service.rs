//! The controller at work: one decision after the other, each durable and seen by every shard
//! before it is answered.
//!
//! What a turn is, and what becomes of one whose records cannot be written: `service/turn.rs`.
//! Invariant: whoever was told that a topic exists can produce to it at once on every shard.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use platform::Platform;
use platform::sync::Semaphore;
use storage::Store;
use wire::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, AlterConfigsRequest, AlterConfigsResponse,
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, CreatePartitionsRequest,
    CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest,
    DeleteTopicsResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
    UnregisterBrokerRequest, UnregisterBrokerResponse, UpdateFeaturesRequest,
    UpdateFeaturesResponse,
};
use wire::records::metadata::{AbortTransactionRecord, MetadataVersion};
use wire::types::{ErrorCode, Offset, ProducerId, TimestampMs, TopicPartition};

use crate::image::{Image, Replayer};
use crate::options::BrokerOptions;
use crate::seldom::Seldom;

use super::answers::Answer;
use super::metadata_log::{Home, MetadataLog, MetadataLogError};
use super::mutations::{Caller, Gate, Mutations};
use super::quorum::Quorum;
use super::{
    Outcome, RECORDS_PER_REQUEST_MAX, Rules, allocate_producer_ids, decide, producer_ids, startup,
    topics, uuid_v4,
};

mod turn;

/// Records of a start that go into one batch.
const START_RECORDS_MAX: usize = 5000;
/// No partition has so many leaders between two backups; a log that is further ahead takes nothing.
const EPOCHS_RAISED_MAX: i32 = 10_000;

const _: () = assert!(
    START_RECORDS_MAX <= RECORDS_PER_REQUEST_MAX,
    "a start writes no more at once than a request"
);
const _: () = assert!(
    EPOCHS_RAISED_MAX > 0,
    "a log that is ahead is caught up with"
);

/// Hands an image to every shard; completes when all of them act on it.
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
    /// The broker stops: nobody changes anything any more but the stop itself.
    stopping: Cell<bool>,
    publish: Publish,
    /// The line about topics that clients ask for and that cannot be made.
    not_made: Seldom,
    me: Weak<Self>,
}

impl<P: Platform> Controller<P> {
    /// Opens the metadata log, fills it if it is empty, registers this broker (still fenced) and
    /// takes the leadership of its partitions. The caller applies [`Controller::image`], and then
    /// calls [`Controller::unfence`].
    pub async fn start(
        platform: P,
        store: &Store<P>,
        options: Arc<BrokerOptions>,
        home: Home,
        publish: Publish,
    ) -> Result<Rc<Self>, MetadataLogError> {
        let directories = home.directories.clone();
        let (log, replayer) = MetadataLog::open(platform.clone(), store, home).await?;
        let known_until = replayer.image().applied().timestamp;
        let controller = Rc::new_cyclic(|me| Self {
            platform,
            options,
            log,
            known_until,
            replayer: RefCell::new(replayer),
            mutations: Mutations::default(),
            turn: Arc::new(Semaphore::new(1)),
            stopping: Cell::default(),
            publish,
            not_made: Seldom::default(),
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

    /// The newest image.
    pub fn image(&self) -> Arc<Image> {
        Arc::new(self.replayer.borrow().image().clone())
    }

    /// Bytes that the metadata log can take on a full disk.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.log.reserved_bytes()
    }

    /// Says that this broker serves.
    pub async fn unfence(&self) -> Result<(), ErrorCode> {
        self.fence(false).await
    }

    /// Raises leader epochs, each by so much, at most by [`EPOCHS_RAISED_MAX`]: every step is a record.
    pub async fn raise_epochs(&self, behind: &[(TopicPartition, i32)]) -> Result<(), ErrorCode> {
        let (image, node) = (self.image(), self.options.node_id);
        let raise = |(name, by): &(TopicPartition, i32)| {
            startup::raise(&image, node, name, (*by).min(EPOCHS_RAISED_MAX))
        };
        let records: Vec<_> = behind.iter().flat_map(raise).collect();
        for chunk in records.chunks(START_RECORDS_MAX) {
            let (records, response) = (chunk.to_vec(), ());
            self.turn(async |_, _| Outcome { records, response })
                .await?;
        }
        Ok(())
    }

    /// Has the next block of producer ids begin behind `known`, unless it does.
    pub async fn raise_producer_ids(&self, known: ProducerId) -> Result<(), ErrorCode> {
        let node = self.options.node_id;
        self.turn(async |rules, _| {
            let is_behind = rules.image.next_producer_id() <= known.0;
            let next = known.0.saturating_add(1);
            let raised = is_behind.then(|| producer_ids(rules.image, node, next).into());
            Outcome {
                records: raised.into_iter().collect(),
                response: (),
            }
        })
        .await
    }

    /// The time of the last record that the metadata had when they were read.
    pub fn known_until(&self) -> TimestampMs {
        self.known_until
    }

    /// Refuses whatever waits for its turn, and all that comes: a stop does not wait for changes that clients still want.
    pub fn stop_begins(&self) {
        self.stopping.set(true);
    }

    /// Says that this broker stops serving, and closes the log.
    pub async fn stop(&self) -> Result<(), MetadataLogError> {
        if self.fence(true).await.is_err() {
            tracing::warn!("the metadata log does not say that this broker has stopped");
        }
        self.log.close().await
    }

    async fn fence(&self, fenced: bool) -> Result<(), ErrorCode> {
        let node = self.options.node_id;
        let is_over = || self.stopping.get() && !fenced;
        self.turn_unless(is_over, async |rules, _| {
            let records = startup::fence(rules.image, node, fenced);
            Outcome {
                records,
                response: (),
            }
        })
        .await
    }

    /// `CreateTopics`, and how long the client has to wait.
    pub async fn create_topics(
        &self,
        request: &CreateTopicsRequest,
        caller: &Caller,
    ) -> (CreateTopicsResponse, Duration) {
        self.gated(caller, async |rules, random, gate| {
            decide::create_topics::handle(rules, request, random, gate).await
        })
        .await
    }

    /// `DeleteTopics`, and how long the client has to wait.
    pub async fn delete_topics(
        &self,
        request: &DeleteTopicsRequest,
        version: i16,
        caller: &Caller,
    ) -> (DeleteTopicsResponse, Duration) {
        self.gated(caller, async |rules, _, gate| {
            decide::delete_topics::handle(rules, request, version, gate).await
        })
        .await
    }

    /// `CreatePartitions`, and how long the client has to wait.
    pub async fn create_partitions(
        &self,
        request: &CreatePartitionsRequest,
        caller: &Caller,
    ) -> (CreatePartitionsResponse, Duration) {
        self.gated(caller, async |rules, _, gate| {
            decide::create_partitions::handle(rules, request, gate).await
        })
        .await
    }

    /// `AlterPartitionReassignments`.
    pub async fn alter_partition_reassignments(
        &self,
        request: &AlterPartitionReassignmentsRequest,
    ) -> AlterPartitionReassignmentsResponse {
        self.answer(async |rules, _| {
            decide::alter_partition_reassignments::handle(rules, request).await
        })
        .await
    }

    /// `UpdateFeatures`.
    pub async fn update_features(
        &self,
        request: &UpdateFeaturesRequest,
        version: i16,
    ) -> UpdateFeaturesResponse {
        self.answer(async |rules, _| decide::update_features::handle(rules, request, version))
            .await
    }

    /// `UnregisterBroker`.
    pub async fn unregister_broker(
        &self,
        request: &UnregisterBrokerRequest,
    ) -> UnregisterBrokerResponse {
        self.answer(async |rules, _| decide::unregister_broker::handle(rules, request))
            .await
    }

    /// The quorum of the metadata log: this node.
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

    /// `AlterClientQuotas`.
    pub async fn alter_client_quotas(
        &self,
        request: &AlterClientQuotasRequest,
    ) -> AlterClientQuotasResponse {
        self.answer(async |rules, _| decide::alter_client_quotas::handle(rules, request).await)
            .await
    }

    /// `AlterUserScramCredentials`.
    pub async fn alter_user_scram_credentials(
        &self,
        request: &AlterUserScramCredentialsRequest,
    ) -> AlterUserScramCredentialsResponse {
        self.answer(async |rules, _| {
            decide::alter_user_scram_credentials::handle(rules.image, request).await
        })
        .await
    }

    /// `AlterConfigs`.
    pub async fn alter_configs(&self, request: &AlterConfigsRequest) -> AlterConfigsResponse {
        self.answer(async |rules, _| decide::alter_configs::handle(rules, request).await)
            .await
    }

    /// `IncrementalAlterConfigs`.
    pub async fn incremental_alter_configs(
        &self,
        request: &IncrementalAlterConfigsRequest,
    ) -> IncrementalAlterConfigsResponse {
        self.answer(async |rules, _| {
            decide::incremental_alter_configs::handle(rules, request).await
        })
        .await
    }

    /// A block of producer ids: the first, and how many.
    pub async fn allocate_producer_ids(&self) -> Result<(i64, i64), ErrorCode> {
        let node = self.options.node_id;
        self.turn(async |rules, _| allocate_producer_ids(rules.image, node))
            .await?
    }

    /// Creates topics that a client asked for or that the broker itself needs, with default
    /// settings or those of the internal topic. Those that exist by now are left alone; those that
    /// cannot be made are logged. While the broker stops, none is made.
    pub async fn create_missing(&self, names: &[String]) -> Result<(), ErrorCode> {
        self.turn(async |rules, random| {
            if self.stopping.get() {
                let (records, response) = (Vec::new(), ());
                return Outcome { records, response };
            }
            let (records, refused) = topics::create_all_missing(rules, names, random).await;
            // One line, however many a client asked for, and however often it asks.
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
            Outcome {
                records,
                response: (),
            }
        })
        .await
    }

    /// An answer that a quota of changes may hold back.
    async fn gated<R: Answer + Clone>(
        &self,
        caller: &Caller,
        decide: impl AsyncFnOnce(Rules<'_>, &mut dyn FnMut() -> u64, &Gate<'_>) -> Outcome<R>,
    ) -> (R, Duration) {
        let pause = Cell::new(Duration::ZERO);
        let response = self.answer(async |rules, random| {
            let now = self.platform.clock().now();
            let gate = self.mutations.gate(rules, caller, now);
            let outcome = decide(rules, random, &gate).await;
            pause.set(gate.pause());
            outcome
        });
        (response.await, pause.get())
    }

    async fn answer<R: Answer + Clone>(
        &self,
        decide: impl AsyncFnOnce(Rules<'_>, &mut dyn FnMut() -> u64) -> Outcome<R>,
    ) -> R {
        let decided = RefCell::new(None);
        let result = self
            .turn(async |rules, random| {
                let outcome = decide(rules, random).await;
                *decided.borrow_mut() = Some(outcome.response.clone());
                outcome
            })
            .await;
        match (result, decided.into_inner()) {
            (Err(code), Some(mut response)) => {
                response.fail(code);
                response
            }
            (Ok(response), _) => response,
            (Err(_), None) => unreachable!("a turn fails only after its decision"),
        }
    }
}
