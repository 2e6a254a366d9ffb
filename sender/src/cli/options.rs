use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::failure::Failure;
use crate::api::TokenError;
use crate::dispatch::{LEASE_DEFAULT, LEASES};
use crate::engine::{Nanos, StoreTime};
use crate::event;
use crate::event::shape::Region;
use crate::event::timestamp::{TIME_FORM, parse_time};
use crate::guard::{Guard, Network};
use crate::runtime::{Options, Retention};
use crate::sign::Secret;
use crate::store::node::NAME_BYTES_MAX;
use crate::store::seal::Keyring;
use crate::store::{Database, Durability};
use crate::subscriber::RegionSecrets;
use crate::transport::{DnsResolver, EgressProxy, Settings};

const KEYS: &str = "HOOKPROOF_ENCRYPTION_KEYS";

#[derive(Args, Clone, Debug)]
pub(super) struct Common {
    /// The database: a file, or postgres://USER@HOST/DATABASE, with ?sslmode=verify-full for TLS, and
    /// &sslrootcert=FILE for an authority of your own. An argument shows in `ps`: put a password into HOOKPROOF_DB,
    /// or into a file of mode 0600 that ?passfile=FILE or PGPASSFILE names, with lines of
    /// HOST:PORT:DATABASE:USER:PASSWORD
    #[arg(long, global = true, value_name = "DATABASE", env = "HOOKPROOF_DB", hide_env_values = true)]
    db: Option<OsString>,
    /// A file with the key that encrypts the database: 32 bytes in base64 or hexadecimal. Of several lines the first
    /// encrypts, and all decrypt. HOOKPROOF_ENCRYPTION_KEYS may hold the keys instead, between commas
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "HOOKPROOF_ENCRYPTION_KEY_FILE",
        hide_env_values = true
    )]
    encryption_key_file: Option<PathBuf>,
    /// Print JSON on stdout: one object, or one on each line of a list
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// The log level on stderr: error, warn, info, debug, trace or off [default: info for serve and drain,
    /// else warn]
    #[arg(long, global = true, value_name = "LEVEL", env = "HOOKPROOF_LOG", hide_env_values = true)]
    pub(super) log: Option<String>,
    /// Log as JSON
    #[arg(long, global = true)]
    pub(super) log_json: bool,
}

pub(super) fn moment(text: &str) -> Result<StoreTime, String> {
    parse_time(text).ok_or_else(|| format!("expected {TIME_FORM}"))
}

impl Common {
    /// Opening creates a missing file.
    pub(super) fn database(&self) -> Result<Database, Failure> {
        let missing =
            "no database is named; expected --db FILE, --db postgres://…, or one of them in HOOKPROOF_DB";
        let text = self.db.as_deref().ok_or_else(|| Failure::usage(missing))?;
        Ok(database_of(text, "--db")?.with_keys(self.keys()?))
    }

    pub(super) fn keys(&self) -> Result<Keyring, Failure> {
        let (place, text) = match (&self.encryption_key_file, std::env::var_os(KEYS)) {
            (None, None) => return Ok(Keyring::default()),
            (Some(_), Some(_)) => {
                return Err(Failure::usage(format_args!(
                    "--encryption-key-file and {KEYS} are both given; expected one of them"
                )));
            }
            (Some(path), None) => {
                let place = format!("the key file {}", path.display());
                (place, std::fs::read_to_string(path).map_err(|error| error.to_string()))
            }
            (None, Some(keys)) => (
                format!("the environment variable {KEYS}"),
                keys.into_string().map_err(|_| "it is not UTF-8".to_owned()),
            ),
        };
        text.and_then(|text| Keyring::parse(&text).map_err(|error| error.to_string()))
            .map_err(|problem| Failure::usage(format_args!("{place} cannot be used: {problem}")))
    }

    /// The last command on a file leaves no log beside it. That needs no success: a command may only have read it.
    pub(super) fn leave_whole(&self) {
        let database = self.db.as_deref().and_then(|text| Database::parse(text).ok());
        if let Some(database) = database.filter(Database::may_exist)
            && let Err(error) = database.parts().leave_whole()
        {
            tracing::debug!(%error, "the log stays beside the database");
        }
    }

    /// A misspelt path must not create an empty file. For a server, opening checks existence.
    pub(super) fn existing_database(&self) -> Result<Database, Failure> {
        let database = self.database()?;
        if !database.may_exist() {
            return Err(Failure::usage(format_args!(
                "there is no database {database}; check --db, or create it with `serve` or `subscriber add`"
            )));
        }
        Ok(database)
    }
}

pub(super) fn database_of(text: &OsStr, option: &str) -> Result<Database, Failure> {
    let database = Database::parse(text)
        .map_err(|error| Failure::usage(format_args!("{option} cannot be used: {error}")))?;
    if database.says_password() && is_shown(text) {
        tracing::warn!(
            "every user of this machine can read the password in {option} (`ps`); put the address into \
             HOOKPROOF_DB, or the password into a file named by ?passfile=FILE or PGPASSFILE"
        );
    }
    Ok(database)
}

/// Every user of this machine can read the arguments.
fn is_shown(text: &OsStr) -> bool {
    let ends = |argument: OsString| argument.into_encoded_bytes().ends_with(text.as_encoded_bytes());
    std::env::args_os().any(ends)
}

#[derive(Args, Clone, Debug, Default)]
pub(super) struct Reach {
    /// Let deliveries reach loopback and private addresses too
    #[arg(long)]
    allow_private_targets: bool,
    /// Let deliveries reach this network, even a private one; may be given again
    #[arg(long, value_name = "CIDR")]
    allow_network: Vec<Network>,
    /// Refuse endpoints without TLS: a URL must begin with https://, when it is set and at each delivery of this
    /// process
    #[arg(long)]
    https_only: bool,
    /// A region and the environment variable with its secret, for pseudonyms; may be given again
    #[arg(
        long,
        value_name = "NAME=ENV",
        env = "HOOKPROOF_REGIONS",
        hide_env_values = true,
        value_delimiter = ','
    )]
    region: Vec<RegionSource>,
}

impl Reach {
    pub(super) fn guard(&self) -> Guard {
        let guard = Guard::strict();
        let guard = if self.allow_private_targets { guard.allow_private_targets() } else { guard };
        let guard = if self.https_only { guard.https_only() } else { guard };
        self.allow_network.iter().copied().fold(guard, Guard::allow_network)
    }

    pub(super) fn regions(&self) -> Result<RegionSecrets, Failure> {
        self.region.iter().try_fold(RegionSecrets::default(), |regions, RegionSource { region, variable }| {
            Ok(regions.with(region.clone(), secret_from(variable)?))
        })
    }
}

#[derive(Args, Clone, Debug, Default)]
pub(super) struct Requests {
    /// The name server to ask, over UDP and TCP; by default those of /etc/resolv.conf. /etc/hosts counts either way
    #[arg(long, value_name = "ADDRESS:PORT")]
    resolver: Option<SocketAddr>,
    /// A PEM file with root certificates to trust beside those of browsers, such as your company's own
    #[arg(long, value_name = "FILE")]
    extra_roots: Option<PathBuf>,
    /// Keep nothing of the answers to failed attempts. By default, 2 KiB of the body and some headers are kept as long as
    /// attempts, of the newest 64 failed ones of a subscriber
    #[arg(long)]
    forget_answers: bool,
    /// Reach endpoints through this HTTP proxy, by CONNECT: http://USER:PASSWORD@HOST:PORT, or without user and password.
    /// The proxy gets addresses that this process has resolved and checked. An argument shows in `ps`: put a password into
    /// HOOKPROOF_EGRESS_PROXY. HTTP_PROXY and the like are ignored
    #[arg(long, value_name = "URL", env = "HOOKPROOF_EGRESS_PROXY", hide_env_values = true)]
    egress_proxy: Option<ProxyUrl>,
    /// Reach addresses in this network without the proxy; may be given again
    #[arg(long, value_name = "CIDR")]
    egress_direct: Vec<Network>,
}

/// May hold a password.
#[derive(Clone)]
struct ProxyUrl(OsString);

impl From<OsString> for ProxyUrl {
    fn from(text: OsString) -> Self {
        Self(text)
    }
}

impl std::fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl Requests {
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        let resolver = self.resolver.map_or_else(DnsResolver::system, DnsResolver::asking);
        let mut settings = Settings {
            resolver: Arc::new(resolver),
            keep_answers: !self.forget_answers,
            proxy: self.proxy()?.map(Arc::new),
            ..Settings::default()
        };
        if let Some(path) = &self.extra_roots {
            let unusable = |problem: &dyn std::fmt::Display| {
                Failure::usage(format_args!("--extra-roots {} cannot be used: {problem}", path.display()))
            };
            let text = std::fs::read(path).map_err(|error| unusable(&error))?;
            settings.roots = settings.roots.with_pem(&text).map_err(|error| unusable(&error))?;
        }
        Ok(settings)
    }

    fn proxy(&self) -> Result<Option<EgressProxy>, Failure> {
        let Some(ProxyUrl(text)) = &self.egress_proxy else { return Ok(None) };
        let unusable = |problem: &dyn std::fmt::Display| {
            Failure::usage(format_args!(
                "--egress-proxy or HOOKPROOF_EGRESS_PROXY cannot be used: {problem}; expected http://HOST:PORT or \
                 http://USER:PASSWORD@HOST:PORT, with special characters percent-encoded"
            ))
        };
        let url = text.to_str().ok_or_else(|| unusable(&"it is not UTF-8"))?;
        let proxy = EgressProxy::parse(url).map_err(|error| unusable(&error))?;
        if proxy.has_credentials() && is_shown(text) {
            tracing::warn!(
                "every user of this machine can read the password in --egress-proxy (`ps`); put the address into \
                 HOOKPROOF_EGRESS_PROXY"
            );
        }
        Ok(Some(proxy.except(self.egress_direct.clone())))
    }
}

/// Reads the environment, because a command line would show the secret to others.
pub(super) fn secret_from(variable: &str) -> Result<Secret, Failure> {
    let text = std::env::var(variable).map_err(|problem| {
        let problem = match problem {
            std::env::VarError::NotPresent => "is not set",
            std::env::VarError::NotUnicode(_) => "is not UTF-8",
        };
        Failure::usage(format_args!("the environment variable {variable} {problem}; expected a secret in it"))
    })?;
    Secret::parse(&text).map_err(|error| {
        Failure::usage(format_args!("the environment variable {variable} cannot be used: {error}"))
    })
}

pub(super) fn token_from<T>(
    variable: &str,
    read: impl FnOnce(&str) -> Result<T, TokenError>,
) -> Result<T, Failure> {
    let unusable = |problem: String| {
        Failure::usage(format_args!("the environment variable {variable} cannot be used: {problem}"))
    };
    let text =
        std::env::var(variable).map_err(|error| unusable(format!("{error}; expected a token in it")))?;
    read(&text).map_err(|error| unusable(error.to_string()))
}

#[derive(Clone, Debug)]
struct RegionSource {
    region: Region,
    variable: String,
}

impl FromStr for RegionSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (region, variable) = text
            .split_once('=')
            .filter(|(_, variable)| !variable.is_empty())
            .ok_or("expected NAME=ENV, such as eu=REGION_SECRET_EU")?;
        let region = region.parse::<Region>().map_err(|error| error.to_string())?;
        Ok(Self { region, variable: variable.to_owned() })
    }
}

#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Durable {
    /// The failure that an acknowledged event survives: a power cut, or only the end of the process, which is
    /// faster
    #[arg(long, value_enum, value_name = "WHAT", default_value = "power-loss")]
    durability: Survived,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Survived {
    PowerLoss,
    Process,
}

/// Retention.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Keep {
    /// How long to keep delivered events; 1d at least, the longest dedupe window
    #[arg(long, value_name = "TIME", default_value = "1d")]
    keep_delivered: Nanos,
    /// How long to keep the record of attempts
    #[arg(long, value_name = "TIME", default_value = "7d")]
    keep_attempts: Nanos,
    /// How long to keep dead letters
    #[arg(long, value_name = "TIME", default_value = "30d")]
    keep_dead: Nanos,
    /// How long to keep the log of changes, at most 100,000 of subscribers and 100,000 others
    #[arg(long, value_name = "TIME", default_value = "365d")]
    keep_changes: Nanos,
}

impl Keep {
    /// Ids must be kept for the longest dedupe window.
    pub(super) fn retention(self) -> Result<Retention, Failure> {
        use crate::subscriber::SettingsText;

        if self.keep_delivered < SettingsText::DEDUPE_MAX {
            return Err(Failure::usage(format_args!(
                "--keep-delivered is {}; expected at least {}, the longest dedupe window: duplicates of deleted \
                 events cannot be recognised",
                self.keep_delivered,
                SettingsText::DEDUPE_MAX
            )));
        }
        Ok(Retention {
            settled: self.keep_delivered,
            attempts: self.keep_attempts,
            dead: self.keep_dead,
            changes: self.keep_changes,
        })
    }
}

/// The default where only leases show that a process is dead.
const LEASE_THAT_TELLS: Nanos = Nanos::from_secs(5);

/// Retention belongs to the delivering processes.
const FOR_EVER: Retention = Retention {
    settled: Nanos(u64::MAX),
    attempts: Nanos(u64::MAX),
    dead: Nanos(u64::MAX),
    changes: Nanos(u64::MAX),
};

pub(super) fn operating(
    database: Database,
    reach: &Reach,
    durable: Option<Durable>,
) -> Result<Options, Failure> {
    Ok(Options {
        database,
        durability: durability(durable),
        guard: reach.guard(),
        limits: event::Limits::default(),
        lease: LEASE_DEFAULT,
        retention: FOR_EVER,
        regions: reach.regions()?,
        name: None,
        address: None,
        delivers: false,
    })
}

#[derive(Args, Clone, Debug)]
pub(super) struct Delivering {
    #[command(flatten)]
    durable: Durable,
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    pub(super) requests: Requests,
    /// How long this process keeps a subscriber without renewal, if it dies [default: 30s with a file, 5s
    /// with a server]
    #[arg(long, value_name = "TIME")]
    lease: Option<Nanos>,
    /// How long to wait at the end for attempts under way
    #[arg(long, value_name = "TIME", default_value = "20s")]
    pub(super) stop_within: Nanos,
}

impl Delivering {
    pub(super) fn options(&self, database: Database) -> Result<Options, Failure> {
        let sees_deaths = database.parts().liveness().sees_deaths();
        let usual = if sees_deaths { LEASE_DEFAULT } else { LEASE_THAT_TELLS };
        let lease = self.lease.unwrap_or(usual);
        if !LEASES.contains(&lease) {
            let (shortest, longest) = (LEASES.start(), LEASES.end());
            return Err(Failure::usage(format_args!("--lease is {lease}; expected {shortest} to {longest}")));
        }
        let retention = self.keep.retention()?;
        let options = operating(database, &self.reach, Some(self.durable))?;
        Ok(Options { lease, retention, delivers: true, ..options })
    }
}

/// It stands in tables and in paths of the API.
pub(super) fn node_name(text: &str) -> Result<Arc<str>, String> {
    let is_fit =
        text.len() <= NAME_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    if text.is_empty() || !is_fit {
        return Err(format!("expected 1 to {NAME_BYTES_MAX} visible ASCII characters, none of them a slash"));
    }
    Ok(text.into())
}

fn durability(durable: Option<Durable>) -> Durability {
    match durable.map(|durable| durable.durability) {
        None | Some(Survived::PowerLoss) => Durability::PowerLoss,
        Some(Survived::Process) => Durability::Process,
    }
}
