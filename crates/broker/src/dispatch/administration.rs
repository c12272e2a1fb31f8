//! What administrators ask of one node: questions that the image answers, and its log directories.

use std::rc::Rc;

use platform::Platform;
use wire::kafka::{Api, Newest, Request};

use super::{CloseReason, Reply, run, run_many};
use crate::Broker;
use crate::handler::{self, Context};

pub(super) async fn answer<P: Platform>(
    b: &Rc<Broker<P>>,
    c: &Context,
    request: Request,
) -> Result<Reply, CloseReason> {
    let v = request.header.version;
    let image = b.image();
    match request.header.api {
        Api::DescribeClientQuotas => {
            run(request, async |r| {
                handler::describe_client_quotas::handle(&image, &r)
            })
            .await
        }
        Api::DescribeUserScramCredentials => {
            run(request, async |r| {
                handler::describe_user_scram_credentials::handle(&image, &r)
            })
            .await
        }
        Api::AlterReplicaLogDirs => {
            run_many(b, request, async |r| {
                handler::alter_replica_log_dirs::handle(b, r).await
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
                handler::list_partition_reassignments::handle(&image, &r)
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
        _ => {
            run(request, async |r| {
                handler::list_config_resources::handle(&image, &r, v)
            })
            .await
        }
    }
}
