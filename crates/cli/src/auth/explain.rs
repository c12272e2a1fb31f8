//! `forebay auth explain`: whether a principal may do something, which ACL decides, and which ones
//! nearly did.
//!
//! It asks for the ACLs (`DescribeAcls`) and for the settings of one broker, and decides as Kafka's
//! `StandardAuthorizer` does, so it works with any Kafka. Super users are in a setting that Kafka
//! shows to no client, so an answer of "denied" holds for all but them.
//!
//! It changes nothing. Exit codes: 0 allowed, 3 denied or unknown, 1 if it could not be found out.

mod misses;
mod verdict;

use std::net::IpAddr;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use wire::acl::{
    AclBinding, Decision, Operation, PermissionType, Principal, RawAcl, super_users, unlike_kafka,
};
use wire::messages::{DescribeAclsRequest, DescribeAclsResponse};
use wire::types::ErrorCode;

use crate::acl::{Entry, operation, principal};
use crate::ask::{Cluster, check};
use crate::configs::{self, Resource};
use crate::resource::{self, NamedResource};
use crate::show::{Format, Table};
use crate::target::ChosenTarget;
use misses::{Field, NearMiss, decides, near_misses};
use verdict::{Answer, KnownRights, Question, Verdict, judge};

/// The exit code for an answer other than "allowed".
const NOT_ALLOWED: u8 = 3;
/// Near misses, and overridden ACLs, that are shown.
const SHOWN_MAX: usize = 20;
/// The code of ANY.
const ANY: i8 = 1;

const OPEN: &str = "allow.everyone.if.no.acl.found";
const SUPER_USERS: &str = "super.users";
const CLASS: &str = "authorizer.class.name";
const MODE: &str = "authorizer.mode";
const STANDARD: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

#[derive(Debug, Args)]
pub(super) struct Explain {
    /// Who, such as User:ada.
    #[arg(value_name = "PRINCIPAL", value_parser = principal)]
    principal: String,
    /// What it does, such as read.
    #[arg(value_name = "OPERATION", value_parser = operation)]
    operation: Operation,
    /// On what: topic:NAME, group:ID, txn:ID, cluster.
    #[arg(value_name = "RESOURCE", value_parser = resource::parse)]
    resource: NamedResource,
    /// Address of the client [default: one that no ACL names].
    #[arg(long, value_name = "ADDRESS")]
    host: Option<IpAddr>,
}

/// An answer as it is shown.
#[derive(Debug, Serialize)]
struct Explanation {
    principal: String,
    host: Option<IpAddr>,
    operation: &'static str,
    resource_type: &'static str,
    name: String,
    verdict: Answer,
    because: String,
    rule: Option<Entry>,
    elsewhere: Vec<OtherHost>,
    /// ACLs that permit it, and that the rule overrides.
    overridden: Vec<Entry>,
    near_misses: Vec<Miss>,
    super_users: Option<Vec<String>>,
    #[serde(rename = "allow.everyone.if.no.acl.found")]
    is_open_without_acl: Option<bool>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct OtherHost {
    host: IpAddr,
    verdict: Answer,
}

#[derive(Debug, Serialize)]
struct Miss {
    differs: Field,
    hint: &'static str,
    acl: Entry,
}

/// What a cluster tells, and what there is to say about it.
#[derive(Debug, Default)]
struct ToldRights {
    known: KnownRights,
    has_no_authorizer: bool,
    notes: Vec<String>,
}

impl Explain {
    pub(super) fn run(&self, target: &ChosenTarget) -> anyhow::Result<ExitCode> {
        let question = Question {
            principal: Principal::parse(&self.principal)?,
            host: self.host.map(|host| host.to_canonical()),
            operation: self.operation,
            resource_type: self.resource.resource_type,
            name: self.resource.name.clone(),
        };
        let told = ask(&mut target.cluster()?, &question)?;
        let explanation = explain(&question, &told);
        show(target.format, &explanation)
    }
}

fn show(format: Format, explanation: &Explanation) -> anyhow::Result<ExitCode> {
    format.show(explanation, || text(explanation))?;
    Ok(match explanation.verdict {
        Answer::Allowed => ExitCode::SUCCESS,
        Answer::Denied | Answer::Unknown => ExitCode::from(NOT_ALLOWED),
    })
}

fn ask(cluster: &mut Cluster, question: &Question) -> anyhow::Result<ToldRights> {
    let request = DescribeAclsRequest::default()
        .with_resource_type_filter(question.resource_type.code())
        .with_resource_name_filter(None)
        .with_pattern_type_filter(ANY)
        .with_principal_filter(None)
        .with_host_filter(None)
        .with_operation(ANY)
        .with_permission_type(ANY);
    let answer = cluster.entrance()?.ask_newest(&request)?;
    let mut told = ToldRights::default();
    match check(answer.error_code, answer.error_message.as_ref()) {
        Err(refusal) if refusal.error == ErrorCode::SecurityDisabled => {
            told.has_no_authorizer = true;
            return Ok(told);
        }
        checked => checked.context("ACLs are shown to those who may DESCRIBE the cluster")?,
    }
    take_acls(&answer, &mut told);
    match settings_of(cluster) {
        Ok(settings) => take_settings(&settings, &mut told),
        Err(error) => told.notes.push(format!("settings of a broker: {error:#}")),
    }
    Ok(told)
}

/// Takes the ACLs of an answer.
fn take_acls(answer: &DescribeAclsResponse, told: &mut ToldRights) {
    for resource in &answer.resources {
        for acl in &resource.acls {
            let raw = RawAcl {
                resource_type: resource.resource_type,
                name: &resource.resource_name,
                pattern_type: resource.pattern_type,
                principal: &acl.principal,
                host: &acl.host,
                operation: acl.operation,
                permission: acl.permission_type,
            };
            match raw.read() {
                Ok(acl) => told.known.acls.push(acl),
                Err(error) => told.notes.push(format!("left out: {error}")),
            }
        }
    }
    if told.notes.len() > SHOWN_MAX {
        let more = told.notes.split_off(SHOWN_MAX).len();
        told.notes.push(format!(
            "left out: {more} more ACLs that are not known here"
        ));
    }
}

/// Returns the settings about rights, of the first broker.
fn settings_of(cluster: &mut Cluster) -> anyhow::Result<Vec<configs::Setting>> {
    let first = cluster.brokers()?.first().copied();
    let id = first.context("the cluster has no brokers")?;
    let keys = [OPEN, SUPER_USERS, CLASS, MODE].map(str::to_owned);
    configs::settings(
        cluster.broker(id)?,
        Resource::Broker,
        &id.to_string(),
        Some(&keys),
    )
}

fn take_settings(settings: &[configs::Setting], told: &mut ToldRights) {
    let value = |key: &str| {
        let found = settings.iter().find(|setting| setting.name == key);
        found.and_then(|setting| setting.value.as_deref())
    };
    told.known.is_open_without_acl = value(OPEN).and_then(|text| match text {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    });
    told.known.super_users = value(SUPER_USERS).and_then(|text| super_users(text).ok());
    if let Some(class) = value(CLASS).filter(|class| !class.is_empty() && *class != STANDARD) {
        told.notes.push(format!(
            "another authorizer decides: {class}; this answer is Kafka's own"
        ));
    }
    if value(MODE) == Some("log") {
        told.notes.push(format!(
            "{MODE}=log: the broker refuses nothing, and notes what it would"
        ));
    }
}

fn explain(question: &Question, told: &ToldRights) -> Explanation {
    let known = &told.known;
    let verdict = judge(question, known);
    let mut notes = told.notes.clone();
    let answer = if told.has_no_authorizer {
        Answer::Allowed
    } else {
        verdict.answer
    };
    let (overridden, misses) = if told.has_no_authorizer {
        (Vec::new(), Vec::new())
    } else {
        beside(question, known, &verdict)
    };
    note(told, &verdict, &mut notes);
    let shown = |all: &[&AclBinding]| {
        let first = all.iter().take(SHOWN_MAX);
        first.map(|acl| Entry::from(*acl)).collect::<Vec<_>>()
    };
    for (all, what) in [
        (overridden.len(), "overridden ACLs"),
        (misses.len(), "near misses"),
    ] {
        if all > SHOWN_MAX {
            notes.push(format!("{} more {what} are not shown", all - SHOWN_MAX));
        }
    }
    let elsewhere = verdict.elsewhere.iter();
    Explanation {
        principal: question.principal.to_string(),
        host: question.host,
        operation: question.operation.name(),
        resource_type: question.resource_type.name(),
        name: question.name.clone(),
        verdict: answer,
        because: because(question, told, &verdict),
        rule: verdict.decision.acl().map(Entry::from),
        elsewhere: elsewhere
            .map(|&(host, verdict)| OtherHost { host, verdict })
            .collect(),
        overridden: shown(&overridden),
        near_misses: misses.iter().take(SHOWN_MAX).map(Miss::of).collect(),
        super_users: known.super_users.as_ref().map(|all| {
            let names = all.iter().map(ToString::to_string);
            names.collect()
        }),
        is_open_without_acl: known.is_open_without_acl,
        notes,
    }
}

/// Returns the ACLs that the rule overrides, and those that nearly decided otherwise.
fn beside<'a>(
    question: &Question,
    known: &'a KnownRights,
    verdict: &Verdict<'_>,
) -> (Vec<&'a AclBinding>, Vec<NearMiss<'a>>) {
    let otherwise = if verdict.decision.is_allowed() {
        PermissionType::Deny
    } else {
        PermissionType::Allow
    };
    if verdict.decision == Decision::SuperUser {
        return (Vec::new(), Vec::new());
    }
    let overridden = known
        .acls
        .iter()
        .filter(|acl| acl.effect() == otherwise && decides(question, acl));
    (
        overridden.collect(),
        near_misses(question, &known.acls, otherwise),
    )
}

/// Adds what an operator has to know to take the answer for what it is.
fn note(told: &ToldRights, verdict: &Verdict<'_>, notes: &mut Vec<String>) {
    if told.has_no_authorizer {
        return;
    }
    if told.known.super_users.is_none() {
        notes.push(format!(
            "{SUPER_USERS} is not told to clients: a principal in it may do everything"
        ));
    }
    if let Some((acl, how)) = unlike_kafka(verdict.decision.acl()).next() {
        notes.push(format!(
            "the host {} is compared as an address here and as text in Kafka, where the rule \
             means other clients ({how:?})",
            acl.host.as_str()
        ));
    }
    if verdict.has_more_elsewhere {
        notes.push("ACLs name more addresses: --host asks for one of them".to_owned());
    }
}

fn because(question: &Question, told: &ToldRights, verdict: &Verdict<'_>) -> String {
    if told.has_no_authorizer {
        return "the cluster has no authorizer: every client may do everything".to_owned();
    }
    let asked = question.operation;
    match verdict.decision {
        Decision::SuperUser => "a super user may do everything".to_owned(),
        Decision::Denied(_) => "an ACL forbids it, whatever others permit".to_owned(),
        Decision::Allowed(acl) if acl.operation.is(asked) || acl.operation.is(Operation::All) => {
            "an ACL permits it".to_owned()
        }
        Decision::Allowed(acl) => {
            format!("an ACL permits {}, which implies {asked}", acl.operation)
        }
        Decision::NoAcl { .. } => match told.known.is_open_without_acl {
            Some(open) => format!("no ACL is about this resource, and {OPEN}={open}"),
            None => format!("no ACL is about this resource, and {OPEN} is not told to this client"),
        },
        Decision::NoMatch => {
            "there are ACLs about this resource, and none permits it to this principal".to_owned()
        }
    }
}

impl Miss {
    fn of(miss: &NearMiss<'_>) -> Self {
        Self {
            differs: miss.field,
            hint: miss.hint,
            acl: Entry::from(miss.acl),
        }
    }
}

fn text(explanation: &Explanation) -> String {
    let words = match explanation.verdict {
        Answer::Allowed => "allowed",
        Answer::Denied => "denied",
        Answer::Unknown => "unknown",
    };
    let asked = format!(
        "{} {} {} {}",
        explanation.principal, explanation.operation, explanation.resource_type, explanation.name
    );
    let mut table = Table::plain();
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row(words, asked);
    row("because", explanation.because.clone());
    if let Some(rule) = &explanation.rule {
        row("rule", rule.line());
    }
    if let Some(host) = explanation.host {
        row("from", host.to_string());
    }
    for other in &explanation.elsewhere {
        let words = if other.verdict == Answer::Allowed {
            "allowed"
        } else {
            "denied"
        };
        row("but", format!("{words} from {}", other.host));
    }
    for acl in &explanation.overridden {
        row("overridden", acl.line());
    }
    for miss in &explanation.near_misses {
        row("near miss", format!("{} -- {}", miss.acl.line(), miss.hint));
    }
    for note in &explanation.notes {
        row("note", note.clone());
    }
    table.render()
}

#[cfg(test)]
mod tests;
