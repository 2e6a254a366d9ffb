//! `[sign]`: the sender's signatures, unless as each subscriber of the scenario wants.

use std::sync::Arc;

use hookproof_judge::signature::{Definition, Scheme, Written};
use hookproof_judge::trace::Signs;
use serde::Deserialize;

use super::template::Template;

#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Written<Template>")]
pub struct Sign {
    pub scheme: Scheme,
    /// The sender's public key, if no call saves it as `secret`.
    pub public_key: Option<Template>,
}

impl Sign {
    pub(super) fn declared(&self) -> Signs {
        match self.scheme.name() {
            "" => Signs::Own {
                signature: self.scheme.is_signed(),
                timestamp: self.scheme.has_timestamp(),
                id: self.scheme.id_header().is_some(),
                signs_timestamp: self.scheme.signs_timestamp(),
            },
            profile => match self.scheme.header_prefix() {
                Some(prefix) => {
                    Signs::Prefixed { profile: profile.to_owned(), header_prefix: prefix.to_owned() }
                }
                None => Signs::Profile(profile.to_owned()),
            },
        }
    }

    pub(super) fn needs_key(&self) -> bool {
        self.scheme.is_public() && self.public_key.is_none()
    }
}

impl TryFrom<Written<Template>> for Sign {
    type Error = String;

    fn try_from(written: Written<Template>) -> Result<Self, String> {
        let definition = Definition::read(&written).map_err(|wrong| format!("sign.{wrong}"))?;
        Ok(Self { scheme: Arc::new(definition), public_key: written.public_key })
    }
}
