//! What requests about the cluster are answered if the client lacks a right: in each, the places
//! where Kafka puts the code, and Kafka's text for it where Kafka has a text.
//!
//! Where Kafka's text is that of an exception, which shows the request with its connection, it is
//! the text of the code here.

use std::collections::BTreeSet;

use wire::acl::ResourceType;
use wire::kafka::NewestVersion;
use wire::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use wire::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use wire::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use wire::messages::create_acls_response::AclCreationResult;
use wire::messages::delete_acls_response::DeleteAclsFilterResult;
use wire::messages::describe_user_scram_credentials_response::DescribeUserScramCredentialsResult;
use wire::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use wire::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use wire::messages::{
    AddRaftVoterRequest, AddRaftVoterResponse, AlterClientQuotasRequest, AlterClientQuotasResponse,
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse, CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest,
    DeleteAclsResponse, DescribeAclsRequest, DescribeAclsResponse, DescribeClientQuotasRequest,
    DescribeClientQuotasResponse, DescribeLogDirsRequest, DescribeLogDirsResponse,
    DescribeQuorumRequest, DescribeQuorumResponse, DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse, ElectLeadersRequest, ElectLeadersResponse,
    ListConfigResourcesRequest, ListConfigResourcesResponse, ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse, RemoveRaftVoterRequest, RemoveRaftVoterResponse,
    UnregisterBrokerRequest, UnregisterBrokerResponse, UpdateFeaturesRequest,
    UpdateFeaturesResponse, alter_client_quotas_response as quotas,
};
use wire::protocol::{Request, StrBytes};
use wire::types::ErrorCode;

use crate::access::words;
use crate::dispatch::guards::RefusableRequest;
use crate::rests::{Rests, each};

/// Returns the words of a code.
fn text(code: ErrorCode) -> StrBytes {
    words(code).map_or_else(
        || StrBytes::from_string(code.to_string()),
        StrBytes::from_static_str,
    )
}

refused! {
    DescribeAclsRequest {} => |_, code, _| {
        DescribeAclsResponse::default()
            .with_error_code(code.code())
            .with_error_message(Some(text(code)))
    };
    DescribeClientQuotasRequest {} => |_, code, _| {
        DescribeClientQuotasResponse::default()
            .with_error_code(code.code())
            .with_error_message(None)
            .with_entries(None)
    };
    DescribeQuorumRequest {} => |_, code, _| {
        DescribeQuorumResponse::default()
            .with_error_code(code.code())
            .with_error_message(Some(text(code)))
    };
    UpdateFeaturesRequest {} => |_, code, _| {
        UpdateFeaturesResponse::default()
            .with_error_code(code.code())
            .with_error_message(Some(text(code)))
    };
    UnregisterBrokerRequest {} => |_, code, _| {
        UnregisterBrokerResponse::default()
            .with_error_code(code.code())
            .with_error_message(Some(text(code)))
    };
    ListConfigResourcesRequest {} => |_, code, _| {
        ListConfigResourcesResponse::default().with_error_code(code.code())
    };
    NewestVersion<DescribeLogDirsRequest> {} => |_, code, _| {
        let refusal = DescribeLogDirsResponse::default();
        refusal.with_error_code(code.code()).into()
    };
    NewestVersion<AddRaftVoterRequest> {} => |_, code, _| {
        AddRaftVoterResponse::default()
            .with_error_code(code.code())
            .with_error_message(Some(text(code)))
            .into()
    };
    RemoveRaftVoterRequest {} => |_, code, _| {
        RemoveRaftVoterResponse::default()
            .with_error_code(code.code())
            .with_error_message(Some(text(code)))
    };
}

/// Requests about the cluster whose refusal is as long as they are.
macro_rules! refused_each {
    ($($request:ty => $refusal:expr;)*) => {$(
        impl RefusableRequest for $request {
            fn named(&self, _: ResourceType) -> Option<&str> {
                None
            }

            async fn refused(
                &self,
                code: ErrorCode,
                version: i16,
            ) -> <Self as Request>::Response {
                $refusal(self, code, version).await
            }
        }
    )*};
}

refused_each! {
    CreateAclsRequest => create_acls;
    DeleteAclsRequest => delete_acls;
    AlterReplicaLogDirsRequest => alter_replica_log_dirs;
    ElectLeadersRequest => elect_leaders;
    AlterPartitionReassignmentsRequest => alter_partition_reassignments;
    ListPartitionReassignmentsRequest => list_partition_reassignments;
    AlterClientQuotasRequest => alter_client_quotas;
    DescribeUserScramCredentialsRequest => describe_user_scram_credentials;
    AlterUserScramCredentialsRequest => alter_user_scram_credentials;
}

async fn create_acls(request: &CreateAclsRequest, code: ErrorCode, _: i16) -> CreateAclsResponse {
    let result = AclCreationResult::default()
        .with_error_code(code.code())
        .with_error_message(Some(text(code)));
    let results = each(&request.creations, |_| result.clone());
    CreateAclsResponse::default().with_results(results.await)
}

async fn delete_acls(request: &DeleteAclsRequest, code: ErrorCode, _: i16) -> DeleteAclsResponse {
    let result = DeleteAclsFilterResult::default()
        .with_error_code(code.code())
        .with_error_message(Some(text(code)));
    let results = each(&request.filters, |_| result.clone());
    DeleteAclsResponse::default().with_filter_results(results.await)
}

async fn alter_replica_log_dirs(
    request: &AlterReplicaLogDirsRequest,
    code: ErrorCode,
    _: i16,
) -> AlterReplicaLogDirsResponse {
    let (mut results, mut rests) = (Vec::new(), Rests::new());
    for topic in request.dirs.iter().flat_map(|dir| &dir.topics) {
        let partitions = each(&topic.partitions, |index| {
            AlterReplicaLogDirPartitionResult::default()
                .with_partition_index(*index)
                .with_error_code(code.code())
        });
        let result = AlterReplicaLogDirTopicResult::default().with_topic_name(topic.name.clone());
        results.push(result.with_partitions(partitions.await));
        rests.item().await;
    }
    AlterReplicaLogDirsResponse::default().with_results(results)
}

async fn elect_leaders(
    request: &ElectLeadersRequest,
    code: ErrorCode,
    version: i16,
) -> ElectLeadersResponse {
    let (mut results, mut rests) = (Vec::new(), Rests::new());
    for topic in request.topic_partitions.iter().flatten() {
        let partitions = each(&topic.partitions, |index| {
            PartitionResult::default()
                .with_partition_id(*index)
                .with_error_code(code.code())
                .with_error_message(Some(text(code)))
        });
        let result = ReplicaElectionResult::default().with_topic(topic.topic.clone());
        results.push(result.with_partition_result(partitions.await));
        rests.item().await;
    }
    // Version 0 has no code of the whole.
    let whole = if version >= 1 { code.code() } else { 0 };
    ElectLeadersResponse::default()
        .with_error_code(whole)
        .with_replica_election_results(results)
}

async fn alter_partition_reassignments(
    request: &AlterPartitionReassignmentsRequest,
    code: ErrorCode,
    _: i16,
) -> AlterPartitionReassignmentsResponse {
    let (mut responses, mut rests) = (Vec::with_capacity(request.topics.len()), Rests::new());
    for topic in &request.topics {
        let partitions = each(&topic.partitions, |partition| {
            ReassignablePartitionResponse::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code.code())
                .with_error_message(Some(text(code)))
        });
        let response = ReassignableTopicResponse::default().with_name(topic.name.clone());
        responses.push(response.with_partitions(partitions.await));
        rests.item().await;
    }
    AlterPartitionReassignmentsResponse::default()
        .with_error_code(code.code())
        .with_error_message(Some(text(code)))
        .with_responses(responses)
}

async fn list_partition_reassignments(
    request: &ListPartitionReassignmentsRequest,
    code: ErrorCode,
    _: i16,
) -> ListPartitionReassignmentsResponse {
    let (mut topics, mut rests) = (Vec::new(), Rests::new());
    for topic in request.topics.iter().flatten() {
        let partitions = each(&topic.partition_indexes, |index| {
            OngoingPartitionReassignment::default().with_partition_index(*index)
        });
        let named = OngoingTopicReassignment::default().with_name(topic.name.clone());
        topics.push(named.with_partitions(partitions.await));
        rests.item().await;
    }
    ListPartitionReassignmentsResponse::default()
        .with_error_code(code.code())
        .with_error_message(Some(text(code)))
        .with_topics(topics)
}

async fn alter_client_quotas(
    request: &AlterClientQuotasRequest,
    code: ErrorCode,
    _: i16,
) -> AlterClientQuotasResponse {
    let entries = each(&request.entries, |entry| {
        let entity = entry.entity.iter().map(|part| {
            quotas::EntityData::default()
                .with_entity_type(part.entity_type.clone())
                .with_entity_name(part.entity_name.clone())
        });
        quotas::EntryData::default()
            .with_entity(entity.collect())
            .with_error_code(code.code())
            .with_error_message(Some(text(code)))
    });
    AlterClientQuotasResponse::default().with_entries(entries.await)
}

/// As in Kafka, each user that was named has a result, and none has a name.
async fn describe_user_scram_credentials(
    request: &DescribeUserScramCredentialsRequest,
    code: ErrorCode,
    _: i16,
) -> DescribeUserScramCredentialsResponse {
    let result = DescribeUserScramCredentialsResult::default()
        .with_error_code(code.code())
        .with_error_message(None);
    let results = each(request.users.iter().flatten(), |_| result.clone());
    DescribeUserScramCredentialsResponse::default()
        .with_error_code(code.code())
        .with_error_message(None)
        .with_results(results.await)
}

async fn alter_user_scram_credentials(
    request: &AlterUserScramCredentialsRequest,
    code: ErrorCode,
    _: i16,
) -> AlterUserScramCredentialsResponse {
    let (mut users, mut rests) = (BTreeSet::new(), Rests::new());
    let deleted = request.deletions.iter().map(|one| &one.name);
    let set = request.upsertions.iter().map(|one| &one.name);
    for user in deleted.chain(set) {
        users.insert(user);
        rests.item().await;
    }
    let results = each(users, |user| {
        AlterUserScramCredentialsResult::default()
            .with_user(user.clone())
            .with_error_code(code.code())
            .with_error_message(Some(text(code)))
    });
    AlterUserScramCredentialsResponse::default().with_results(results.await)
}
