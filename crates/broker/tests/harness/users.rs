//! A broker that enforces ACLs: its users, who log in, and the ACLs that they are given.
//!
//! What the harness asks without a login is asked by a super user.

use std::future::Future;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use broker::authorizer::{Authorizer, AuthorizerMode};
use broker::dispatch::{Reply, Service, call};
use broker::handler::Context;
use broker::session::{LoginOptions, MechanismOptions, SecurityProtocol, Session};
use bytes::Bytes;
use wire::StrBytes;
use wire::acl::{CLUSTER_NAME, Operation, Policy, Principal, ResourceType};
use wire::messages::create_acls_request::AclCreation;
use wire::messages::delete_acls_request::DeleteAclsFilter;
use wire::messages::{
    CreateAclsRequest, DeleteAclsRequest, SaslAuthenticateRequest, SaslHandshakeRequest,
};
use wire::protocol::Request;
use wire::sasl::{Mechanism, Secret, plain};

use super::asks::text;
use super::client::{decode, frame};
use super::{Cluster, Setup};

const LISTENER: &str = "SAFE";
const PASSWORD: &str = "pencil";
const PORT: u16 = 50_000;
const NAMES: [&str; 2] = ["ada", "bob"];
const LITERAL: i8 = 3;
const ANY: i8 = 1;
const DENY: i8 = 2;
const ALLOW: i8 = 3;

/// What an ACL is about: the type and the name of a resource.
pub(crate) type Resource<'a> = (ResourceType, &'a str);

/// The only resource of its type.
pub(crate) const CLUSTER: Resource<'static> = (ResourceType::Cluster, CLUSTER_NAME);

/// The topic with this name.
pub(crate) const fn topic(name: &str) -> Resource<'_> {
    (ResourceType::Topic, name)
}

impl Setup {
    /// With the users `ada` and `bob`, who log in, and an authorizer.
    pub(crate) fn with_users(mut self) -> Self {
        let secret = |text: &str| Secret::new(text.to_owned());
        let users = NAMES.map(|name| (name.to_owned(), secret(PASSWORD)));
        let login = LoginOptions {
            mechanisms: vec![MechanismOptions {
                mechanism: Mechanism::Plain,
                session_max: None,
                users: users.into_iter().collect(),
                tokens: None,
            }],
            failure_delay: Duration::from_millis(100),
            frame_bytes_max: 1 << 19,
            time_max: Duration::from_secs(30),
        };
        let mut endpoint = self.options.endpoints[0].clone();
        endpoint.listener = LISTENER.into();
        endpoint.protocol = SecurityProtocol::SaslPlaintext;
        self.options.endpoints.push(endpoint);
        self.options.logins = [(LISTENER.to_owned(), Arc::new(login))].into();
        self.authorized(AuthorizerMode::Enforce)
    }

    /// With an authorizer in this mode.
    pub(crate) fn authorized(mut self, mode: AuthorizerMode) -> Self {
        let policy = Policy {
            super_users: [Principal::anonymous()].into(),
            is_open_without_acl: false,
        };
        self.options.authorizer = Some(Arc::new(Authorizer { policy, mode }));
        self
    }
}

/// A connection of a user.
pub(crate) struct User<'a> {
    cluster: &'a Cluster,
    session: Rc<Session>,
}

impl<'a> User<'a> {
    /// Logs in.
    pub(crate) async fn login(cluster: &'a Cluster, name: &str) -> Self {
        let session = Rc::new(cluster.brokers[0].session(LISTENER));
        let user = Self { cluster, session };
        let mechanism = StrBytes::from_static_str(Mechanism::Plain.name());
        let handshake = SaslHandshakeRequest::default().with_mechanism(mechanism);
        assert_eq!(user.ask(1, &handshake).await.error_code, 0);
        let message = plain::message(name, &Secret::new(PASSWORD.to_owned())).expect("a message");
        let bytes = Bytes::copy_from_slice(message.expose());
        let token = SaslAuthenticateRequest::default().with_auth_bytes(bytes);
        assert_eq!(user.ask(2, &token).await.error_code, 0, "{name}");
        user
    }

    /// The fate of a frame.
    pub(crate) fn reply(&self, frame: &Bytes) -> impl Future<Output = Reply> + 'static + use<> {
        self.reply_at(PORT, frame)
    }

    /// The fate of a frame of another connection of the same user.
    pub(crate) fn reply_at(
        &self,
        port: u16,
        frame: &Bytes,
    ) -> impl Future<Output = Reply> + 'static + use<> {
        let peer: IpAddr = [127, 0, 0, 1].into();
        let context = Context {
            listener: LISTENER.into(),
            peer: (peer, port).into(),
            software: Rc::default(),
            session: Rc::clone(&self.session),
            client_id: StrBytes::default(),
            frame_bytes: frame.len(),
        };
        call(&self.cluster.brokers[0], context, frame).reply
    }

    pub(crate) async fn ask<R: Request>(&self, version: i16, request: &R) -> R::Response {
        self.asking(version, request).await
    }

    /// The same for a task of its own.
    pub(crate) fn asking<R: Request>(
        &self,
        version: i16,
        request: &R,
    ) -> impl Future<Output = R::Response> + 'static + use<R> {
        let reply = self.reply(&frame(version, request));
        async move { decode::<R>(version, reply.await) }
    }
}

impl Cluster {
    /// Gives a user a right.
    pub(crate) async fn allow(&self, name: &str, operation: Operation, resource: Resource<'_>) {
        self.creating_acl(name, operation, resource, ALLOW).await;
    }

    /// Denies a user what other ACLs may permit.
    pub(crate) async fn deny(&self, name: &str, operation: Operation, resource: Resource<'_>) {
        self.denying(name, operation, resource).await;
    }

    /// The same for a task of its own.
    pub(crate) fn denying(
        &self,
        name: &str,
        operation: Operation,
        resource: Resource<'_>,
    ) -> impl Future<Output = ()> + 'static + use<> {
        self.creating_acl(name, operation, resource, DENY)
    }

    fn creating_acl(
        &self,
        name: &str,
        operation: Operation,
        (resource_type, resource): Resource<'_>,
        permission: i8,
    ) -> impl Future<Output = ()> + 'static + use<> {
        let acl = AclCreation::default()
            .with_resource_type(resource_type.code())
            .with_resource_name(text(resource))
            .with_resource_pattern_type(LITERAL)
            .with_principal(text(&format!("User:{name}")))
            .with_host(text("*"))
            .with_operation(operation.code())
            .with_permission_type(permission);
        let request = CreateAclsRequest::default().with_creations(vec![acl]);
        let asked = self.asking(0, 3, &request);
        async move {
            let results = asked.await.results;
            assert_eq!(results[0].error_code, 0, "{:?}", results[0].error_message);
        }
    }

    /// Removes all ACLs of a user on a resource.
    pub(crate) async fn remove_acls(&self, name: &str, (resource_type, resource): Resource<'_>) {
        let filter = DeleteAclsFilter::default()
            .with_resource_type_filter(resource_type.code())
            .with_resource_name_filter(Some(text(resource)))
            .with_pattern_type_filter(LITERAL)
            .with_principal_filter(Some(text(&format!("User:{name}"))))
            .with_host_filter(None)
            .with_operation(ANY)
            .with_permission_type(ANY);
        let request = DeleteAclsRequest::default().with_filters(vec![filter]);
        let results = self.ask(3, &request).await.filter_results;
        assert_eq!(results[0].error_code, 0);
        assert!(!results[0].matching_acls.is_empty(), "there were some");
    }
}
