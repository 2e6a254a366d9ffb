//! Tokens of the database: making one, and its JSON form.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::json_forms::moment;
use crate::engine::{Nanos, StoreTime};
use crate::runtime::clock::{random, wall};
use crate::store::token::{Scope, StoredToken, SubscriberNames, SubscriberNamesError};
use crate::subscriber::checked_name;

/// Programs that search for secrets find it by this.
const PREFIX: &str = "hookproof_";
const RANDOM_BYTES: usize = 32;
const LIFE_MIN: Nanos = Nanos::SECOND;
const LIFE_MAX: Nanos = Nanos::DAY.times(3_650);

pub(crate) fn life(text: &str) -> Result<Nanos, String> {
    let life = text.parse::<Nanos>().map_err(|error| error.to_string())?;
    if (LIFE_MIN..=LIFE_MAX).contains(&life) {
        return Ok(life);
    }
    Err(format!("it is {life}; expected {LIFE_MIN} to {LIFE_MAX}"))
}

pub(crate) fn names(given: Vec<String>) -> Result<SubscriberNames, String> {
    for name in &given {
        // A name may go on after a space.
        checked_name(name.strip_suffix('*').map_or(&**name, str::trim_end))?;
    }
    given.try_into().map_err(|error: SubscriberNamesError| error.to_string())
}

/// Returns the row, and the token itself, which no row has.
pub(crate) fn make(
    name: Arc<str>,
    scope: Scope,
    (life, subscribers): (Option<Nanos>, Option<SubscriberNames>),
    by: Arc<str>,
) -> (StoredToken, String) {
    let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random::<RANDOM_BYTES>()));
    let (digest, created) = (Sha256::digest(&token).into(), wall());
    let expires = life.map(|life| created + life);
    (StoredToken { name, digest, scope, created, by, expires, subscribers }, token)
}

pub(crate) fn to_json(token: &StoredToken, now: StoreTime) -> Value {
    json!({
        "name": &*token.name,
        "scope": token.scope.name(),
        "created": moment(token.created),
        "by": &*token.by,
        "expires": token.expires.map(moment),
        "subscribers": token.subscribers,
        "expired": token.is_expired(now),
    })
}
