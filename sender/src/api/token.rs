//! Tokens of the API, and the requests that each may make.

use std::fmt;
use std::sync::Arc;

use axum::http::Method;
use sha2::{Digest, Sha256};

use crate::engine::StoreTime;
pub use crate::store::token::Scope;
use crate::store::token::{StoredToken, SubscriberNames};

/// The least scope that a route needs.
pub(super) fn needed(method: &Method, path: &str) -> Scope {
    match (method, path) {
        (_, "/v1/tokens") => Scope::Admin,
        (&Method::GET, _) => Scope::Read,
        (&Method::POST, "/v1/events") => Scope::Emit,
        (&Method::POST, "/v1/subscribers" | "/v1/subscribers/{id}/rotate") => Scope::Admin,
        (&Method::POST, _) => Scope::Operate,
        _ => Scope::Admin,
    }
}

/// Those that `serve` was given. Each of another text.
#[derive(Clone, Debug, Default)]
pub struct Tokens(Vec<(Token, Caller)>);

/// The owner of a token.
#[derive(Clone, Debug)]
pub struct Caller {
    /// For the log; none without a token.
    pub name: Option<Arc<str>>,
    pub scope: Scope,
    /// All if none.
    pub subscribers: Option<SubscriberNames>,
}

impl Tokens {
    pub fn new(tokens: Vec<(Token, Caller)>) -> Result<Self, TokenError> {
        let again = tokens
            .iter()
            .enumerate()
            .any(|(at, (token, _))| tokens[..at].iter().any(|(earlier, _)| earlier.is(token)));
        if again { Err(TokenError::Again) } else { Ok(Self(tokens)) }
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `now` is the real time.
    pub(super) fn caller(&self, shown: &[u8], stored: &[StoredToken], now: StoreTime) -> Option<Caller> {
        let shown = Token(Sha256::digest(shown).into());
        if let Some((_, caller)) = self.0.iter().find(|(token, _)| token.is(&shown)) {
            return Some(caller.clone());
        }
        let found = stored.iter().find(|stored| Token(stored.digest).is(&shown));
        found.filter(|found| !found.is_expired(now)).map(Caller::of_stored)
    }
}

impl Caller {
    /// A variable of the environment may have the same name.
    fn of_stored(token: &StoredToken) -> Self {
        let name = Some(format!("token {}", token.name).into());
        Self { name, scope: token.scope, subscribers: token.subscribers.clone() }
    }
}

/// Holds only the digest.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; 32]);

impl Token {
    /// The fewest bytes; a shorter token could be guessed.
    pub const BYTES_MIN: usize = 16;
    /// The most bytes.
    pub const BYTES_MAX: usize = 1_024;

    pub fn new(text: &str) -> Result<Self, TokenError> {
        if !(Self::BYTES_MIN..=Self::BYTES_MAX).contains(&text.len()) {
            return Err(TokenError::Length { bytes: text.len() });
        }
        match text.bytes().position(|byte| !byte.is_ascii_graphic()) {
            Some(at) => Err(TokenError::Character { at }),
            None => Ok(Self(Sha256::digest(text).into())),
        }
    }

    /// Compares digests in constant time.
    fn is(&self, shown: &Self) -> bool {
        let pairs = self.0.iter().zip(shown.0);
        pairs.fold(0, |different, (ours, theirs)| different | (ours ^ theirs)) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Reveals nothing of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Too short or too long.
    #[error("the token has {bytes} bytes; expected {} to {}", Token::BYTES_MIN, Token::BYTES_MAX)]
    Length {
        /// Its length.
        bytes: usize,
    },
    /// Its scope would be unclear.
    #[error("the token is given twice; expected a token of its own for each scope")]
    Again,
    #[error("the token has a character at byte {at} that is not visible ASCII")]
    Character {
        /// Its byte position.
        at: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_the_token() {
        let token = Token::new("correct horse".replace(' ', "-").repeat(2).as_str()).unwrap();
        assert_eq!(format!("{token:?}"), "Token(…)");
        let caller = || Caller { name: None, scope: Scope::Read, subscribers: None };
        let tokens = Tokens::new(vec![(token.clone(), caller())]).unwrap();
        let caller_of = |shown: &str| tokens.caller(shown.as_bytes(), &[], StoreTime(0));
        assert!(caller_of("correct-horsecorrect-horse").is_some());
        for other in ["", "correct-horse", "correct-horsecorrect-horsf", "correct-horsecorrect-horse "] {
            assert!(caller_of(other).is_none(), "{other}");
        }
        let twice = Tokens::new(vec![(token.clone(), caller()), (token, caller())]);
        assert_eq!(twice.err(), Some(TokenError::Again));
    }

    #[test]
    fn a_stored_token_holds_until_it_expires() {
        let token = "hookproof_of-some-letters";
        let stored = StoredToken {
            name: "shop".into(),
            digest: Sha256::digest(token).into(),
            scope: Scope::Emit,
            created: StoreTime(1),
            by: "ann".into(),
            expires: Some(StoreTime(9)),
            subscribers: None,
        };
        let caller_of = |shown: &str, now| {
            let stored = std::slice::from_ref(&stored);
            let caller = Tokens::default().caller(shown.as_bytes(), stored, StoreTime(now));
            caller.map(|caller| (caller.name, caller.scope))
        };
        assert_eq!(caller_of(token, 8), Some((Some("token shop".into()), Scope::Emit)));
        assert_eq!(caller_of(token, 9), None);
        assert_eq!(caller_of("hookproof_of-some-letterz", 8), None);
    }

    #[test]
    fn a_token_must_be_long_enough_and_fit_a_header() {
        assert_eq!(Token::new("short"), Err(TokenError::Length { bytes: 5 }));
        assert_eq!(Token::new(&"x".repeat(1_025)), Err(TokenError::Length { bytes: 1_025 }));
        assert_eq!(Token::new("a token with blanks"), Err(TokenError::Character { at: 1 }));
    }
}
