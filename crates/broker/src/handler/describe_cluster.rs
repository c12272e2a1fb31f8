//! `DescribeCluster` (key 60), versions 0-2: the nodes that serve clients of the listener.
//!
//! Version 1 added the endpoint type (brokers are 1, controllers 2), version 2 fenced brokers on
//! demand. Every client may ask; the response lists the operations that it may do on the cluster on
//! demand.

use wire::StrBytes;
use wire::acl;
use wire::messages::describe_cluster_response::DescribeClusterBroker;
use wire::messages::{DescribeClusterRequest, DescribeClusterResponse};
use wire::types::{ErrorCode, NodeId};

use crate::access::Access;
use crate::image::Image;

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

/// Answers a client that connected to `listener`.
pub(crate) fn handle(
    image: &Image,
    access: &Access,
    listener: &str,
    cluster_id: &str,
    node: NodeId,
    request: &DescribeClusterRequest,
    version: i16,
) -> DescribeClusterResponse {
    let kind = request.endpoint_type;
    if kind != BROKERS {
        let (code, message) = if kind == CONTROLLERS {
            let message = "The request was sent to an endpoint of type BROKER, \
                 but we wanted an endpoint of type CONTROLLER";
            (ErrorCode::MismatchedEndpointType, message.to_owned())
        } else {
            (
                ErrorCode::UnsupportedEndpointType,
                format!("Unsupported endpoint type {kind}"),
            )
        };
        let code = if version == 0 {
            ErrorCode::InvalidRequest
        } else {
            code
        };
        return DescribeClusterResponse::default()
            .with_error_code(code.code())
            .with_error_message(Some(StrBytes::from_string(message)));
    }
    let shown = image
        .brokers()
        .filter(|broker| !broker.fenced || request.include_fenced_brokers);
    let brokers: Vec<_> = shown
        .filter_map(|broker| {
            let endpoint = broker.endpoint(listener)?;
            Some(
                DescribeClusterBroker::default()
                    .with_broker_id(broker.id.into())
                    .with_host(StrBytes::from_string(endpoint.host.clone()))
                    .with_port(i32::from(endpoint.port))
                    .with_rack(broker.rack.clone().map(StrBytes::from_string))
                    .with_is_fenced(broker.fenced),
            )
        })
        .collect();
    let controller = if image.is_alive(node.0, listener) {
        node.0
    } else {
        -1
    };
    let operations = if request.include_cluster_authorized_operations {
        access.operations(acl::ResourceType::Cluster, acl::CLUSTER_NAME)
    } else {
        acl::NOT_ASKED
    };
    DescribeClusterResponse::default()
        .with_error_message(None)
        .with_endpoint_type(BROKERS)
        .with_cluster_id(StrBytes::from_string(cluster_id.to_owned()))
        .with_controller_id(controller.into())
        .with_brokers(brokers)
        .with_cluster_authorized_operations(operations)
}
