//! What an attempt is asked to do.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::permit::SendPermit;
use crate::engine::{LaneId, Nanos};
use crate::guard::Target;
use crate::sign::Headers;

/// Where a subscriber's attempts go, and what its limit takes for granted on the way there.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The URL.
    pub url: Target,
    /// For how long a request may still leave this machine after it was given up.
    pub late_max: Nanos,
}

/// One attempt.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Whose connections to use.
    pub lane: LaneId,
    /// Where to.
    pub target: &'a Destination,
    /// The signature and what goes with it.
    pub headers: &'a Headers,
    /// The body, as it is.
    pub body: &'a Arc<[u8]>,
    /// For everything: waiting for a connection, name lookup, connecting, TLS, sending, and the whole answer.
    pub deadline: Duration,
    /// Until when the attempt may be sent. The deadline in it is the moment at which `deadline` is over.
    pub permit: SendPermit,
    /// For a new connection: name lookup, connecting and TLS.
    pub connect_deadline: Duration,
    /// The most connections that the lane may have now.
    pub connections_max: NonZeroU32,
}
