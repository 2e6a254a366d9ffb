//! The calls about one subscriber, and the teardown.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use tokio::task::JoinSet;

use super::Api;
use crate::driver::calls::Request;
use crate::driver::error::ApiError;
use crate::driver::template::Variables;
use hookproof_judge::scenario::{Duration, Limit, SECOND, Subscriber};
use hookproof_judge::trace::Told;
use hookproof_play::settings::{of_limit, of_subscriber, of_timeout};

/// The most unsubscribe calls at once.
const UNSUBSCRIBING_MAX: usize = 16;
/// The time limit of the whole teardown.
const AFTER_WITHIN_NS: u64 = 120 * SECOND;

/// A subscriber as the sender is given it.
#[derive(Clone, Copy, Debug)]
pub struct Subscription<'a> {
    /// Its settings in the scenario.
    pub subscriber: &'a Subscriber,
    /// The types of the run's events that it is owed.
    pub types: &'a [String],
    /// The URL of its endpoint.
    pub url: &'a str,
    /// A secret, for senders that don't generate one.
    pub secret: &'a str,
}

impl Api {
    /// Subscribes an endpoint, and waits until the sender serves it if the driver file has `[poll]`. Returns
    /// the key that verifies its signatures: its secret, or the sender's public key.
    pub async fn subscribe(&self, one: &Subscription<'_>) -> Result<String, ApiError> {
        let Subscription { subscriber, types, url, secret } = *one;
        let name = &subscriber.name;
        self.0.redactor.learn([secret.to_owned()]);
        let mut own = of_subscriber(subscriber, types, url, secret);
        // From the first call on there may be something to undo, even if its answer is unusable.
        self.know(name, own.clone());
        for request in &self.0.file.subscribe {
            let mut variables = self.any();
            variables.extend(own.clone());
            self.note_told(name, request, &variables);
            own.extend(self.make("subscribe", request, &variables).await?);
            self.know(name, own.clone());
        }
        if let Some(poll) = &self.0.file.poll {
            let mut variables = self.any();
            variables.extend(own.clone());
            own.extend(self.make("poll", poll, &variables).await?);
        }
        let public = self.0.file.sign.as_ref().and_then(|sign| sign.public_key.as_ref());
        let mut variables = self.any();
        variables.extend(own.clone());
        let public = public.map(|key| key.fill(&variables)).transpose();
        let public = public.map_err(|error| ApiError::Template { what: "sign.public_key", error });
        let public = self.hiding(public)?;
        let secret = own.get("secret").cloned().unwrap_or_default();
        self.know(name, own);
        Ok(public.unwrap_or(secret))
    }

    fn know(&self, name: &str, own: Variables) {
        let mut subscribers = self.0.subscribers.write().unwrap_or_else(PoisonError::into_inner);
        subscribers.insert(name.to_owned(), own);
    }

    /// Values that subscribers were given in place of the scenario's, since the sender cannot express those.
    #[must_use]
    pub fn told(&self) -> Vec<Told> {
        self.0.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note_told(&self, name: &str, request: &Request, variables: &Variables) {
        let differences = request.templates().flat_map(|template| template.differences(variables));
        let mut told = self.0.told.lock().unwrap_or_else(PoisonError::into_inner);
        for difference in differences {
            let one = Told { subscriber: name.to_owned(), what: self.hide(&difference.to_string()) };
            if !told.contains(&one) {
                told.push(one);
            }
        }
    }

    /// Changes a subscriber's limit, and its timeout if given.
    pub async fn change(&self, name: &str, limit: &Limit, timeout: Option<Duration>) -> Result<(), ApiError> {
        let mut words = of_limit(limit);
        words.extend(timeout.into_iter().flat_map(of_timeout));
        self.about("change", self.0.file.change.as_ref(), name, words).await.map(drop)
    }

    /// Gives a subscriber a new secret, and returns it. The old one signs beside it for `overlap`.
    pub async fn rotate(&self, name: &str, overlap: Duration) -> Result<Option<String>, ApiError> {
        let overlap = Variables::from([("overlap".to_owned(), overlap.to_string())]);
        let mut saved = self.about("rotate", self.0.file.rotate.as_ref(), name, overlap).await?;
        Ok(saved.remove("secret"))
    }

    /// Redrives a subscriber's dead letters.
    pub async fn redrive(&self, name: &str) -> Result<(), ApiError> {
        self.about("redrive", self.0.file.redrive.as_ref(), name, Variables::new()).await.map(drop)
    }

    async fn about(
        &self,
        what: &'static str,
        request: Option<&Request>,
        name: &str,
        more: Variables,
    ) -> Result<Variables, ApiError> {
        let request = request.ok_or(ApiError::Absent { what })?;
        let mut variables = self.any();
        if let Some(own) = self.0.subscribers.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            variables.extend(own.clone());
        }
        variables.extend(more);
        self.note_told(name, request, &variables);
        self.make(what, request, &variables).await
    }

    /// Ends every subscription and makes the calls of `[teardown]`, however the run ended. Returns the
    /// failures, for people.
    pub async fn tear_down(&self) -> Vec<String> {
        self.tear_down_within(AFTER_WITHIN_NS).await
    }

    pub(super) async fn tear_down_within(&self, within_ns: u64) -> Vec<String> {
        let mut failed = Vec::new();
        tokio::select! {
            () = self.tear_all_down(&mut failed) => {}
            () = self.0.clock.pass(within_ns) => {
                let within = Duration(within_ns);
                failed.push(format!("not all was taken back within {within}"));
            }
        }
        let left = self.0.subscribers.read().unwrap_or_else(PoisonError::into_inner).len();
        if left > 0 && !self.0.file.unsubscribe.is_empty() {
            failed.push(format!("{left} subscriptions are left with the sender"));
        }
        failed
    }

    async fn tear_all_down(&self, failed: &mut Vec<String>) {
        let names: Vec<String> = {
            let subscribers = self.0.subscribers.read().unwrap_or_else(PoisonError::into_inner);
            if self.0.file.unsubscribe.is_empty() {
                Vec::new()
            } else {
                subscribers.keys().cloned().collect()
            }
        };
        let mut calls = JoinSet::new();
        for name in names {
            if calls.len() >= UNSUBSCRIBING_MAX {
                failed.extend(outcome(calls.join_next().await));
            }
            let api = self.clone();
            calls.spawn(async move { api.unsubscribe(&name).await });
        }
        while !calls.is_empty() {
            failed.extend(outcome(calls.join_next().await));
        }
        let begun = self.0.begun.load(Ordering::Relaxed);
        for request in self.0.file.teardown.iter().filter(|_| begun) {
            let made = self.make("teardown", request, &self.any()).await;
            failed.extend(made.err().map(|error| error.to_string()));
        }
    }

    /// Ends a subscription.
    pub async fn unsubscribe(&self, name: &str) -> Result<(), String> {
        for request in &self.0.file.unsubscribe {
            let made = self.about("unsubscribe", Some(request), name, Variables::new()).await;
            made.map_err(|error| format!("{name}: {error}"))?;
        }
        self.0.subscribers.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        Ok(())
    }
}

fn outcome(ended: Option<Result<Result<(), String>, tokio::task::JoinError>>) -> Option<String> {
    match ended? {
        Ok(done) => done.err(),
        Err(error) => Some(error.to_string()),
    }
}
