//! The requests of a login, as Kafka answers them (KIP-43, KIP-152, KIP-368): ApiVersions once,
//! `SaslHandshake`, then the bytes of the mechanism, in `SaslAuthenticate` or, after version 0 of
//! `SaslHandshake`, as frames by themselves.
//!
//! Invariants: what a client sends is judged in the first poll of its reply, because the request
//! before it may end or begin a login. Any other request before the login is complete closes the
//! connection, unparsed. After a failure the response and the end of the connection wait, and the
//! client learns no more than from Kafka. A login charges no quota: a client that is not logged in
//! could use up another's. Not here: the stages of a login (`session.rs`), its deadline and the
//! bound on its frames (the connection).

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::Platform;
use wire::acl::Principal;
use wire::error::DecodeError;
use wire::kafka::shape::decoded_bytes;
use wire::kafka::{self, Api, Request, RequestHeader, Response};
use wire::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};
use wire::protocol::{Encodable, StrBytes};
use wire::sasl::{Mechanism, Refusal};
use wire::types::ErrorCode;

use super::errors::{self, Errors};
use super::reply::{CloseReason, LoginFailure, Reply, ReplyFuture};
use super::request;
use super::row::Row;
use crate::Broker;
use crate::bulk::is_large;
use crate::handler::Context;
use crate::quota::RequestTime;
use crate::session::{Admission, Exchange, ProvenUser, Stage, Turn};

/// Most memory of a decoded request beyond its frame. Those of a login are small: 512 KiB of tagged
/// fields, which no login needs, would keep a shard for 30 ms.
const DECODED_BYTES_MAX: usize = 64 << 10;

/// Runs a request of a client that was logged in when it was read, though not for good.
pub(super) async fn admitted<P: Platform>(
    broker: Rc<Broker<P>>,
    context: Context,
    frame: Bytes,
    (api, reply): (Option<Api>, ReplyFuture),
) -> Reply {
    let now = broker.platform.clock().now();
    let is_handshake = api == Some(Api::SaslHandshake);
    match context.session.admit(is_handshake, now) {
        Admission::Login => {
            drop(reply);
            // Boxed, because few requests of a client that is logged in are of a login.
            Box::pin(answer(broker, context, frame)).await
        }
        Admission::Handled => {
            // Its handler frees the memory of the frame when it can.
            drop((frame, context));
            reply.await
        }
        Admission::Expired => {
            let failure = LoginFailure::Expired;
            broker.options.audit.login_failed(&context, &failure);
            Reply::Close(Box::new(failure.into()))
        }
    }
}

/// Answers what a client sends that was not logged in when it was read.
pub(super) async fn answer<P: Platform>(
    broker: Rc<Broker<P>>,
    context: Context,
    frame: Bytes,
) -> Reply {
    if context.session.is_logged_in() {
        let parsed = request(&broker, context.clone(), &frame);
        let parsed = (parsed.api, parsed.reply);
        return Box::pin(admitted(broker, context, frame, parsed)).await;
    }
    let step = Step {
        broker: &broker,
        context: &context,
    };
    // As other large requests: the others have their share of the thread.
    let outcome = if is_large(Api::SaslAuthenticate, frame.len()) {
        let (clock, peer) = (broker.platform.clock(), context.peer.ip());
        broker.bulk.paced(clock, peer, step.go_on(&frame)).await
    } else {
        broker.bulk.note_other();
        step.go_on(&frame).await
    };
    match outcome {
        Ok(reply) => reply,
        Err(FailedLogin {
            response,
            reason,
            is_noted,
        }) => {
            if let CloseReason::Login(failure) = &reason
                && !is_noted
            {
                broker.options.audit.login_failed(&context, failure);
            }
            let delay = context
                .session
                .login()
                .map_or(Duration::ZERO, |login| login.failure_delay);
            broker.platform.clock().sleep(delay).await;
            match response {
                Some(response) => Reply::Last(response, Box::new(reason)),
                None => Reply::Close(Box::new(reason)),
            }
        }
    }
}

/// A login that has failed, with the response that says so, if there is one.
struct FailedLogin {
    response: Option<Response>,
    reason: CloseReason,
    /// The audit has it: the client confirms what it was told before.
    is_noted: bool,
}

impl<T: Into<CloseReason>> From<T> for FailedLogin {
    fn from(reason: T) -> Self {
        Self {
            response: None,
            reason: reason.into(),
            is_noted: false,
        }
    }
}

/// One frame of a login.
struct Step<'a, P: Platform> {
    broker: &'a Rc<Broker<P>>,
    context: &'a Context,
}

impl<P: Platform> Step<'_, P> {
    /// Takes what is due. The client is not logged in yet.
    async fn go_on(&self, frame: &Bytes) -> Result<Reply, FailedLogin> {
        match self.context.session.take_stage() {
            stage @ (Stage::Greeting | Stage::Handshake) => self.greeting(&stage, frame).await,
            Stage::Tokens { exchange, framed } if framed => self.framed(exchange, frame),
            Stage::Tokens { exchange, .. } => self.bare(exchange, frame),
            Stage::OtherMechanism => Err(LoginFailure::OtherMechanism.into()),
            Stage::Done(_) => unreachable!("looked at by the caller"),
            Stage::Failed => Err(LoginFailure::After.into()),
        }
    }

    /// Takes ApiVersions or `SaslHandshake`.
    async fn greeting(&self, stage: &Stage, frame: &Bytes) -> Result<Reply, FailedLogin> {
        let asked = Request::parse(frame).map_err(CloseReason::from)?;
        match (asked.header.api, stage) {
            (Api::SaslHandshake, _) => self.handshake(asked),
            (Api::ApiVersions, Stage::Greeting) => {
                let is_known = !asked.is_unknown_api_versions();
                if is_known {
                    check_size(&asked.header, &asked.body)?;
                }
                let says_software = asked.header.version >= 3;
                let (broker, row) = (self.broker, Row::of(Api::ApiVersions));
                let busy = RequestTime::default();
                let answer = super::answer(broker, self.context, &busy, row, asked);
                let reply = Box::pin(answer).await.map_err(|reason| *reason)?;
                // Refused: the client may ask again.
                let is_named = !self.context.software.borrow().name.is_empty();
                let is_taken = is_known && (is_named || !says_software);
                let next = if is_taken {
                    Stage::Handshake
                } else {
                    Stage::Greeting
                };
                self.context.session.put(next);
                Ok(reply)
            }
            (api, _) => Err(LoginFailure::Unexpected(api).into()),
        }
    }

    fn handshake(&self, Request { header, body }: Request) -> Result<Reply, FailedLogin> {
        let asked: SaslHandshakeRequest = decoded(&header, &body)?;
        let session = &self.context.session;
        let login = session.login().ok_or(LoginFailure::After)?;
        let names = login.mechanisms.iter();
        let names = names.map(|it| StrBytes::from_static_str(it.mechanism.name()));
        let response = SaslHandshakeResponse::default().with_mechanisms(names.collect());
        let wanted = Mechanism::from_name(&asked.mechanism);
        let wanted = wanted.filter(|wanted| login.of(*wanted).is_some());
        let Some(wanted) = wanted else {
            let code = ErrorCode::UnsupportedSaslMechanism.code();
            let response = self.encoded(&header, &response.with_error_code(code))?;
            return Err(FailedLogin {
                response: Some(response),
                reason: LoginFailure::Mechanism.into(),
                is_noted: false,
            });
        };
        session.put(
            if session.mechanism().is_none_or(|before| before == wanted) {
                Stage::Tokens {
                    exchange: Exchange::begin(wanted),
                    framed: header.version >= 1,
                }
            } else {
                Stage::OtherMechanism
            },
        );
        Ok(Reply::Send(self.encoded(&header, &response)?))
    }

    /// Takes bytes of a mechanism in a `SaslAuthenticate`.
    fn framed(&self, exchange: Exchange, frame: &Bytes) -> Result<Reply, FailedLogin> {
        let Request { header, body } = Request::parse(frame).map_err(CloseReason::from)?;
        if header.api != Api::SaslAuthenticate {
            return Err(LoginFailure::Unexpected(header.api).into());
        }
        let asked: SaslAuthenticateRequest = decoded(&header, &body)?;
        let response = SaslAuthenticateResponse::default();
        match self.step(exchange, true, &asked.auth_bytes) {
            Ok(ExchangeAnswer { bytes, lifetime }) => {
                let mut response = response.with_auth_bytes(bytes.into());
                if header.version >= 1 {
                    // The setting has milliseconds of 63 bits: longer ones are for ever.
                    let lifetime = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
                    response = response.with_session_lifetime_ms(lifetime);
                }
                Ok(Reply::Send(self.encoded(&header, &response)?))
            }
            Err(RefusedExchange {
                told,
                failure,
                is_noted,
            }) => {
                let response = response
                    .with_error_code(ErrorCode::SaslAuthenticationFailed.code())
                    .with_error_message(Some(StrBytes::from_string(told)));
                Err(FailedLogin {
                    response: Some(self.encoded(&header, &response)?),
                    reason: failure.into(),
                    is_noted,
                })
            }
        }
    }

    /// Takes bytes of a mechanism that are a frame by themselves.
    fn bare(&self, exchange: Exchange, frame: &Bytes) -> Result<Reply, FailedLogin> {
        match self.step(exchange, false, frame) {
            Ok(ExchangeAnswer { bytes, .. }) => {
                let Ok(length) = i32::try_from(bytes.len()) else {
                    unreachable!("a mechanism says at most `MESSAGE_BYTES_MAX`")
                };
                let prefix = Bytes::copy_from_slice(&length.to_be_bytes());
                let segments = [prefix, bytes.into()];
                let segments = segments.into_iter().filter(|segment| !segment.is_empty());
                Ok(Reply::Send(Response::new(segments.collect())))
            }
            Err(RefusedExchange {
                failure, is_noted, ..
            }) => Err(FailedLogin {
                response: None,
                reason: failure.into(),
                is_noted,
            }),
        }
    }

    /// Takes bytes of a mechanism.
    fn step(
        &self,
        exchange: Exchange,
        framed: bool,
        bytes: &[u8],
    ) -> Result<ExchangeAnswer, RefusedExchange> {
        let (session, mechanism) = (&self.context.session, exchange.mechanism());
        let random = || self.broker.platform.random_u64();
        let users = (&self.broker.users, &*self.context.listener);
        let wall_ms = self.broker.platform.clock().wall_ms();
        let is_noted = exchange.rejection().is_some();
        let turn = exchange.step(bytes, users, &self.broker.image(), wall_ms, random);
        let refused = |refusal: Refusal| RefusedExchange {
            told: refusal.told(mechanism, session.is_again()).into_owned(),
            failure: LoginFailure::Refused(mechanism, refusal),
            is_noted,
        };
        match turn.map_err(refused)? {
            Turn::Next(exchange, bytes) => {
                session.put(Stage::Tokens { exchange, framed });
                // Noted now: a client may leave instead of confirming it.
                if let Some(failure) = LoginFailure::unconfirmed(session) {
                    self.broker
                        .options
                        .audit
                        .login_failed(self.context, &failure);
                }
                Ok(ExchangeAnswer {
                    bytes,
                    lifetime: Duration::ZERO,
                })
            }
            Turn::Done(mut known) => {
                let bytes = std::mem::take(&mut known.reply);
                let lifetime = self.logged_in(mechanism, &known, wall_ms)?;
                Ok(ExchangeAnswer { bytes, lifetime })
            }
        }
    }

    /// Completes a login; returns how long the session lasts, or zero.
    fn logged_in(
        &self,
        mechanism: Mechanism,
        known: &ProvenUser,
        wall_ms: i64,
    ) -> Result<Duration, RefusedExchange> {
        let session = &self.context.session;
        let (before, principal) = (session.principal(), Principal::user(&known.name));
        if session.is_again() && before != principal {
            let shown = |one: &Principal| format!("{}.{}", one.kind(), one.name());
            let (before, now) = (shown(&before), shown(&principal));
            return Err(RefusedExchange {
                told: format!(
                    "Cannot change principals during re-authentication from {before}: {now}"
                ),
                failure: LoginFailure::OtherPrincipal,
                is_noted: false,
            });
        }
        let row = session.login().and_then(|login| login.of(mechanism));
        let lifetime = row.and_then(|row| row.session_max);
        // As in Kafka: a token that has expired within the allowed skew of clocks ends its session
        // at once, and the response names no end.
        let left = known.expires_ms.map(|expires_ms| {
            let left = expires_ms.saturating_sub(wall_ms);
            Duration::from_millis(u64::try_from(left).unwrap_or(0))
        });
        let lifetime = lifetime.map_or(left, |most| Some(left.map_or(most, |left| left.min(most))));
        let until = lifetime.map(|lifetime| self.broker.platform.clock().after(lifetime));
        let audit = &self.broker.options.audit;
        audit.logged_in(self.context, mechanism, &principal);
        session.logged_in(mechanism, principal, until);
        Ok(lifetime.unwrap_or_default())
    }

    fn encoded<R: Encodable + Errors>(
        &self,
        header: &RequestHeader,
        response: &R,
    ) -> Result<Response, CloseReason> {
        errors::count(&self.broker.metrics, header.api, response);
        let (version, id) = (header.version, header.correlation_id);
        Ok(kafka::encode_response(header.api, version, id, response)?)
    }
}

/// The answer to right bytes of a client.
struct ExchangeAnswer {
    bytes: Vec<u8>,
    lifetime: Duration,
}

/// The answer to wrong bytes, and the reason for the log.
struct RefusedExchange {
    told: String,
    failure: LoginFailure,
    is_noted: bool,
}

/// Refuses a request that takes long to decode.
fn check_size(header: &RequestHeader, body: &Bytes) -> Result<(), CloseReason> {
    let checked = decoded_bytes(header.api, header.version, body).and_then(|bytes| {
        let bytes_max = DECODED_BYTES_MAX;
        let is_small = bytes <= bytes_max;
        is_small
            .then_some(())
            .ok_or(DecodeError::TooMuchMemory { bytes, bytes_max })
    });
    checked.map_err(|source| CloseReason::malformed(header, source))
}

fn decoded<T: wire::protocol::Request>(
    header: &RequestHeader,
    body: &Bytes,
) -> Result<T, CloseReason> {
    kafka::decode_request(header.version, body, DECODED_BYTES_MAX)
        .map_err(|source| CloseReason::malformed(header, source))
}
