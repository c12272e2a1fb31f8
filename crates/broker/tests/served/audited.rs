//! What an auditor is handed: denials, logins and changes, whatever becomes of the client, and the
//! changes that are refused while none can be written down.

#![allow(
    clippy::disallowed_types,
    reason = "a sink is shared by shards; this one keeps a list"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use broker::audit::{Audit, AuditClass, AuditClasses, AuditDetail, AuditEvent, AuditSink};
use platform::sim::SimDisk;
use platform::task::timeout;
use wire::acl::Operation;
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{CreateTopicsRequest, MetadataRequest};
use wire::types::ErrorCode;

use crate::harness::asks::{error, topic_name};
use crate::harness::users::{User, topic};
use crate::harness::{Cluster, Setup, life};

/// Keeps what it is handed.
struct KeptEvents {
    events: Mutex<Vec<AuditEvent>>,
    takes_changes: AtomicBool,
}

impl AuditSink for KeptEvents {
    fn classes(&self) -> AuditClasses {
        let words = ["auth", "denied", "admin", "allowed:write"];
        AuditClasses::parse(words).expect("classes")
    }

    fn put(&self, event: AuditEvent) {
        self.events.lock().expect("no panic").push(event);
    }

    fn takes_changes(&self) -> bool {
        self.takes_changes.load(Ordering::Relaxed)
    }
}

impl KeptEvents {
    /// Returns what was handed over since the last time.
    fn take(&self, class: AuditClass) -> Vec<AuditEvent> {
        let mut events = self.events.lock().expect("no panic");
        let (taken, left) = events.drain(..).partition(|event| event.class == class);
        *events = left;
        taken
    }
}

fn with(disk: &SimDisk, story: impl AsyncFnOnce(&Cluster, &KeptEvents)) {
    let kept = Arc::new(KeptEvents {
        events: Mutex::default(),
        takes_changes: AtomicBool::new(true),
    });
    let mut setup = Setup::shards(2).with_users();
    let sink: Arc<KeptEvents> = Arc::clone(&kept);
    setup.options.audit = Audit::to(sink);
    life(disk, &setup, async |cluster| story(cluster, &kept).await);
}

fn creating(name: &str) -> CreateTopicsRequest {
    let topic = CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(2)
        .with_replication_factor(-1);
    CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(60_000)
}

/// What has changed, in words, and whether it is in force.
fn told(event: &AuditEvent) -> (Vec<String>, bool) {
    let AuditDetail::Records(records) = &event.detail else {
        panic!("{event:?}");
    };
    let changes = records.changes().into_iter();
    let words = changes.map(|change| format!("{} {}", change.what, change.target));
    (words.collect(), records.is_done)
}

#[test]
fn a_denial_tells_who_asked_for_what_from_where() {
    with(&SimDisk::new(1), async |cluster, kept| {
        cluster.create("other", 1).await;
        let user = User::login(cluster, "ada").await;
        let login = kept.take(AuditClass::Auth);
        assert_eq!((login.len(), login[0].principal.as_str()), (1, "User:ada"));
        assert_eq!(login[0].origin.mechanism, "PLAIN");
        let asked = MetadataRequestTopic::default().with_name(Some(topic_name("other")));
        let asked = MetadataRequest::default().with_topics(Some(vec![asked]));
        user.ask(13, &asked).await;
        let denied = kept.take(AuditClass::Denied);
        let [event] = &denied[..] else {
            panic!("{denied:?}");
        };
        let AuditDetail::Right(right) = &event.detail else {
            panic!("{event:?}");
        };
        assert_eq!(event.principal, "User:ada");
        assert_eq!(
            (event.origin.api, event.origin.mechanism),
            ("Metadata", "PLAIN")
        );
        let named = (right.operation, &*right.name, right.is_any);
        assert_eq!(named, (Operation::Describe, "other", false));
        // What is permitted is of no class that is wanted.
        cluster
            .allow("ada", Operation::Describe, topic("other"))
            .await;
        user.ask(13, &asked).await;
        assert!(kept.take(AuditClass::Denied).is_empty());
        assert!(kept.take(AuditClass::Allowed).is_empty());
    });
}

#[test]
fn a_change_is_told_although_its_client_has_gone() {
    let disk = SimDisk::new(1);
    with(&disk, async |cluster, kept| {
        kept.take(AuditClass::Admin);
        let slow = Duration::from_secs(1);
        disk.set_latency(slow, slow);
        let request = creating("orders");
        let asking = cluster.ask(7, &request);
        assert!(timeout(Duration::from_millis(100), asking).await.is_err());
        assert!(
            kept.take(AuditClass::Admin).is_empty(),
            "it is not in force yet"
        );
        let later = timeout(Duration::from_secs(30), std::future::pending::<()>());
        assert!(later.await.is_err());
        let changes: Vec<_> = kept.take(AuditClass::Admin).iter().map(told).collect();
        let words = ["create_topic orders", "add_partitions orders"];
        assert_eq!(changes, [(words.map(str::to_owned).to_vec(), true)]);
    });
}

#[test]
fn a_change_that_cannot_be_written_down_is_refused_if_it_has_to_be() {
    with(&SimDisk::new(1), async |cluster, kept| {
        kept.take(AuditClass::Admin);
        kept.takes_changes.store(false, Ordering::Relaxed);
        let answer = cluster.ask(7, &creating("orders")).await;
        let code = error(answer.topics[0].error_code);
        assert_eq!(code, Some(ErrorCode::PolicyViolation));
        assert!(cluster.brokers[0].image().topic_by_name("orders").is_none());
        // To ask whether it would be permitted changes nothing.
        let asking = creating("orders").with_validate_only(true);
        let answer = cluster.ask(7, &asking).await;
        assert_eq!(answer.topics[0].error_code, 0);
        assert!(kept.take(AuditClass::Admin).is_empty());
        kept.takes_changes.store(true, Ordering::Relaxed);
        let answer = cluster.ask(7, &creating("orders")).await;
        assert_eq!(answer.topics[0].error_code, 0);
        assert_eq!(kept.take(AuditClass::Admin).len(), 1);
    });
}
