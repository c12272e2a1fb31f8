//! What clients of a running broker can notice, asked in frames.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "harness/cluster.rs"]
mod harness;

#[path = "served/absent_paths.rs"]
mod absent_paths;
#[path = "served/acl_every_api.rs"]
mod acl_every_api;
#[path = "served/acl_groups.rs"]
mod acl_groups;
#[path = "served/acl_in_pieces.rs"]
mod acl_in_pieces;
#[path = "served/acl_meanwhile.rs"]
mod acl_meanwhile;
#[path = "served/acl_records.rs"]
mod acl_records;
#[path = "served/acl_topics.rs"]
mod acl_topics;
#[path = "served/acl_transactions.rs"]
mod acl_transactions;
#[path = "served/acls.rs"]
mod acls;
#[path = "served/admin_questions.rs"]
mod admin_questions;
#[path = "served/asked_topics.rs"]
mod asked_topics;
#[path = "served/audited.rs"]
mod audited;
#[path = "served/by_id.rs"]
mod by_id;
#[path = "served/clocks.rs"]
mod clocks;
#[path = "served/clocks_compaction.rs"]
mod clocks_compaction;
#[path = "served/clocks_members.rs"]
mod clocks_members;
#[path = "served/controller_turns.rs"]
mod controller_turns;
#[path = "served/crowded.rs"]
mod crowded;
#[path = "served/damaged_files.rs"]
mod damaged_files;
#[path = "served/deleted_records.rs"]
mod deleted_records;
#[path = "served/directories.rs"]
mod directories;
#[path = "served/disk_failures.rs"]
mod disk_failures;
#[path = "served/every_api.rs"]
mod every_api;
#[path = "served/failed_log.rs"]
mod failed_log;
#[path = "served/failing_groups.rs"]
mod failing_groups;
#[path = "served/failing_transactions.rs"]
mod failing_transactions;
#[path = "served/fetch.rs"]
mod fetch;
#[path = "served/fetch_quiet.rs"]
mod fetch_quiet;
#[path = "served/full_disk.rs"]
mod full_disk;
#[path = "served/full_metadata.rs"]
mod full_metadata;
#[path = "served/full_offsets.rs"]
mod full_offsets;
#[path = "served/full_transactions.rs"]
mod full_transactions;
#[path = "served/hanging.rs"]
mod hanging;
#[path = "served/hanging_disks.rs"]
mod hanging_disks;
#[path = "served/hostile_fetch.rs"]
mod hostile_fetch;
#[path = "served/idle.rs"]
mod idle;
#[path = "served/in_turns.rs"]
mod in_turns;
#[path = "served/journaled.rs"]
mod journaled;
#[path = "served/journaled_trouble.rs"]
mod journaled_trouble;
#[path = "served/large_answers.rs"]
mod large_answers;
#[path = "served/logins.rs"]
mod logins;
#[path = "served/message_rules.rs"]
mod message_rules;
#[path = "served/migrations.rs"]
mod migrations;
#[path = "served/moving.rs"]
mod moving;
#[path = "served/moving_refused.rs"]
mod moving_refused;
#[path = "served/moving_tiers.rs"]
mod moving_tiers;
#[path = "served/offsets.rs"]
mod offsets;
#[path = "served/offsets_topic.rs"]
mod offsets_topic;
#[path = "served/older_disks.rs"]
mod older_disks;
#[path = "served/pipelining.rs"]
mod pipelining;
#[path = "served/places.rs"]
mod places;
#[path = "served/produce.rs"]
mod produce;
#[path = "served/questions.rs"]
mod questions;
#[path = "served/quotas.rs"]
mod quotas;
#[path = "served/restart.rs"]
mod restart;
#[path = "served/same_name.rs"]
mod same_name;
#[path = "served/seldom_lines.rs"]
mod seldom_lines;
#[path = "served/sessions.rs"]
mod sessions;
#[path = "served/shown.rs"]
mod shown;
#[path = "served/shown_transactions.rs"]
mod shown_transactions;
#[path = "served/silent_producers.rs"]
mod silent_producers;
#[path = "served/starts_refused.rs"]
mod starts_refused;
#[path = "served/stopping.rs"]
mod stopping;
#[path = "served/telemetry.rs"]
mod telemetry;
#[path = "served/topics.rs"]
mod topics;
#[path = "served/transactional.rs"]
mod transactional;
#[path = "served/transactions.rs"]
mod transactions;
#[path = "served/unanswered_controller.rs"]
mod unanswered_controller;
#[path = "served/unread_answers.rs"]
mod unread_answers;
#[path = "served/wrong_starts.rs"]
mod wrong_starts;
