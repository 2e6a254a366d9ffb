//! The relay's file of routes, treated as untrusted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use toml::Value;
use tracing::warn;
use zeroize::Zeroizing;

use super::failure::Failure;
use super::options::{ListenArgs, UnfitKeys, secret_from};
use super::quantity::time;
use crate::relay::{RouteSettings, Routes};
use crate::verify::{Keys, Secret};

/// A thousand routes of about a thousand bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
const MODE_OTHERS: u32 = 0o007;
const ROUTES_MAX: usize = 1_024;
const SUBSCRIBER_BYTES_MAX: usize = 256;
const SECRETS: &str = "expected secrets = [\"whsec_…\"] or secret_env = [\"NAME\"]";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    #[serde(default)]
    routes: BTreeMap<String, RouteText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteText {
    to: String,
    profile: Option<String>,
    url: Option<String>,
    timeout: Option<String>,
    path: Option<String>,
    // The parser's own error would show the value.
    secrets: Option<Value>,
    secret_env: Option<Value>,
}

/// One line without secrets.
#[derive(Debug, thiserror::Error)]
pub(super) enum RoutesError {
    #[error("cannot read the routes in {}: {error}", file.display())]
    Unreadable { file: PathBuf, error: io::Error },
    #[error("{}: {problem}", file.display())]
    Wrong { file: PathBuf, problem: String },
}

impl From<RoutesError> for Failure {
    fn from(error: RoutesError) -> Self {
        Self::Usage(error.to_string())
    }
}

/// The command line gives the defaults. Also returns the number of routes.
pub(super) fn read(
    file: &Path,
    listen: &ListenArgs,
    timeout: Duration,
) -> Result<(Routes, usize), RoutesError> {
    let wrong = |problem| RoutesError::Wrong { file: file.to_owned(), problem };
    let (text, mode) =
        text(file).map_err(|error| RoutesError::Unreadable { file: file.to_owned(), error })?;
    if mode & MODE_OTHERS != 0 {
        warn!(file = %file.display(), "other users can read the file of routes, which may hold secrets; chmod 600 it");
    }
    let routes = parse(&text, listen, timeout).map_err(wrong)?;
    let count = routes.len();
    Ok((Routes::BySubscriber(routes), count))
}

fn text(file: &Path) -> io::Result<(Zeroizing<String>, u32)> {
    let mut text = Zeroizing::new(String::new());
    // Opening a pipe would block.
    if !std::fs::metadata(file)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let opened = File::open(file)?;
    let mode = opened.metadata()?.permissions().mode();
    opened.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it is too long; expected at most {FILE_BYTES_MAX} bytes")));
    }
    Ok((text, mode))
}

fn parse(
    text: &str,
    listen: &ListenArgs,
    timeout: Duration,
) -> Result<BTreeMap<String, RouteSettings>, String> {
    let written: FileText = toml::from_str(text).map_err(|error| describe_error(&error, text))?;
    let count = written.routes.len();
    if !(1..=ROUTES_MAX).contains(&count) {
        return Err(format!(
            "there are {count} routes; expected 1 to {ROUTES_MAX}, each under [routes.NAME]"
        ));
    }
    let mut paths = BTreeSet::new();
    let mut routes = BTreeMap::new();
    for (subscriber, route) in written.routes {
        let problem = |problem| format!("the route {subscriber:?}: {problem}");
        if !is_subscriber(&subscriber) {
            return Err(problem(format!(
                "its name is not a subscriber name; expected 1 to {SUBSCRIBER_BYTES_MAX} visible ASCII \
                 characters"
            )));
        }
        let settings = settings(route, listen, timeout).map_err(problem)?;
        if let Some(path) = &settings.path
            && !paths.insert(path.clone())
        {
            return Err(problem(format!("the path {path} also belongs to another route")));
        }
        routes.insert(subscriber, settings);
    }
    Ok(routes)
}

/// Omits the value, which may be a misplaced secret.
fn describe_error(error: &toml::de::Error, text: &str) -> String {
    let message = match error.message().split_once(", expected ") {
        Some((found, expected)) if found.starts_with("invalid ") => format!("expected {expected}"),
        _ => error.message().to_owned(),
    };
    let before = error.span().and_then(|Range { start, .. }| text.get(..start));
    let line = before.map_or(1, |before| before.matches('\n').count() + 1);
    format!("line {line}: {message}")
}

fn is_subscriber(name: &str) -> bool {
    (1..=SUBSCRIBER_BYTES_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

fn settings(route: RouteText, listen: &ListenArgs, timeout: Duration) -> Result<RouteSettings, String> {
    let target = route.to.parse().map_err(|error| format!("to: {error}"))?;
    let own_timeout = route.timeout.map(|text| time(&text).map_err(|problem| format!("timeout: {problem}")));
    let path = match route.path {
        Some(path) if !path.starts_with('/') => Err("path: expected a path that begins with /".to_owned()),
        path => Ok(path),
    }?;
    let whom = (route.profile.as_deref(), route.url.as_deref());
    let keys = keys(whom, route.secrets, route.secret_env, listen)?;
    Ok(RouteSettings { keys, target, timeout: own_timeout.transpose()?.unwrap_or(timeout), path })
}

fn keys(
    (profile, url): (Option<&str>, Option<&str>),
    secrets: Option<Value>,
    secret_env: Option<Value>,
    listen: &ListenArgs,
) -> Result<Keys, String> {
    let profile = profile.map_or(Ok(listen.profile), str::parse);
    let profile = profile.map_err(|error| format!("profile: {error}"))?;
    let secrets: Vec<Secret> = match (secrets.map(texts), secret_env.map(texts)) {
        (Some(Some(texts)), None) => {
            let secrets = texts.into_iter().map(Secret::new);
            secrets.collect::<Result<_, _>>().map_err(|error| format!("secrets: {error}"))?
        }
        (None, Some(Some(variables))) => {
            let secrets = variables.iter().map(|variable| secret_from(variable));
            secrets.collect::<Result<_, _>>().map_err(|error| error.to_string())?
        }
        _ => return Err(SECRETS.to_owned()),
    };
    listen.keys(profile, url, &secrets).map_err(|error| match error {
        UnfitKeys::Key(error) => format!("{error}; {SECRETS}"),
        UnfitKeys::Url(_) | UnfitKeys::VerifyToken(_) => error.to_string(),
    })
}

fn texts(value: Value) -> Option<Vec<String>> {
    let Value::Array(values) = value else { return None };
    values.into_iter().map(|value| if let Value::String(text) = value { Some(text) } else { None }).collect()
}
