use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::permit::SendPermit;
use crate::engine::{LaneId, Nanos};
use crate::guard::Target;
use crate::oauth::OauthClient;
use crate::permission::Permission;
use crate::sign::{ExtraHeader, Headers};
use crate::tls_files::TlsFiles;

#[derive(Clone, Debug)]
pub struct Destination {
    pub url: Target,
    /// In place of the common roots and no client certificate.
    pub tls: Option<Arc<TlsFiles>>,
    pub oauth: Option<Arc<OauthClient>>,
    pub permission: Option<Arc<Permission>>,
    /// How long a request that was given up may still leave this machine. The lane's limit relies on it.
    pub late_max: Nanos,
}

#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub lane: LaneId,
    pub target: &'a Destination,
    pub headers: &'a Headers,
    pub extra: &'a [ExtraHeader],
    pub body: &'a Arc<[u8]>,
    /// Limits everything: a free connection, name lookup, connecting, TLS, sending, and the whole answer.
    pub deadline: Duration,
    /// Its deadline is the end of `deadline`.
    pub permit: SendPermit,
    /// The limit for a new connection: name lookup, connecting and TLS.
    pub connect_deadline: Duration,
    pub connections_max: NonZeroU32,
}
