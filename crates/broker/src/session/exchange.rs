//! The bytes of one login: each mechanism as the steps that `wire::sasl` has for it, with the users
//! that this broker knows.
//!
//! Invariant: a step consumes the exchange, so nothing goes on after a failure. Unknown users take
//! the steps of known ones. Not here: frames, delays, the answer to a failure.

use wire::sasl::oauthbearer::{InitialResponse, RejectedLogin};
use wire::sasl::scram::{self, ClientFirst, ScramHash};
use wire::sasl::{Mechanism, Refusal, plain};

use super::tokens::TokenFault;
use super::users::{Users, known, nonce};
use crate::image::Image;

/// An exchange between a client and this broker.
#[derive(Debug)]
pub(crate) enum Exchange {
    /// The message of PLAIN is due.
    Plain,
    /// The first message of SCRAM is due.
    ScramFirst(ScramHash),
    /// The proof of SCRAM is due.
    ScramProof(Box<scram::Server>),
    /// The message of OAUTHBEARER is due.
    Token,
    /// The client has to confirm that its token is not accepted, for this reason.
    TokenRejected(RejectedLogin, TokenFault),
}

/// What follows from a message of the client.
#[derive(Debug)]
pub(crate) enum Turn {
    /// These bytes are sent, and another message is due.
    Next(Exchange, Vec<u8>),
    /// The exchange has succeeded.
    Done(ProvenUser),
}

/// A client that has shown who it is.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct ProvenUser {
    /// The name of the user.
    pub(crate) name: String,
    /// What is sent.
    pub(crate) reply: Vec<u8>,
    /// When what the client has shown expires, as wall-clock milliseconds; `None` for never.
    pub(crate) expires_ms: Option<i64>,
}

impl ProvenUser {
    fn always(name: String, reply: Vec<u8>) -> Turn {
        Turn::Done(Self {
            name,
            reply,
            expires_ms: None,
        })
    }
}

impl Exchange {
    /// Begins an exchange.
    pub(crate) fn begin(mechanism: Mechanism) -> Self {
        match mechanism {
            Mechanism::Plain => Self::Plain,
            Mechanism::Scram(hash) => Self::ScramFirst(hash),
            Mechanism::Oauthbearer => Self::Token,
        }
    }

    /// Returns the mechanism.
    pub(crate) fn mechanism(&self) -> Mechanism {
        match self {
            Self::Plain => Mechanism::Plain,
            Self::ScramFirst(hash) => Mechanism::Scram(*hash),
            Self::ScramProof(server) => Mechanism::Scram(server.hash()),
            Self::Token | Self::TokenRejected(..) => Mechanism::Oauthbearer,
        }
    }

    /// Returns why a token is not accepted, if the client still has to confirm that.
    pub(crate) fn rejection(&self) -> Option<Refusal> {
        match self {
            Self::TokenRejected(_, fault) => Some(Refusal::BadToken { why: fault.words() }),
            _ => None,
        }
    }

    /// Takes a message of the client at a listener, at this time of the wall clock.
    pub(crate) fn step(
        self,
        bytes: &[u8],
        (users, listener): (&Users, &str),
        image: &Image,
        wall_ms: i64,
        random: impl FnMut() -> u64,
    ) -> Result<Turn, Refusal> {
        match self {
            Self::Plain => {
                let login = plain::Login::parse(bytes)?;
                Ok(ProvenUser::always(
                    users.verify(listener, login)?,
                    Vec::new(),
                ))
            }
            Self::ScramFirst(hash) => {
                let first = ClientFirst::parse(bytes)?;
                let known = known(image, hash, first.name());
                let decoy = users.decoy(image);
                let nonce = nonce(random);
                let (server, answer) =
                    scram::Server::answer(hash, first, nonce, known.as_ref(), &decoy);
                Ok(Turn::Next(Self::ScramProof(Box::new(server)), answer))
            }
            Self::ScramProof(server) => {
                let accepted = server.finish(bytes)?;
                Ok(ProvenUser::always(accepted.name, accepted.reply))
            }
            Self::Token => {
                let initial = InitialResponse::parse(bytes)?;
                match users.owner(listener, initial.token(), wall_ms) {
                    Ok(owner) => {
                        initial.accept(&owner.name)?;
                        Ok(Turn::Done(ProvenUser {
                            name: owner.name,
                            reply: Vec::new(),
                            expires_ms: Some(owner.expires_ms),
                        }))
                    }
                    Err(fault) => {
                        let (rejected, answer) = initial.reject();
                        Ok(Turn::Next(
                            Self::TokenRejected(rejected, fault),
                            answer.to_vec(),
                        ))
                    }
                }
            }
            Self::TokenRejected(rejected, fault) => Err(match rejected.finish(bytes) {
                Refusal::Token => Refusal::BadToken { why: fault.words() },
                other => other,
            }),
        }
    }
}
