//! Requests of administrators: for every API and version one that is granted, and one with
//! something in it that cannot be.

use bytes::Bytes;
use wire::kafka::{Api, NewestVersion};
use wire::messages::create_acls_request::AclCreation;
use wire::messages::delete_acls_request::DeleteAclsFilter;
use wire::messages::{
    AddRaftVoterRequest, AlterClientQuotasRequest, AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest, AlterUserScramCredentialsRequest, CreateAclsRequest,
    CreateDelegationTokenRequest, DeleteAclsRequest, DescribeAclsRequest,
    DescribeClientQuotasRequest, DescribeDelegationTokenRequest, DescribeQuorumRequest,
    DescribeUserScramCredentialsRequest, ElectLeadersRequest, ExpireDelegationTokenRequest,
    GetTelemetrySubscriptionsRequest, ListConfigResourcesRequest,
    ListPartitionReassignmentsRequest, PushTelemetryRequest, RemoveRaftVoterRequest,
    RenewDelegationTokenRequest, SaslAuthenticateRequest, SaslHandshakeRequest,
    UnregisterBrokerRequest, UpdateFeaturesRequest, alter_client_quotas_request as alter,
    alter_partition_reassignments_request as reassign, alter_replica_log_dirs_request as move_dirs,
    alter_user_scram_credentials_request as credentials,
    describe_client_quotas_request as describe, describe_quorum_request as quorum,
    describe_user_scram_credentials_request as scram, elect_leaders_request as elect,
    update_features_request as features,
};

use crate::harness::asks::{text, topic_name};
use crate::questions::{Question, ask};

/// `None` for what other requests are about.
pub(crate) fn question(api: Api, v: i16, granted: bool) -> Option<Question> {
    Some(match api {
        Api::DescribeClientQuotas => {
            const ANY: i8 = 2;
            let component = describe::ComponentData::default()
                .with_entity_type(text("user"))
                .with_match_type(if granted { ANY } else { 9 })
                .with_match(None);
            let request = DescribeClientQuotasRequest::default();
            ask(v, request.with_components(vec![component]))
        }
        Api::AlterClientQuotas => {
            let name = alter::EntityData::default()
                .with_entity_type(text("client-id"))
                .with_entity_name(Some(text("nobody")));
            let quota = if granted {
                "producer_byte_rate"
            } else {
                "speed"
            };
            let op = alter::OpData::default()
                .with_key(text(quota))
                .with_value(5.0);
            let entry = alter::EntryData::default()
                .with_entity(vec![name])
                .with_ops(vec![op]);
            let request = AlterClientQuotasRequest::default();
            ask(v, request.with_entries(vec![entry]))
        }
        Api::DescribeUserScramCredentials => {
            let user = scram::UserName::default().with_name(text("nobody"));
            let request = DescribeUserScramCredentialsRequest::default();
            ask(v, request.with_users((!granted).then(|| vec![user])))
        }
        Api::AlterReplicaLogDirs => {
            let topic = move_dirs::AlterReplicaLogDirTopic::default()
                .with_name(topic_name("t"))
                .with_partitions(vec![0]);
            let dir = move_dirs::AlterReplicaLogDir::default()
                .with_path(text(if granted { "/logs" } else { "/nowhere" }))
                .with_topics(vec![topic]);
            ask(
                v,
                AlterReplicaLogDirsRequest::default().with_dirs(vec![dir]),
            )
        }
        Api::ElectLeaders => {
            let topic = elect::TopicPartitions::default()
                .with_topic(topic_name("missing"))
                .with_partitions(vec![0]);
            let request = ElectLeadersRequest::default();
            ask(
                v,
                request.with_topic_partitions((!granted).then(|| vec![topic])),
            )
        }
        Api::AlterPartitionReassignments => {
            let partition = reassign::ReassignablePartition::default()
                .with_replicas(Some(vec![if granted { 1 } else { 9 }.into()]));
            let topic = reassign::ReassignableTopic::default()
                .with_name(topic_name("t"))
                .with_partitions(vec![partition]);
            let request = AlterPartitionReassignmentsRequest::default();
            ask(v, request.with_topics(vec![topic]))
        }
        Api::ListPartitionReassignments => ask(
            v,
            ListPartitionReassignmentsRequest::default().with_topics(None),
        ),
        Api::DescribeQuorum => {
            let topic = quorum::TopicData::default()
                .with_topic_name(topic_name(if granted { "__cluster_metadata" } else { "t" }))
                .with_partitions(vec![quorum::PartitionData::default()]);
            ask(v, DescribeQuorumRequest::default().with_topics(vec![topic]))
        }
        Api::UpdateFeatures => {
            let update = features::FeatureUpdateKey::default()
                .with_feature(text("group.version"))
                .with_max_version_level(if granted { 1 } else { 99 });
            let request = UpdateFeaturesRequest::default();
            ask(v, request.with_feature_updates(vec![update]))
        }
        Api::AlterUserScramCredentials => {
            let user = credentials::ScramCredentialUpsertion::default()
                .with_name(text("ada"))
                .with_mechanism(1)
                .with_iterations(if granted { 4096 } else { 1 })
                .with_salted_password(Bytes::from_static(&[7; 32]));
            let request = AlterUserScramCredentialsRequest::default();
            ask(v, request.with_upsertions(vec![user]))
        }
        Api::GetTelemetrySubscriptions => ask(v, GetTelemetrySubscriptionsRequest::default()),
        // No client has got a subscription.
        Api::PushTelemetry => ask(v, PushTelemetryRequest::default()),
        Api::SaslHandshake => ask(v, SaslHandshakeRequest::default()),
        Api::SaslAuthenticate => ask(v, SaslAuthenticateRequest::default()),
        Api::DescribeAcls => ask(v, DescribeAclsRequest::default()),
        Api::CreateAcls => {
            let request = CreateAclsRequest::default();
            ask(v, request.with_creations(vec![AclCreation::default()]))
        }
        Api::DeleteAcls => {
            let request = DeleteAclsRequest::default();
            ask(v, request.with_filters(vec![DeleteAclsFilter::default()]))
        }
        Api::CreateDelegationToken => ask(v, CreateDelegationTokenRequest::default()),
        Api::RenewDelegationToken => ask(v, RenewDelegationTokenRequest::default()),
        Api::ExpireDelegationToken => ask(v, ExpireDelegationTokenRequest::default()),
        Api::DescribeDelegationToken => ask(
            v,
            DescribeDelegationTokenRequest::default().with_owners(None),
        ),
        Api::UnregisterBroker => ask(
            v,
            UnregisterBrokerRequest::default().with_broker_id(77.into()),
        ),
        Api::AddRaftVoter => ask(v, NewestVersion::from(AddRaftVoterRequest::default())),
        Api::RemoveRaftVoter => ask(v, RemoveRaftVoterRequest::default()),
        Api::ListConfigResources => ask(v, ListConfigResourcesRequest::default()),
        _ => return None,
    })
}
