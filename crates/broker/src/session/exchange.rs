//! The bytes of one login: each mechanism as the steps that `wire::sasl` has for it, with the users
//! that this broker knows.
//!
//! Invariant: a step consumes the exchange, so nothing goes on after a failure. Unknown users take
//! the steps of known ones. Not here: frames, delays, the answer to a failure.

use wire::sasl::scram::{self, ClientFirst, ScramHash};
use wire::sasl::{Mechanism, Refusal, plain};

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
}

/// What follows from a message of the client.
#[derive(Debug)]
pub(crate) enum Turn {
    /// These bytes are sent, and another message is due.
    Next(Exchange, Vec<u8>),
    /// The client is the user of this name; these bytes are sent.
    Done(String, Vec<u8>),
}

impl Exchange {
    /// Begins an exchange; `None` for a mechanism that is not served.
    pub(crate) fn begin(mechanism: Mechanism) -> Option<Self> {
        match mechanism {
            Mechanism::Plain => Some(Self::Plain),
            Mechanism::Scram(hash) => Some(Self::ScramFirst(hash)),
            Mechanism::Oauthbearer => None,
        }
    }

    /// Returns the mechanism.
    pub(crate) fn mechanism(&self) -> Mechanism {
        match self {
            Self::Plain => Mechanism::Plain,
            Self::ScramFirst(hash) => Mechanism::Scram(*hash),
            Self::ScramProof(server) => Mechanism::Scram(server.hash()),
        }
    }

    /// Takes a message of the client at a listener.
    pub(crate) fn step(
        self,
        bytes: &[u8],
        (users, listener): (&Users, &str),
        image: &Image,
        random: impl FnMut() -> u64,
    ) -> Result<Turn, Refusal> {
        match self {
            Self::Plain => {
                let login = plain::Login::parse(bytes)?;
                Ok(Turn::Done(users.verify(listener, login)?, Vec::new()))
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
                Ok(Turn::Done(accepted.name, accepted.reply))
            }
        }
    }
}
