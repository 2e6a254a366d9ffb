//! All routes, which can be replaced while deliveries are under way.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::sync::Semaphore;
use tower::Layer as _;

use super::Answer;
use super::forward::Target;
use super::route::{Forward, Memory, Route};
use super::window::Window;
use crate::answer::text;
use crate::clock::Clock;
use crate::layer::{Admission, Verify};
use crate::verify::{Keys, Rejection, verify};

const SUBSCRIBER: &str = "x-vvv-subscriber";

#[derive(Clone, Debug)]
pub struct RouteSettings {
    pub keys: Keys,
    pub target: Target,
    /// The time limit until the target's status, with the wait for an earlier request with the same id.
    pub timeout: Duration,
    /// With one route for all, `None` allows any path. With a route for each subscriber, deliveries here need
    /// no `X-VVV-Subscriber`.
    pub path: Option<String>,
}

#[derive(Clone, Debug)]
pub enum Routes {
    One(Box<RouteSettings>),
    BySubscriber(BTreeMap<String, RouteSettings>),
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long a forwarded id is remembered.
    pub window: Duration,
    /// The most ids of one route; the oldest make room.
    pub route_ids_max: usize,
    /// The most ids of all routes, divided evenly.
    pub ids_max: usize,
    /// The most requests under way on one of several routes.
    pub route_under_way_max: usize,
    /// The most requests under way on all routes.
    pub under_way_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(30),
            route_ids_max: 65_536,
            ids_max: 262_144,
            route_under_way_max: 64,
            under_way_max: 256,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Share {
    ids_max: usize,
    under_way_max: usize,
}

impl Options {
    const fn for_one(&self) -> Share {
        Share { ids_max: self.route_ids_max, under_way_max: self.under_way_max }
    }

    fn for_each_of(&self, routes: usize) -> Share {
        let ids_max = self.route_ids_max.min(self.ids_max / routes.max(1));
        Share { ids_max, under_way_max: self.route_under_way_max }
    }
}

#[derive(Debug)]
pub(super) struct Table {
    admission: Admission,
    options: Options,
    under_way: Arc<Semaphore>,
    now: RwLock<Arc<Moment>>,
}

#[derive(Debug, Default)]
struct Moment {
    /// A route for all has no name.
    services: BTreeMap<String, RouteService>,
    by_path: BTreeMap<String, RouteService>,
    for_all: Option<(RouteService, Option<String>)>,
    profiles: Vec<Keys>,
}

#[derive(Clone, Debug)]
pub(super) struct RouteService {
    pub(super) service: Verify<Forward>,
    memory: Arc<Memory>,
}

impl Table {
    pub(super) fn new(admission: Admission, options: Options, routes: Routes) -> Self {
        let under_way = Arc::new(Semaphore::new(options.under_way_max));
        let table = Self { admission, options, under_way, now: RwLock::default() };
        table.replace(routes);
        table
    }

    /// Requests under way end on their old route.
    pub(super) fn replace(&self, routes: Routes) {
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        let next = match routes {
            Routes::One(settings) => {
                let path = settings.path.clone();
                let service = self.route(String::new(), *settings, None, self.options.for_one());
                Moment { for_all: Some((service, path)), ..Moment::default() }
            }
            Routes::BySubscriber(settings) => self.several(settings, &now),
        };
        *now = Arc::new(next);
    }

    fn several(&self, settings: BTreeMap<String, RouteSettings>, before: &Moment) -> Moment {
        let share = self.options.for_each_of(settings.len());
        let mut next = Moment::default();
        for (subscriber, settings) in settings {
            if next.profiles.iter().all(|keys| keys.profile() != settings.keys.profile()) {
                next.profiles.push(settings.keys.clone());
            }
            let path = settings.path.clone();
            let known = before.services.get(&subscriber);
            let service = self.route(subscriber.clone(), settings, known, share);
            next.by_path.extend(path.map(|path| (path, service.clone())));
            next.services.insert(subscriber, service);
        }
        next
    }

    fn route(
        &self,
        subscriber: String,
        settings: RouteSettings,
        before: Option<&RouteService>,
        share: Share,
    ) -> RouteService {
        let memory = before.map_or_else(
            || {
                let window = Window::new(self.options.window, share.ids_max);
                Arc::new(Memory { window, under_way: Arc::new(Semaphore::new(share.under_way_max)) })
            },
            |before| Arc::clone(&before.memory),
        );
        memory.window.resize(share.ids_max);
        let RouteSettings { keys, target, timeout, .. } = settings;
        let route = Route {
            subscriber,
            target,
            timeout,
            clock: self.admission.clock().clone(),
            memory: Arc::clone(&memory),
            under_way_in_all: Arc::clone(&self.under_way),
        };
        let layer = self.admission.layer_with(keys, status);
        RouteService { service: layer.layer(Forward(Arc::new(route))), memory }
    }

    pub(super) fn find(&self, headers: &HeaderMap, path: &str) -> Result<RouteService, Unrouted> {
        let now = Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner));
        if let Some((service, own)) = &now.for_all {
            let here = own.as_deref().is_none_or(|own| own == path);
            return if here { Ok(service.clone()) } else { Err(Unrouted::Elsewhere) };
        }
        let found = match subscriber(headers)? {
            Some(subscriber) => now.services.get(subscriber),
            None => now.by_path.get(path),
        };
        found.cloned().ok_or_else(|| now.unknown(headers, self.admission.clock()))
    }
}

impl Moment {
    /// A header that all profiles miss is reported first.
    fn unknown(&self, headers: &HeaderMap, clock: &Clock) -> Unrouted {
        let lacks = |keys| verify(clock.seconds(), headers, b"", keys).is_err_and(|it| is_incomplete(&it));
        if self.profiles.iter().all(lacks) { Unrouted::Incomplete } else { Unrouted::Unknown }
    }
}

fn subscriber(headers: &HeaderMap) -> Result<Option<&str>, Unrouted> {
    let mut values = headers.get_all(SUBSCRIBER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Unrouted::Malformed);
    }
    let text = value.to_str().ok().filter(|text| !text.is_empty());
    let text = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
    text.map(Some).ok_or(Unrouted::Malformed)
}

/// 400 for a missing header, where [`Rejection::status`] is 401.
fn status(rejection: &Rejection) -> StatusCode {
    if is_incomplete(rejection) { StatusCode::BAD_REQUEST } else { rejection.status() }
}

const fn is_incomplete(rejection: &Rejection) -> bool {
    matches!(rejection, Rejection::Missing { .. } | Rejection::Empty { .. })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unrouted {
    /// The subscriber's header is repeated, empty or invalid.
    Malformed,
    /// The headers lack a field of every profile.
    Incomplete,
    Unknown,
    /// The one route has another path.
    Elsewhere,
}

impl Unrouted {
    pub(super) fn answer(self) -> Answer {
        let (status, line) = match self {
            Self::Malformed => (
                StatusCode::BAD_REQUEST,
                "the header x-vvv-subscriber is not one name of visible ASCII characters",
            ),
            Self::Incomplete => (
                StatusCode::BAD_REQUEST,
                "a header of the signing profile is missing; expected the delivery's id and signature",
            ),
            Self::Unknown => (StatusCode::NOT_FOUND, "unknown subscriber"),
            Self::Elsewhere => (StatusCode::NOT_FOUND, "no route is configured for this path"),
        };
        text(status, line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_routes_together_remember_no_more_than_is_allowed() {
        let options = Options::default();
        for routes in [0, 1, 2, 4, 5, 300, 1_024] {
            let Share { ids_max, under_way_max } = options.for_each_of(routes);
            assert!(ids_max > 0 && ids_max <= options.route_ids_max, "{routes}: {ids_max}");
            assert!(ids_max * routes <= options.ids_max, "{routes}: {ids_max}");
            assert!(under_way_max < options.under_way_max, "one route of several may take all places");
        }
    }
}
