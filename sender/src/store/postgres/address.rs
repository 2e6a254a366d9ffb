//! Where a database is, as people write it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, NoTls, Socket};

use super::failure::failure;
use super::tls::{Asked, Tls};
use crate::store::StoreError;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long a server that was reached may take until it is ready for questions.
const READY_WITHIN: Duration = Duration::from_secs(5);
/// How long a server may take for an answer, if the address says nothing of it by `tcp_user_timeout`, in seconds: longer than it
/// works on any statement.
const ANSWER_WITHIN: Duration = Duration::from_secs(12);

/// No shorter: whether a commit happened is asked once the server has given up the lost connection's transaction, after 2 s.
const SHORTEST: Duration = Duration::from_secs(6);
/// No longer: other programs take that setting for milliseconds.
const LONGEST: Duration = Duration::from_secs(60);

/// Where a database is.
#[derive(Clone)]
pub struct Address {
    config: Arc<Config>,
    tls: Option<Tls>,
    shown: Arc<str>,
    ready_within: Duration,
    answer_within: Duration,
}

/// A text that names no database.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; expected postgres://USER:PASSWORD@HOST:PORT/DATABASE")]
pub struct BadAddress(String);

impl Address {
    /// How such a text begins.
    pub const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

    /// Connects, in the way that it asks for, and has the first statements carried out. The connection is carried on by a task of
    /// its own, and is lost with it. A server that accepts connections and then says nothing is as lost as one that is away.
    pub(in crate::store) async fn connect(&self, first: &str) -> Result<(Client, AbortHandle), StoreError> {
        let doing = "connect to the database";
        let connected = async {
            let (client, carried) = match &self.tls {
                Some(tls) => connect(&self.config, tls.clone()).await?,
                None => connect(&self.config, NoTls).await?,
            };
            client.batch_execute(first).await?;
            Ok((client, carried))
        };
        match timeout(self.connected_within(), connected).await {
            Ok(connected) => connected.map_err(|error| failure(doing, &error)),
            Err(_) => Err(StoreError::Lost { doing, detail: format!("{self} accepts, and says nothing") }),
        }
    }

    /// The same, for whoever can do without: each of the hosts may take so long for a connection, and for each answer.
    pub(super) fn within(&self, length: Duration) -> Self {
        let (mut config, half) = (Config::clone(&self.config), length / 2);
        config.connect_timeout(half.min(reached_within(&config)));
        Self { config: Arc::new(config), ready_within: half, answer_within: length, ..self.clone() }
    }

    /// How long connecting may take with all that is said then, to each of the hosts.
    fn connected_within(&self) -> Duration {
        let hosts = u32::try_from(count_hosts(&self.config)).unwrap_or(u32::MAX).max(1);
        reached_within(&self.config).saturating_add(self.ready_within).saturating_mul(hosts)
    }

    /// How long the server may take for an answer, until it is as good as away.
    pub(super) const fn answer_within(&self) -> Duration {
        self.answer_within
    }
}

/// How long it may take to reach one host.
fn reached_within(config: &Config) -> Duration {
    *config.get_connect_timeout().unwrap_or(&CONNECT_WITHIN)
}

/// How many hosts there are to choose from.
fn count_hosts(config: &Config) -> usize {
    config.get_hosts().len().max(config.get_hostaddrs().len())
}

async fn connect<T>(config: &Config, tls: T) -> Result<(Client, AbortHandle), tokio_postgres::Error>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, connection) = config.connect(tls).await?;
    let carried = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the database ended");
        }
    });
    Ok((client, carried.abort_handle()))
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        if !Self::SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
            return Err(BadAddress("it is no address of a database".to_owned()));
        }
        if text.contains("%00") {
            return Err(BadAddress("it has a NUL (%00), which no server takes".to_owned()));
        }
        let asked = Asked::of(text).map_err(BadAddress)?;
        let mut config: Config = asked.rest.parse().map_err(|error| BadAddress(told(&error)))?;
        // Whatever else the address says: never one where the other is meant.
        config.ssl_mode(if asked.tls.is_some() { SslMode::Require } else { SslMode::Disable });
        if config.get_application_name().is_none() {
            config.application_name("hookproof-sender");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_WITHIN);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(ANSWER_WITHIN);
        }
        config.keepalives_idle(ANSWER_WITHIN);
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            let detail = "its target_session_attrs is read-only; give it read-write, or leave it out";
            return Err(BadAddress(detail.to_owned()));
        }
        if count_hosts(&config) > 1 {
            // Else one connection may be to the server that takes writes, and another to a standby that lacks the last ones.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let answer_within = config.get_tcp_user_timeout().copied().unwrap_or(ANSWER_WITHIN);
        let answer_within = answer_within.clamp(SHORTEST, LONGEST);
        let hosts: Vec<String> = config.get_hosts().iter().map(host).collect();
        let shown = format!("postgres://{}/{}", hosts.join(","), config.get_dbname().unwrap_or_default());
        let (tls, shown, ready_within) = (asked.tls, shown.into(), READY_WITHIN);
        Ok(Self { config: Arc::new(config), tls, shown, ready_within, answer_within })
    }
}

/// What is wrong with an address. Of what it says only a known setting's name is repeated: all else may be a part of a password.
fn told(error: &tokio_postgres::Error) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    let of_known = source.starts_with("invalid value for option");
    if of_known { source } else { "it has a setting that is not known, or not whole".to_owned() }
}

fn host(host: &tokio_postgres::config::Host) -> String {
    match host {
        tokio_postgres::config::Host::Tcp(name) => name.clone(),
        tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
    }
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

    /// Each connection finds its own server: a claim that a standby answered would hand out what was delivered since.
    #[test]
    fn of_several_hosts_the_one_that_takes_writes_is_meant() {
        let meant = |place: &str| parse(place).unwrap().config.get_target_session_attrs();
        for place in [
            "a,b/hooks",
            "a:1,b:2/hooks",
            "a,b/hooks?target_session_attrs=any",
            "/hooks?hostaddr=1.2.3.4,1.2.3.5",
        ] {
            assert_eq!(meant(place), TargetSessionAttrs::ReadWrite, "{place}");
        }
        assert_eq!(meant("a/hooks?target_session_attrs=read-write"), TargetSessionAttrs::ReadWrite);
        assert_eq!(meant("a/hooks"), TargetSessionAttrs::Any, "also a standby tells operators of itself");
        for place in ["a,b/hooks", "a/hooks"] {
            let told = parse(&format!("{place}?target_session_attrs=read-only")).unwrap_err().to_string();
            assert!(told.contains("read-write") && !told.contains("hush"), "{told}");
        }
    }

    #[test]
    fn whoever_can_do_without_a_connection_waits_less_for_each_host() {
        let seconds = Duration::from_secs;
        let address = parse("a,b/hooks").unwrap();
        assert_eq!((address.connected_within(), address.answer_within()), (seconds(20), seconds(12)));
        let hurried = address.within(seconds(2));
        assert_eq!((hurried.connected_within(), hurried.answer_within()), (seconds(4), seconds(2)));
        assert_eq!(hurried.to_string(), "postgres://a,b/hooks");
        let asked = parse("a/hooks?connect_timeout=1").unwrap().within(seconds(4));
        assert_eq!(asked.connected_within(), seconds(3), "what was asked for is not exceeded");
    }
}
