//! Tokens of the API. Each change is a new version of the subscriber set, because all processes watch that.

use std::sync::Arc;

use super::subscribe::SubscriberRows;
use crate::reply::{Refusal, Reply};
use crate::token::{StoredToken, SubscriberNames, TOKENS_MAX};

pub(crate) fn names_text(names: Option<&SubscriberNames>) -> Option<String> {
    names.map(|names| serde_json::json!(names.as_slice()).to_string())
}

/// `None`: the text cannot be read.
#[expect(clippy::option_option, reason = "a row without names, and one with names that cannot be read")]
pub(crate) fn read_names(text: Option<&str>) -> Option<Option<SubscriberNames>> {
    text.map(serde_json::from_str).transpose().ok()
}

pub(crate) trait TokenRows: SubscriberRows {
    fn count_tokens(&mut self) -> Result<u64, Self::Error>;

    fn has_token(&mut self, name: &str) -> Result<bool, Self::Error>;

    fn insert_token(&mut self, token: &StoredToken) -> Result<(), Self::Error>;

    fn delete_token(&mut self, name: &str) -> Result<(), Self::Error>;

    fn create_token(&mut self, token: &StoredToken) -> Result<Reply, Self::Error> {
        if self.has_token(&token.name)? {
            return Ok(Reply::Refused(Refusal::TokenTaken(token.name.clone())));
        }
        if self.count_tokens()? >= TOKENS_MAX {
            return Ok(Reply::Refused(Refusal::TooManyTokens));
        }
        self.insert_token(token)?;
        self.next_roster()?;
        Ok(Reply::Done)
    }

    fn revoke_token(&mut self, name: &Arc<str>) -> Result<Reply, Self::Error> {
        if !self.has_token(name)? {
            return Ok(Reply::Refused(Refusal::UnknownToken(name.clone())));
        }
        self.delete_token(name)?;
        self.next_roster()?;
        Ok(Reply::Done)
    }
}
