//! The routes of tokens that are restricted to subscribers. A route that the table does not name is refused.

use std::sync::Arc;

use axum::http::Method;

use super::token::Caller;
use crate::roster::Roster;
use crate::store::read::Lanes;

/// Each handler leaves out other subscribers. Fails with the reason why a restricted token may not call the route.
pub(super) fn reach(method: &Method, path: &str) -> Result<(), &'static str> {
    match (method.as_str(), path) {
        ("GET", "/" | "/healthz" | "/readyz" | "/v1/openapi.json")
        | ("POST", "/v1/events")
        | ("GET", "/v1/subscribers" | "/v1/deliveries" | "/v1/attempts" | "/v1/dead" | "/v1/audit")
        | ("GET", "/v1/jobs" | "/v1/changes")
        | ("POST", "/v1/dead/redrive" | "/v1/dead/purge")
        | ("GET" | "DELETE", "/v1/subscribers/{id}")
        | ("POST", "/v1/subscribers/{id}/pause" | "/v1/subscribers/{id}/resume")
        | ("POST", "/v1/subscribers/{id}/retry" | "/v1/subscribers/{id}/rotate")
        | ("POST", "/v1/subscribers/{id}/test" | "/v1/subscribers/{id}/plan")
        | ("POST", "/v1/subscribers/{id}/shed" | "/v1/subscribers/{id}/replay")
        | ("GET", "/v1/deliveries/{id}")
        | ("POST", "/v1/deliveries/{id}/resend" | "/v1/deliveries/{id}/retry")
        | ("GET", "/v1/jobs/{id}")
        | ("POST", "/v1/jobs/{id}/pause" | "/v1/jobs/{id}/resume" | "/v1/jobs/{id}/cancel") => Ok(()),
        // Events, shape and files of keys may be another's.
        ("POST", "/v1/subscribers") | ("PATCH", "/v1/subscribers/{id}") => {
            Err("it sets the events of a subscriber")
        }
        (_, "/v1/tokens" | "/v1/tokens/{name}") => Err("tokens give access to subscribers"),
        _ => Err("it covers the whole database"),
    }
}

impl Caller {
    pub(super) const fn is_restricted(&self) -> bool {
        self.subscribers.is_some()
    }

    pub(super) fn sees(&self, name: &str) -> bool {
        self.subscribers.as_ref().is_none_or(|names| names.include(name))
    }

    /// Without removed ones: their names may be taken again.
    pub(super) fn lanes(&self, roster: &Roster) -> Lanes {
        if !self.is_restricted() {
            return Lanes::All;
        }
        let seen = roster.subscribers().filter(|known| self.sees(known.name()));
        Lanes::These(seen.map(|known| known.lane()).collect())
    }

    pub(super) fn ids(&self, roster: &Roster) -> Option<Vec<Arc<str>>> {
        let seen = roster.subscribers().filter(|known| self.sees(known.name()));
        self.is_restricted().then(|| seen.map(|known| Arc::clone(known.id())).collect())
    }
}
