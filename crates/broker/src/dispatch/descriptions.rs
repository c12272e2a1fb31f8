//! Requests that the image answers, but that need more of the broker than the image.

use platform::Platform;
use wire::acl::{CLUSTER_NAME, Operation, ResourceType};
use wire::kafka::NewestVersion;
use wire::messages::{
    DescribeClientQuotasRequest, DescribeClientQuotasResponse, DescribeClusterRequest,
    DescribeClusterResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse, DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse, ListConfigResourcesRequest, ListConfigResourcesResponse,
    MetadataRequest, MetadataResponse,
};
use wire::protocol::Encodable;
use wire::types::ErrorCode;

use super::call::Call;
use crate::controller::Rules;
use crate::handler;
use crate::handler::metadata::TooMany;
use crate::room::Room;

/// Describes topics, and creates those that a client asks for by name.
pub(super) async fn metadata<P: Platform>(
    call: &Call<'_, P>,
    request: MetadataRequest,
) -> MetadataResponse {
    let (broker, version, access) = (call.broker, call.header.version, call.access());
    let creates = broker.options.auto_create_topics;
    if creates {
        let rules = Rules {
            image: &broker.image(),
            options: &broker.options,
        };
        match handler::metadata::missing(rules, &access, &request, version).await {
            Ok(missing) if missing.is_empty() => {}
            Ok(missing) => broker.create_asked(call.ip(), missing).await,
            Err(TooMany(topics)) => {
                let now = broker.platform.clock().now();
                broker.making.warn_too_many(topics, now);
            }
        }
    }
    let image = broker.image();
    // A creation takes time. By the ACLs of the same image as the topics; `None` if they have not
    // changed, and the rights have not either.
    let renewed = access.renewed(&image);
    let asked = handler::metadata::MetadataQuery {
        listener: &call.context.listener,
        cluster_id: &broker.log_dirs.cluster_id,
        node: broker.options.node_id,
        version,
        access: renewed.as_ref().unwrap_or(&access),
        creates,
    };
    handler::metadata::handle(&image, asked, &request).await
}

pub(super) fn cluster<P: Platform>(
    call: &Call<'_, P>,
    request: &DescribeClusterRequest,
) -> DescribeClusterResponse {
    let (broker, listener) = (call.broker, &call.context.listener);
    let cluster_id = &broker.log_dirs.cluster_id;
    let (node, version) = (broker.options.node_id, call.header.version);
    handler::describe_cluster::handle(
        &broker.image(),
        &call.access(),
        listener,
        cluster_id,
        node,
        request,
        version,
    )
}

pub(super) async fn topic_partitions<P: Platform>(
    call: &Call<'_, P>,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    use handler::describe_topic_partitions::{handle, refuse};
    let image = call.broker.image();
    let described = handle(&image, &call.access(), &call.context.listener, &request).await;
    described.unwrap_or_else(|code| refuse(&request, code))
}

/// Describes log directories, to a client that may still describe the cluster when their disks have
/// answered.
pub(super) async fn log_dirs<P: Platform>(
    call: &Call<'_, P>,
    request: NewestVersion<DescribeLogDirsRequest>,
) -> NewestVersion<DescribeLogDirsResponse> {
    let (broker, access) = (call.broker, call.access());
    let told = handler::describe_log_dirs::handle(broker, request.message).await;
    if access.has_lost(
        broker,
        Operation::Describe,
        ResourceType::Cluster,
        CLUSTER_NAME,
    ) {
        let code = ErrorCode::ClusterAuthorizationFailed.code();
        return DescribeLogDirsResponse::default()
            .with_error_code(code)
            .into();
    }
    told
}

pub(super) async fn configs<P: Platform>(
    call: &Call<'_, P>,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let rules = Rules {
        image: &call.broker.image(),
        options: &call.broker.options,
    };
    let room = Room::of(&call.broker.answers, call.ip());
    let (access, version) = (call.access(), call.header.version);
    handler::describe_configs::handle(rules, &access, &request, version, &room).await
}

pub(super) fn client_quotas<P: Platform>(
    call: &Call<'_, P>,
    request: &DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse {
    let told = handler::describe_client_quotas::handle(&call.broker.image(), request);
    within(call, told, |code| {
        let refused = DescribeClientQuotasResponse::default();
        refused.with_error_code(code.code()).with_entries(None)
    })
}

pub(super) async fn user_scram_credentials<P: Platform>(
    call: &Call<'_, P>,
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse {
    let image = call.broker.image();
    let told = handler::describe_user_scram_credentials::handle(&image, &request).await;
    within(call, told, |code| {
        DescribeUserScramCredentialsResponse::default().with_error_code(code.code())
    })
}

pub(super) fn config_resources<P: Platform>(
    call: &Call<'_, P>,
    request: &ListConfigResourcesRequest,
) -> ListConfigResourcesResponse {
    let (image, version) = (call.broker.image(), call.header.version);
    let told = handler::list_config_resources::handle(&image, request, version);
    within(call, told, |code| {
        ListConfigResourcesResponse::default().with_error_code(code.code())
    })
}

pub(super) async fn acls<P: Platform>(
    call: &Call<'_, P>,
    request: wire::messages::DescribeAclsRequest,
) -> wire::messages::DescribeAclsResponse {
    let broker = call.broker;
    if broker.options.authorizer.is_none() {
        return handler::acls::disabled();
    }
    let room = Room::of_list(&broker.answers, call.ip());
    handler::acls::describe(&broker.image(), &request, &room).await
}

/// Returns a response about all entities, whose size their bounds limit, or a refusal if there is
/// no room for it among the responses in memory.
fn within<P: Platform, R: Encodable>(
    call: &Call<'_, P>,
    told: R,
    refused: impl FnOnce(ErrorCode) -> R,
) -> R {
    let room = Room::of_list(&call.broker.answers, call.ip());
    // A response whose size cannot be computed cannot be sent.
    let bytes = told.compute_size(call.header.version).unwrap_or(usize::MAX);
    if room.has(bytes) {
        told
    } else {
        refused(room.refusal())
    }
}
