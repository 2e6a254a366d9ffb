use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use super::failure::Failure;
use super::quantity::{origin, size, time};
use crate::clock::Clock;
use crate::layer::{Admission, Bounds};
use crate::server::Limits;
use crate::verify::{KeyError, Keys, Permission, Profile, Secret};

#[derive(Args, Debug)]
pub(super) struct ListenArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9000")]
    pub(super) listen: SocketAddr,
    #[arg(long, value_name = "PROFILE", default_value_t, help = profiles())]
    pub(super) profile: Profile,
    /// The URL that the sender was given, where the profile signs it; behind a proxy the public one
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The environment variable with the verify token of meta's handshake, which is not answered without it
    #[arg(long, value_name = "NAME")]
    verify_token_env: Option<String>,
    /// An origin that CloudEvents' handshake by OPTIONS permits, or * for any
    #[arg(long, value_name = "NAME", value_parser = origin)]
    allow_origin: Vec<String>,
    /// The requests a minute that it permits [default: any]
    #[arg(long, value_name = "COUNT", requires = "allow_origin", value_parser = clap::value_parser!(u32).range(1..))]
    allow_rate: Option<u32>,
    /// How far a timestamp may be from now [default: the profile's: 5m; linear 60s, paddle 5s]
    #[arg(long, value_name = "TIME", value_parser = time)]
    tolerance: Option<Duration>,
    /// The longest body
    #[arg(long, value_name = "SIZE", default_value = "2MiB", value_parser = size)]
    body_max: u32,
    /// The most memory for all bodies at a time; the first 16 KiB of each are not counted
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    bodies_max: u32,
    /// How long a head, or a body, may take to arrive, and an answer to be read
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    read_within: Duration,
    /// The most connections at a time; for the next one, the oldest without a request is closed
    #[arg(long, value_name = "COUNT", default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections_max: u32,
    /// How long to wait at the start for a receiver before this one that is just about to end
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    pub(super) start_within: Duration,
    /// How long to wait at the end for requests under way
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub(super) stop_within: Duration,
}

impl ListenArgs {
    pub(super) fn admission(&self, clock: Clock) -> Result<Admission, Failure> {
        if self.bodies_max < self.body_max {
            let (all, one) = (self.bodies_max, self.body_max);
            return Err(Failure::Usage(format!(
                "--bodies-max is {all} bytes; expected at least --body-max, which is {one}"
            )));
        }
        let bounds =
            Bounds { body_bytes: self.body_max, body_time: self.read_within, bodies_bytes: self.bodies_max };
        Ok(Admission::new(clock, bounds))
    }

    pub(super) fn keys_from(&self, variables: &[String]) -> Result<Keys, Failure> {
        if self.verify_token_env.is_some() && !self.profile.has_verify_token() {
            let profile = self.profile;
            return Err(Failure::Usage(format!(
                "{profile} has no verify token; expected --verify-token-env only with --profile meta"
            )));
        }
        let secrets = variables.iter().map(|name| secret_from(name)).collect::<Result<Vec<_>, _>>()?;
        self.keys(self.profile, None, &secrets).map_err(|error| match error {
            UnfitKeys::Key(error) => {
                Failure::Usage(format!("the environment variable {}: {error}", variables.join(" or ")))
            }
            UnfitKeys::Url(_) | UnfitKeys::VerifyToken(_) => Failure::Usage(error.to_string()),
        })
    }

    /// `url` is a route's own.
    pub(super) fn keys(
        &self,
        profile: Profile,
        url: Option<&str>,
        secrets: &[Secret],
    ) -> Result<Keys, UnfitKeys> {
        let keys = Keys::new(profile, secrets)?;
        let url = url.or(self.url.as_deref());
        if profile.signs_url() && url.is_none() {
            return Err(UnfitKeys::Url(profile));
        }
        let mut keys = keys.with_url(url.unwrap_or_default());
        if let Some(variable) = self.verify_token_env.as_deref().filter(|_| profile.has_verify_token()) {
            keys = keys.with_verify_token(secret_from(variable)?);
        }
        if !self.allow_origin.is_empty() {
            let (origins, rate) = (self.allow_origin.clone(), self.allow_rate);
            keys = keys.with_permission(Permission { origins, rate });
        }
        let Some(tolerance) = self.tolerance else { return Ok(keys) };
        Ok(keys.with_tolerance(u32::try_from(tolerance.as_secs()).unwrap_or(u32::MAX)))
    }

    pub(super) fn limits(&self) -> Limits {
        let connections = usize::try_from(self.connections_max).unwrap_or(usize::MAX);
        Limits { connections, head_time: self.read_within, ..Limits::default() }
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum UnfitKeys {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("{0} signs the URL that the sender was given; expected it in --url, or in a route's `url`")]
    Url(Profile),
    #[error(transparent)]
    VerifyToken(#[from] Failure),
}

fn profiles() -> String {
    format!("How the sender signs: {}", Profile::ALL.map(Profile::name).join(", "))
}

/// Reads the environment, because a command line would show the secret to others.
pub(super) fn secret_from(variable: &str) -> Result<Secret, Failure> {
    let unusable = |problem: String| {
        Failure::Usage(format!("the environment variable {variable} {problem}; expected a secret in it"))
    };
    let text = std::env::var(variable).map_err(|error| {
        unusable(match error {
            std::env::VarError::NotPresent => "is not set".to_owned(),
            std::env::VarError::NotUnicode(_) => "is not UTF-8".to_owned(),
        })
    })?;
    Secret::new(text).map_err(|error| unusable(format!("cannot be used: {error}")))
}

pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
