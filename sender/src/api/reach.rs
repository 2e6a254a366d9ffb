//! The routes of tokens that are restricted to subscribers. A route that the table does not name is refused.

use std::sync::Arc;

use axum::extract::FromRequestParts as _;
use axum::http::Method;
use axum::http::request::Parts;

use super::App;
use super::deliveries::{self, Names};
use super::input::{Segment, seen_subscriber};
use super::jobs;
use super::problem::Problem;
use super::token::Caller;
use crate::roster::Roster;
use crate::store::read::Lanes;

#[derive(Clone, Copy)]
pub(super) enum Reach {
    NoData,
    /// The path names one.
    Subscriber,
    Delivery,
    Job,
    /// The handler leaves out others.
    Filtered,
    /// The reason.
    Refused(&'static str),
}

pub(super) fn reach(method: &Method, path: &str) -> Reach {
    match (method.as_str(), path) {
        ("GET", "/" | "/healthz" | "/readyz" | "/v1/openapi.json") => Reach::NoData,
        ("POST", "/v1/events")
        | ("GET", "/v1/subscribers" | "/v1/deliveries" | "/v1/attempts" | "/v1/dead" | "/v1/audit")
        | ("GET", "/v1/jobs" | "/v1/changes")
        | ("POST", "/v1/dead/redrive" | "/v1/dead/purge") => Reach::Filtered,
        ("GET" | "DELETE", "/v1/subscribers/{id}")
        | ("POST", "/v1/subscribers/{id}/pause" | "/v1/subscribers/{id}/resume")
        | ("POST", "/v1/subscribers/{id}/retry" | "/v1/subscribers/{id}/rotate")
        | ("POST", "/v1/subscribers/{id}/test" | "/v1/subscribers/{id}/plan")
        | ("POST", "/v1/subscribers/{id}/shed" | "/v1/subscribers/{id}/replay") => Reach::Subscriber,
        ("GET", "/v1/deliveries/{id}")
        | ("POST", "/v1/deliveries/{id}/resend" | "/v1/deliveries/{id}/retry") => Reach::Delivery,
        ("GET", "/v1/jobs/{id}")
        | ("POST", "/v1/jobs/{id}/pause" | "/v1/jobs/{id}/resume" | "/v1/jobs/{id}/cancel") => Reach::Job,
        // Events, shape and files of keys may be another's.
        ("POST", "/v1/subscribers") | ("PATCH", "/v1/subscribers/{id}") => {
            Reach::Refused("it decides what a subscriber is sent")
        }
        (_, "/v1/tokens" | "/v1/tokens/{name}") => Reach::Refused("tokens decide who reaches what"),
        _ => Reach::Refused("it covers the whole database"),
    }
}

impl Reach {
    pub(super) async fn check(self, app: &App, caller: &Caller, parts: &mut Parts) -> Result<(), Problem> {
        match self {
            Self::NoData | Self::Filtered => Ok(()),
            Self::Refused(why) => Err(Problem::restricted(why)),
            Self::Subscriber => {
                let Segment(whom) = Segment::from_request_parts(parts, app).await?;
                seen_subscriber(app, caller, &whom).await.map(drop)
            }
            Self::Delivery => {
                let Segment(id) = Segment::from_request_parts(parts, app).await?;
                let found = Names::now(app).await?.find(&id).ok_or_else(|| deliveries::unknown(&id))?;
                let found = app.sender().read(move |reader| reader.delivery(found)).await??;
                let lanes = caller.lanes(&app.sender().roster());
                let found = found.filter(|found| lanes.have(found.lane));
                found.map(drop).ok_or_else(|| deliveries::unknown(&id))
            }
            Self::Job => {
                let Segment(id) = Segment::from_request_parts(parts, app).await?;
                let job = jobs::number(&id)?;
                let found = app.sender().read(move |reader| reader.jobs(Some(job))).await??;
                let lane = found.first().and_then(|job| job.lane());
                let lanes = caller.lanes(&app.sender().roster());
                lane.filter(|lane| lanes.have(*lane)).map(drop).ok_or_else(|| jobs::unknown(&id))
            }
        }
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
