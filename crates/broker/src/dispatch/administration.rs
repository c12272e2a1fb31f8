//! What administrators ask of one node: questions that the image answers, and its log directories.

use std::rc::Rc;

use platform::Platform;
use wire::kafka::{Api, Newest, Request};
use wire::messages::{
    DescribeClientQuotasResponse, DescribeUserScramCredentialsResponse, ListConfigResourcesResponse,
};
use wire::protocol::Encodable;
use wire::types::ErrorCode;

use super::table::elsewhere;
use super::{CloseReason, Reply, run, run_many};
use crate::Broker;
use crate::handler::{self, Context};
use crate::room::Room;

pub(super) async fn answer<P: Platform>(
    b: &Rc<Broker<P>>,
    c: &Context,
    request: Request,
) -> Result<Reply, CloseReason> {
    let image = b.image();
    match request.header.api {
        Api::AlterReplicaLogDirs => {
            run_many(b, c, request, async |r, place| {
                handler::alter_replica_log_dirs::handle(b, r, place).await
            })
            .await
        }
        Api::DescribeLogDirs => {
            run(request, async |r: Newest<_>| {
                handler::describe_log_dirs::handle(b, r.message).await
            })
            .await
        }
        Api::ElectLeaders => {
            run(request, async |r| {
                handler::elect_leaders::handle(&image, &r)
            })
            .await
        }
        Api::ListPartitionReassignments => {
            run(request, async |r| {
                handler::list_partition_reassignments::handle(&image, &r).await
            })
            .await
        }
        Api::GetTelemetrySubscriptions => {
            run(request, async |r| {
                handler::get_telemetry_subscriptions::handle(b, c, r).await
            })
            .await
        }
        Api::PushTelemetry => {
            run(request, async |r| {
                handler::push_telemetry::handle(b, c, r).await
            })
            .await
        }
        _ => lists(b, c, request).await,
    }
}

/// What the metadata keep of clients and settings.
async fn lists<P: Platform>(
    b: &Rc<Broker<P>>,
    c: &Context,
    request: Request,
) -> Result<Reply, CloseReason> {
    let v = request.header.version;
    let image = b.image();
    match request.header.api {
        Api::DescribeClientQuotas => {
            run(request, async |r| {
                let told = handler::describe_client_quotas::handle(&image, &r);
                within(b, c, v, told, |code| {
                    let refused = DescribeClientQuotasResponse::default();
                    refused.with_error_code(code.code()).with_entries(None)
                })
            })
            .await
        }
        Api::DescribeUserScramCredentials => {
            run(request, async |r| {
                let told = handler::describe_user_scram_credentials::handle(&image, &r).await;
                within(b, c, v, told, |code| {
                    let refused = DescribeUserScramCredentialsResponse::default();
                    refused.with_error_code(code.code())
                })
            })
            .await
        }
        Api::ListConfigResources => {
            run(request, async |r| {
                let told = handler::list_config_resources::handle(&image, &r, v);
                within(b, c, v, told, |code| {
                    ListConfigResourcesResponse::default().with_error_code(code.code())
                })
            })
            .await
        }
        api => elsewhere(api),
    }
}

/// An answer about all there is, which the bounds on that bound as well, if there is room for it on its way out.
fn within<P: Platform, R: Encodable>(
    broker: &Broker<P>,
    context: &Context,
    version: i16,
    told: R,
    refused: impl FnOnce(ErrorCode) -> R,
) -> R {
    let room = Room::of_list(&broker.answers, context.peer.ip());
    // What cannot be sized cannot be sent.
    let bytes = told.compute_size(version).unwrap_or(usize::MAX);
    if room.has(bytes) {
        told
    } else {
        refused(room.refusal())
    }
}
