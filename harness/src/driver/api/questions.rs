//! The calls that ask a sender for its queue, its retained deliveries, its dead letters, and the owner of a
//! subscriber.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use super::Api;
use crate::driver::answers::{self, Listed, Sample};
use crate::driver::call::{Content, assemble, check};
use crate::driver::error::ApiError;

/// The most pages of dead letters that are read.
const PAGES_MAX: usize = 100_000;

impl Api {
    /// The depth of the whole queue, and of each subscriber's where the answer has them.
    pub async fn depth(&self) -> Result<Vec<Sample>, ApiError> {
        self.hiding(self.depth_openly().await)
    }

    async fn depth_openly(&self) -> Result<Vec<Sample>, ApiError> {
        let depth = self.0.file.depth.as_ref().ok_or(ApiError::Absent { what: "depth" })?;
        let call = assemble("depth", &depth.request, &depth.headers, Content::None, &self.any())?;
        let reply = self.call(call).await?;
        check("depth", &reply, &[], &self.0.redactor)?;
        Ok(answers::samples(depth, &serde_json::from_slice(&reply.body).unwrap_or_default()))
    }

    /// When the oldest retained delivery was delivered, in Unix nanoseconds; none if none is retained.
    pub async fn oldest_kept(&self) -> Result<Option<u64>, ApiError> {
        self.hiding(self.oldest_kept_openly().await)
    }

    async fn oldest_kept_openly(&self) -> Result<Option<u64>, ApiError> {
        let kept = self.0.file.depth.as_ref().and_then(|depth| depth.kept.as_ref());
        let kept = kept.ok_or(ApiError::Absent { what: "kept" })?;
        let call = assemble("kept", &kept.request, &kept.headers, Content::None, &self.any())?;
        let reply = self.call(call).await?;
        check("kept", &reply, &[], &self.0.redactor)?;
        answers::oldest(kept, &reply.body)
    }

    /// The process that serves a subscriber, by the processes that answer; none if none of them does.
    pub async fn owner(&self, name: &str) -> Result<Option<usize>, ApiError> {
        self.hiding(self.owner_openly(name).await)
    }

    async fn owner_openly(&self, name: &str) -> Result<Option<usize>, ApiError> {
        let owner = self.0.file.owner().ok_or(ApiError::Absent { what: "owner" })?;
        for (worker, _) in self.0.addresses.iter().enumerate().filter(|(_, address)| address.answers()) {
            let call =
                assemble("owner", &owner.request, &owner.headers, Content::None, &self.variables(worker))?;
            // A process that fails to answer may be gone, and another may serve the subscriber.
            let Ok(reply) = self.call(call).await else { continue };
            check("owner", &reply, &[], &self.0.redactor)?;
            if answers::owns(owner, &serde_json::from_slice(&reply.body).unwrap_or_default(), name) {
                return Ok(Some(worker));
            }
        }
        Ok(None)
    }

    /// Lists all dead letters; more than `most` are an error.
    pub async fn dead(&self, most: usize) -> Result<Vec<Listed>, ApiError> {
        self.hiding(self.dead_openly(most).await)
    }

    async fn dead_openly(&self, most: usize) -> Result<Vec<Listed>, ApiError> {
        let dead = self.0.file.dead.as_ref().ok_or(ApiError::Absent { what: "dead" })?;
        let (mut variables, mut request, mut all) = (self.any(), &dead.request, Vec::new());
        let mut seen = BTreeSet::new();
        for _ in 0..PAGES_MAX {
            let call = assemble("dead", request, &dead.headers, Content::None, &variables)?;
            let reply = self.call(call).await?;
            check("dead", &reply, &[], &self.0.redactor)?;
            let subscribers = self.0.subscribers.read().unwrap_or_else(PoisonError::into_inner);
            let (answer, letters) = answers::listed(dead, &reply.body, &subscribers)?;
            drop(subscribers);
            all.extend(letters);
            let next = dead.next.as_ref().and_then(|next| answers::text(&answer, next));
            let (Some(next), Some(page)) = (next, &dead.page) else { return Ok(all) };
            if all.len() > most || !seen.insert(next.clone()) {
                break;
            }
            variables.insert("next".to_owned(), next);
            request = page;
        }
        Err(ApiError::Endless { listed: all.len(), most })
    }
}
