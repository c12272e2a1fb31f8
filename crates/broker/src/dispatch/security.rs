//! Who a client is and what it may do; and who belongs to the cluster.

use std::rc::Rc;

use platform::Platform;
use wire::kafka::{Api, Newest, Request};
use wire::messages::{
    DescribeAclsRequest, DescribeDelegationTokenRequest, ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest, SaslAuthenticateRequest, SaslHandshakeRequest,
};

use super::table::elsewhere;
use super::{CloseReason, Reply, controlled, run};
use crate::Broker;
use crate::handler::Context;
use crate::handler::{acls, delegation_tokens, raft_voters, sasl};

pub(super) async fn answer<P: Platform>(
    b: &Rc<Broker<P>>,
    c: &Context,
    request: Request,
) -> Result<Reply, CloseReason> {
    let v = request.header.version;
    let cluster_id = &b.log_dirs.cluster_id;
    match request.header.api {
        Api::SaslHandshake => run(request, async |_: SaslHandshakeRequest| sasl::handshake()).await,
        Api::SaslAuthenticate => {
            run(request, async |_: SaslAuthenticateRequest| {
                sasl::authenticate()
            })
            .await
        }
        Api::DescribeAcls => run(request, async |_: DescribeAclsRequest| acls::describe()).await,
        Api::CreateAcls => run(request, async |r| acls::create(&r)).await,
        Api::DeleteAcls => run(request, async |r| acls::delete(&r)).await,
        Api::CreateDelegationToken => {
            run(request, async |r| delegation_tokens::create(&r, v)).await
        }
        Api::RenewDelegationToken => {
            run(request, async |_: RenewDelegationTokenRequest| {
                delegation_tokens::renew()
            })
            .await
        }
        Api::ExpireDelegationToken => {
            run(request, async |_: ExpireDelegationTokenRequest| {
                delegation_tokens::expire()
            })
            .await
        }
        Api::DescribeDelegationToken => {
            run(request, async |_: DescribeDelegationTokenRequest| {
                delegation_tokens::describe()
            })
            .await
        }
        Api::AddRaftVoter => {
            run(request, async |r: Newest<_>| {
                Newest::from(raft_voters::add(&r.message, cluster_id))
            })
            .await
        }
        Api::RemoveRaftVoter => run(request, async |r| raft_voters::remove(&r, cluster_id)).await,
        Api::UnregisterBroker => {
            controlled(b, c, request, async |c, r| c.unregister_broker(&r).await).await
        }
        api => elsewhere(api),
    }
}
