//! Permission by `OPTIONS`. As for a token, all attempts of a lane wait for one request, which is no attempt. The engine
//! decides when it is asked again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::connect::Connector;
use super::failure::{Cause, Failure};
use super::outlet::{Aside, exchange_head, request_to};
use super::request::Destination;
use super::route::Route;
use super::sockets::Socket;
use super::timer::{SOONER, after, lock, now};
use crate::engine::Refusal;
use crate::guard::Target;
use crate::permission::Permission;

const VALID: Duration = Duration::from_secs(3_600);

#[derive(Default)]
pub(super) struct Permissions {
    aside: Aside,
    state: Mutex<State>,
    valid_until: std::sync::Mutex<Option<Instant>>,
}

#[derive(Default)]
struct State {
    whom: Option<(Target, Arc<Permission>)>,
    granted: Option<Instant>,
    refused: Option<(Instant, Refusal)>,
}

impl Permissions {
    pub(super) fn is_of_use(&self) -> bool {
        lock(&self.valid_until).is_some_and(|until| now() < until)
    }

    pub(super) async fn get(
        &self,
        target: &Destination,
        permission: &Arc<Permission>,
        (connector, route): (&Connector, &Route),
        room: impl Future<Output = Option<Socket>>,
        until: Instant,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let (began, deadline) = (now(), deadline.checked_sub(SOONER).unwrap_or(deadline));
        let state = timeout_at(deadline, self.state.lock()).await;
        let mut state = state.map_err(|_| Failure::Unpermitted(Refusal::NoAnswer))?;
        let is_same =
            state.whom.as_ref().is_some_and(|(url, known)| *url == target.url && known == permission);
        if !is_same {
            *state = State { whom: Some((target.url.clone(), Arc::clone(permission))), ..State::default() };
        }
        if state.granted.is_some_and(|until| now() < until) {
            return Ok(());
        }
        if let Some((_, refusal)) = state.refused.filter(|(at, _)| began <= *at) {
            return Err(Failure::Unpermitted(refusal));
        }
        let mut request = request_to(Method::OPTIONS, &target.url, Bytes::new()).map_err(Failure::Request)?;
        let origin = HeaderValue::from_str(&permission.origin);
        let origin = origin.map_err(|error| Failure::Request(Cause::of(&error)))?;
        request.headers_mut().insert("webhook-request-origin", origin);
        request.headers_mut().insert("webhook-request-rate", permission.rate.into());
        let wire = self.aside.open(connector, &route.origin, room, until).await?;
        let answer = timeout_at(deadline, exchange_head(wire, request)).await;
        let judged = match answer {
            Ok(Ok((head, _))) => judge(permission, &head.headers),
            Ok(Err(_)) | Err(_) => Err(Refusal::NoAnswer),
        };
        match judged {
            Ok(()) => {
                let until = after(VALID);
                *lock(&self.valid_until) = Some(until);
                (state.granted, state.refused) = (Some(until), None);
                Ok(())
            }
            Err(refusal) => {
                (state.granted, state.refused) = (None, Some((now(), refusal)));
                Err(Failure::Unpermitted(refusal))
            }
        }
    }
}

fn judge(permission: &Permission, headers: &HeaderMap) -> Result<(), Refusal> {
    let only = |name: &str| {
        let mut values = headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none()).map(HeaderValue::as_bytes)
    };
    permission.judge(only("webhook-allowed-origin"), only("webhook-allowed-rate"))
}
