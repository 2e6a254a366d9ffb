use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::sync::Arc;

use http::header::AUTHORIZATION;

use super::error::SettingsError;
use super::text::{
    BackoffText, Filled, Limit, OauthText, PermissionText, QueueText, RetryText, SettingsText, ShapeText,
    TlsText, WhenFullText,
};
use crate::engine::breaker::BreakerPolicy;
use crate::engine::contract::{Bucket, Contract};
use crate::engine::pressure::PressurePolicy;
use crate::engine::retry::{Backoff, RetryPolicy};
use crate::engine::{Lateness, Nanos, OutOfRange, Settings};
use crate::event::shape::{Pseudonyms, Region};
use crate::event::{Coalescing, PublicId, Shaping, ShapingRules};
use crate::excerpt::{Excerpt, is_hidden};
use crate::guard::{Target, TargetError};
use crate::oauth::OauthClient;
use crate::permission::Permission;
use crate::sign::{ExtraHeader, Profile, Secret};
use crate::store::lane::{Bounds, WhenFull};
use crate::tls_files::{PemFile, TlsFiles};
use crate::units::Bytes;

#[derive(Clone, Debug)]
pub struct Agreement {
    pub lane: Arc<Settings>,
    pub profile: Profile,
    /// Headers beside those of the sender.
    pub headers: Box<[ExtraHeader]>,
    pub timeouts: Timeouts,
    /// Equal event ids within it are the same event.
    pub dedupe: Nanos,
    pub coalescing: Coalescing,
    pub shaping: Shaping,
    pub bounds: Bounds,
    pub tls: Option<Arc<TlsFiles>>,
    pub oauth: Option<Arc<OauthClient>>,
    pub permission: Option<Arc<Permission>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The time from the first packet to the last byte of the answer.
    pub total: Nanos,
    /// Until it is connected; at most `total`.
    pub connect: Nanos,
}

impl Agreement {
    #[must_use]
    pub fn ttl(&self) -> Nanos {
        self.lane.retry().ttl()
    }
}

/// The secrets of regions, for pseudonyms. `Debug` hides them.
#[derive(Clone, Debug, Default)]
pub struct RegionSecrets(BTreeMap<Region, Secret>);

impl RegionSecrets {
    #[must_use]
    pub fn with(mut self, region: Region, secret: Secret) -> Self {
        self.0.insert(region, secret);
        self
    }

    fn pseudonyms(&self, region: &Region, subscriber: &PublicId) -> Option<Pseudonyms> {
        self.0.get(region).map(|secret| Pseudonyms::new(region, secret, subscriber))
    }
}

impl SettingsText {
    pub fn validate(
        &self,
        subscriber: &PublicId,
        regions: &RegionSecrets,
    ) -> Result<Agreement, SettingsError> {
        let Filled { limit, queue, sign, timeout, connect_timeout, dedupe, .. } = self.filled();
        let total = within("timeout", timeout, SettingsText::TIMEOUT)?;
        let connect = within("connect_timeout", connect_timeout, *SettingsText::TIMEOUT.start()..=total)?;
        let lane = self.lane(&limit.filled(), total)?;
        let permission = self.permission.as_ref().and_then(|permission| permission.origin.as_deref());
        let permission =
            permission.map(|origin| PermissionText::asked(origin, lane.contract())).transpose()?;
        Ok(Agreement {
            coalescing: self.coalescing(lane.retry().ttl())?,
            lane: Arc::new(lane),
            profile: sign,
            headers: self.headers(sign, permission.as_ref())?,
            timeouts: Timeouts { total, connect },
            dedupe: within("dedupe", dedupe, Nanos::ZERO..=SettingsText::DEDUPE_MAX)?,
            shaping: self
                .shape
                .as_ref()
                .map_or_else(|| Ok(Shaping::verbatim()), |shape| shape.shaping(subscriber, regions))?,
            bounds: queue.bounds()?,
            tls: self.tls.as_ref().map_or(Ok(None), TlsText::files)?.map(Arc::new),
            oauth: self.oauth()?.map(Arc::new),
            permission: permission.map(Arc::new),
        })
    }

    /// The files that a change of stored settings, or of the URL, must check: unchanged ones may be broken.
    pub(crate) fn files_to_check<'a>(
        &self,
        agreement: &'a Agreement,
        stored: &str,
        moves: bool,
    ) -> Option<&'a Arc<TlsFiles>> {
        let same = !moves && Self::from_json(stored).is_ok_and(|before| before.tls == self.tls);
        agreement.tls.as_ref().filter(|_| !same)
    }

    fn lane(&self, limit: &Limit, deadline: Nanos) -> Result<Settings, SettingsError> {
        let full = self.filled();
        let breaker = full.breaker.filled();
        let breaker = BreakerPolicy::new(
            breaker.failures,
            breaker.failures_when_slow,
            breaker.slow,
            breaker.cooldown,
            breaker.cooldown_max,
        )?
        .with_disable_after(breaker.disable_after)?;
        let pressure = full.pressure.filled();
        let strain = PressurePolicy::new(
            pressure.slowest,
            pressure.streak,
            pressure.latency_min,
            pressure.latency_factor,
            pressure.failures_percent,
        )?;
        let target = Some(pressure.target).filter(|target| *target > Nanos::ZERO);
        let pressure = strain.with_target(target).with_latency_least(pressure.latency_least)?;
        let retry = full.retry.policy()?;
        let lateness = Lateness::new(deadline, limit.quarantine, limit.doubt)?;
        Ok(Settings::new(limit.contract()?, retry, breaker, pressure, lateness))
    }

    fn headers(
        &self,
        sign: Profile,
        permission: Option<&Permission>,
    ) -> Result<Box<[ExtraHeader]>, SettingsError> {
        let mut headers = self.headers.clone().unwrap_or_default();
        within("headers", headers.len(), 0..=ExtraHeader::COUNT_MAX)?;
        let mut names = HashSet::new();
        if let Some(twice) = headers.iter().find(|header| !names.insert(header.usual_name())) {
            let problem = format!("name {} twice; expected each name once", twice.name());
            return Err(SettingsError::Contradiction { field: "headers", problem: problem.into() });
        }
        if sign == Profile::Cloudevents {
            check_source(&headers)?;
        }
        headers.extend(permission.and_then(|permission| ExtraHeader::of_origin(&permission.origin)));
        Ok(headers.into())
    }

    fn oauth(&self) -> Result<Option<OauthClient>, SettingsError> {
        let Some(client) = self.oauth.as_ref().map_or(Ok(None), OauthText::client)? else { return Ok(None) };
        let is_given = |header: &ExtraHeader| header.name() == AUTHORIZATION;
        if self.headers.iter().flatten().any(is_given) {
            let problem = "and headers both set Authorization; expected one of them".into();
            return Err(SettingsError::Contradiction { field: "oauth", problem });
        }
        Ok(Some(client))
    }

    fn coalescing(&self, ttl: Nanos) -> Result<Coalescing, SettingsError> {
        let rules = self.coalesce.clone().unwrap_or_default();
        if let Some(rule) = rules.iter().find(|rule| rule.window >= ttl) {
            let problem = format!(
                "delays {} by {}, and retry.ttl is {ttl}: they would expire before they are due; shorten the \
                 window or lengthen retry.ttl",
                rule.events, rule.window
            );
            return Err(SettingsError::Contradiction { field: "coalesce", problem: problem.into() });
        }
        Ok(rules.try_into()?)
    }
}

/// The sender sets the other attributes.
fn check_source(headers: &[ExtraHeader]) -> Result<(), SettingsError> {
    let is_source =
        |value: &[u8]| !value.is_empty() && !value.iter().any(|byte| b" \"<>|\\^`{}".contains(byte));
    let source = headers.iter().find(|header| header.name() == "ce-source");
    if source.is_some_and(|source| is_source(source.value().as_bytes())) {
        return Ok(());
    }
    let problem = "lack Ce-Source with a URI, which sign=cloudevents needs; add the source of the events, such as \
                   \"Ce-Source: /orders\"";
    Err(SettingsError::Contradiction { field: "headers", problem: problem.into() })
}

impl Limit {
    fn contract(&self) -> Result<Contract, OutOfRange> {
        let bucket = Bucket::new(self.rate.try_into()?, self.burst)?;
        let windows = self.windows.iter().map(|cap| (*cap).try_into());
        let contract = Contract::new(Some(bucket), windows.collect::<Result<_, _>>()?, self.in_flight)?;
        Ok(contract.paced(self.pace))
    }
}

impl QueueText {
    fn bounds(&self) -> Result<Bounds, OutOfRange> {
        let queue = self.filled();
        Ok(Bounds {
            rows_max: within("queue.rows", queue.rows, 1..=SettingsText::QUEUE_ROWS_MAX)?,
            bytes_max: within("queue.bytes", queue.bytes, Bytes(1)..=SettingsText::QUEUE_BYTES_MAX)?.0,
            when_full: match queue.when_full {
                WhenFullText::ShedOldest => WhenFull::ShedOldest,
                WhenFullText::Refuse => WhenFull::Refuse,
            },
        })
    }
}

impl RetryText {
    fn policy(&self) -> Result<RetryPolicy, SettingsError> {
        let retry = self.filled();
        self.check_use(retry.backoff)?;
        let backoff = match retry.backoff {
            BackoffText::FullJitter => Backoff::full_jitter(retry.base, retry.cap),
            BackoffText::EqualJitter => Backoff::equal_jitter(retry.base, retry.cap),
            BackoffText::Additive => Backoff::additive(retry.base, retry.cap, retry.jitter),
            BackoffText::Fixed => Backoff::fixed(retry.schedule),
        };
        Ok(RetryPolicy::new(backoff?, retry.attempts, retry.ttl, retry.retry_after_cap)?)
    }

    /// A setting without effect is an error: its author expects one.
    fn check_use(&self, backoff: BackoffText) -> Result<(), SettingsError> {
        use BackoffText::{Additive, Fixed};
        let rows = [
            ("retry.base", self.base.is_some(), backoff != Fixed),
            ("retry.cap", self.cap.is_some(), backoff != Fixed),
            ("retry.jitter", self.jitter.is_some(), backoff == Additive),
            ("retry.schedule", self.schedule.is_some(), backoff == Fixed),
        ];
        match rows.into_iter().find(|(_, given, used)| *given && !used) {
            None => Ok(()),
            Some((field, ..)) => {
                let name = backoff.name();
                let problem =
                    format!("has no effect with the backoff {name}; leave it out, or set it to null");
                Err(SettingsError::Contradiction { field, problem: problem.into() })
            }
        }
    }
}

impl ShapeText {
    fn shaping(&self, subscriber: &PublicId, regions: &RegionSecrets) -> Result<Shaping, SettingsError> {
        let pseudonyms = self.pseudonymise.iter().flatten().map(|rule| rule.0.clone()).collect();
        let rules = ShapingRules { allow: self.allow.clone(), pseudonyms };
        let region = self.region.as_ref();
        let pseudonyms = region.and_then(|region| regions.pseudonyms(region, subscriber));
        Ok(Shaping::new(&rules, pseudonyms)?)
    }
}

impl TlsText {
    fn files(&self) -> Result<Option<TlsFiles>, SettingsError> {
        let ca = self.ca.as_deref().map(|path| pem_file("tls.ca", path)).transpose()?;
        let certificate =
            self.certificate.as_deref().map(|path| pem_file("tls.certificate", path)).transpose()?;
        let key = self.key.as_deref().map(|path| pem_file("tls.key", path)).transpose()?;
        let alone = |field, other| {
            let problem = format!("needs {other}; set both, or neither").into();
            Err(SettingsError::Contradiction { field, problem })
        };
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (Some(_), None) => return alone("tls.certificate", "tls.key"),
            (None, Some(_)) => return alone("tls.key", "tls.certificate"),
            (None, None) => None,
        };
        Ok((ca.is_some() || identity.is_some()).then_some(TlsFiles { ca, identity }))
    }
}

impl PermissionText {
    fn asked(origin: &str, contract: &Contract) -> Result<Permission, SettingsError> {
        within("permission.origin (bytes)", origin.len(), Permission::ORIGIN_BYTES)?;
        Permission::new(origin, contract.most_per_minute()).ok_or_else(|| SettingsError::Contradiction {
            field: "permission.origin",
            problem: "is no name in DNS; expected one such as events.example.com".into(),
        })
    }
}

impl OauthText {
    fn client(&self) -> Result<Option<OauthClient>, SettingsError> {
        let Self { token_url, client_id, client_secret, scope, audience } = self;
        if *self == Self::default() {
            return Ok(None);
        }
        let (Some(url), Some(id), Some(secret)) = (token_url, client_id, client_secret) else {
            let problem =
                "needs all of token_url, client_id and client_secret; set them, or set oauth to null".into();
            return Err(SettingsError::Contradiction { field: "oauth", problem });
        };
        let unfit = |problem: TargetError| SettingsError::Contradiction {
            field: "oauth.token_url",
            problem: format!("cannot be used: {problem}").into(),
        };
        within("oauth.token_url (bytes)", url.len(), OauthClient::URL_BYTES)?;
        let token_url = Target::stored(url).map_err(unfit)?;
        token_url.parts().map_err(unfit)?;
        if !secret.is_usable() {
            let problem = "is not 1 to 512 visible ASCII characters".into();
            return Err(SettingsError::Contradiction { field: "oauth.client_secret", problem });
        }
        let text = |field, text: &str| {
            within(field, text.len(), OauthClient::TEXT_BYTES)?;
            Ok::<Box<str>, SettingsError>(text.into())
        };
        Ok(Some(OauthClient {
            token_url,
            id: text("oauth.client_id (bytes)", id)?,
            secret: secret.clone(),
            scope: scope.as_deref().map(|it| text("oauth.scope (bytes)", it)).transpose()?,
            audience: audience.as_deref().map(|it| text("oauth.audience (bytes)", it)).transpose()?,
        }))
    }
}

fn pem_file(setting: &'static str, path: &str) -> Result<PemFile, OutOfRange> {
    if TlsFiles::PATH_BYTES.contains(&path.len()) && path.starts_with('/') && !path.contains(is_hidden) {
        return Ok(PemFile { setting, path: path.into() });
    }
    let (least, most) = TlsFiles::PATH_BYTES.into_inner();
    let allowed = format!("an absolute path of {least} to {most} bytes");
    Err(OutOfRange { field: setting, value: Excerpt::of(path).to_string(), allowed })
}

fn within<T: PartialOrd + Display>(
    field: &'static str,
    value: T,
    range: RangeInclusive<T>,
) -> Result<T, OutOfRange> {
    if range.contains(&value) {
        return Ok(value);
    }
    let allowed = format!("{} to {}", range.start(), range.end());
    Err(OutOfRange { field, value: value.to_string(), allowed })
}
