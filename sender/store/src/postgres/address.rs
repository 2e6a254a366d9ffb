//! The address of a PostgreSQL database.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::{Client, Config};

use super::servers::{PassFile, Servers};
use super::tls::TlsRequest;
use crate::StoreError;
use crate::seal::Keyring;

/// Default limit for a server's answer, if the address sets no `tcp_user_timeout` (in seconds). Longer than the
/// server works on a statement.
const ANSWER_WITHIN: Duration = Duration::from_secs(12);

/// Lower limit. A commit's outcome is looked up after the server has given up the lost connection's transaction,
/// which takes 2 s.
const SHORTEST: Duration = Duration::from_secs(6);
/// Upper limit. Other programs read that setting as milliseconds.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct Address {
    servers: Arc<Servers>,
    shown: Arc<str>,
    answer_within: Duration,
    says_password: bool,
    keys: Keyring,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; expected postgres://USER:PASSWORD@HOST:PORT/DATABASE")]
pub struct BadAddress(String);

impl Address {
    pub const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

    pub(crate) async fn connect(&self, first: &str) -> Result<(Client, AbortHandle), StoreError> {
        self.servers.connect(first).await
    }

    /// The same address with a limit for each server's connection and for each answer.
    pub(super) fn within(&self, length: Duration) -> Self {
        Self { servers: Arc::new(self.servers.within(length / 2)), answer_within: length, ..self.clone() }
    }

    pub(crate) const fn keys(&self) -> &Keyring {
        &self.keys
    }

    pub(crate) fn with_keys(self, keys: Keyring) -> Self {
        Self { keys, ..self }
    }

    pub(crate) const fn says_password(&self) -> bool {
        self.says_password
    }

    pub(super) const fn answer_within(&self) -> Duration {
        self.answer_within
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        if !Self::SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
            return Err(BadAddress("it is not an address of a database".to_owned()));
        }
        if text.contains("%00") {
            return Err(BadAddress("it has a NUL (%00), which no server accepts".to_owned()));
        }
        let asked = TlsRequest::of(text).map_err(BadAddress)?;
        let mut config: Config = asked.rest.parse().map_err(|error| BadAddress(describe_error(&error)))?;
        // Overrides the rest of the address: TLS is either required or disabled.
        config.ssl_mode(if asked.tls.is_some() { SslMode::Require } else { SslMode::Disable });
        if config.get_application_name().is_none() {
            config.application_name("hookproof-sender");
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(ANSWER_WITHIN);
        }
        config.keepalives_idle(ANSWER_WITHIN);
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            let detail = "its target_session_attrs is read-only; give it read-write, or leave it out";
            return Err(BadAddress(detail.to_owned()));
        }
        let answer_within = config.get_tcp_user_timeout().copied().unwrap_or(ANSWER_WITHIN);
        let answer_within = answer_within.clamp(SHORTEST, LONGEST);
        let mut servers = Servers::of(&config, asked.tls).map_err(BadAddress)?;
        let says_password = config.get_password().is_some();
        let named = || std::env::var("PGPASSFILE").ok().filter(|path| !path.is_empty());
        if !says_password && let Some(path) = asked.passfile.or_else(named) {
            servers = servers.with_passwords(&PassFile::read(&path).map_err(BadAddress)?);
        }
        let shown = format!("postgres://{servers}/{}", config.get_dbname().unwrap_or_default());
        Ok(Self {
            servers: Arc::new(servers),
            shown: shown.into(),
            answer_within,
            says_password,
            keys: Keyring::default(),
        })
    }
}

/// Describes a bad address. It quotes only the names of known settings, because anything else may be part of a
/// password.
fn describe_error(error: &tokio_postgres::Error) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    let of_known = source.starts_with("invalid value for option");
    if of_known { source } else { "it has an unknown or incomplete setting".to_owned() }
}

/// Without the password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(place: &str) -> Result<Address, BadAddress> {
        format!("postgres://me:hush@{place}").parse()
    }

    #[test]
    fn a_bad_address_is_described_without_its_password() {
        for (place, words) in [
            ("a/hooks?target_session_attrs=read-only", "read-write"),
            ("a,b/hooks?target_session_attrs=read-only", "read-write"),
            ("/hooks", "names no host"),
        ] {
            let told = parse(place).unwrap_err().to_string();
            assert!(told.contains(words) && !told.contains("hush"), "{told}");
        }
    }

    #[test]
    fn a_process_that_works_without_a_connection_waits_less_for_each_answer() {
        let seconds = Duration::from_secs;
        let address = parse("a,b/hooks").unwrap();
        let hurried = address.within(seconds(2));
        assert_eq!((address.answer_within(), hurried.answer_within()), (seconds(12), seconds(2)));
        assert_eq!(hurried.to_string(), "postgres://a,b/hooks");
    }
}
