//! The sender's HTTP API.
//!
//! ```text
//!   socket ──► server ──► gate ──► routes ──► a handler ──► Sender
//!              headers,   token,               one file for each noun
//!              time       time
//! ```
//!
//! - [`server`]: listener and limits; `connection`: the state of each.
//! - `gate`: checks every request; `token`: the scopes of tokens; `reach`: the routes of restricted ones.
//! - `routes`: the table; `openapi.json`: its description for machines; `mcp`: the routes as tools of a model.
//! - `problem`: refusals; `input`: paths, queries and bodies; one file for each noun.
//!
//! Refusals are `{"error": {"code", "message", "field"}}`, except for malformed HTTP. Only the answers to a creation
//! or a rotation hold a secret.

mod changes;
mod connection;
mod dead;
mod deliveries;
mod events;
mod exposition;
mod forget;
mod form;
mod gate;
mod health;
mod input;
mod jobs;
mod mcp;
mod metrics;
mod otlp;
mod plan;
mod problem;
mod reach;
mod retry;
mod routes;
pub mod server;
mod status;
mod subscribers;
mod token;
mod tokens;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
pub use mcp::Mcp;
pub use otlp::{Collector, export};
pub use server::{BindError, bind, is_reachable, serve};
pub use token::{Caller, Scope, Token, TokenError, Tokens};

use self::input::Room;
use crate::delivery_ids::DeliveryIds;
use crate::guard::Guard;
use crate::runtime::Sender;
use crate::store::StoreError;
use crate::subscriber::RegionSecrets;

#[derive(Clone, Debug)]
pub struct Config {
    pub guard: Guard,
    pub regions: RegionSecrets,
    /// Each request needs one of them, or one of the database. If there never were any, any client on this machine may
    /// do everything.
    pub tokens: Tokens,
    /// Other machines reach the API, so each request needs a token even if there is none.
    pub is_reachable: bool,
    /// The time limit of a request, its body included.
    pub request_time_max: Duration,
}

impl Config {
    /// Longer than a commit should wait for a locked database.
    pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
}

pub fn router(sender: Sender, config: Config) -> Router {
    routes::router(App::new(sender, config))
}

/// Sixteen of the largest batches.
const EVENTS_BYTES_MAX: usize = 256 << 20;

#[derive(Clone)]
struct App(Arc<Inner>);

struct Inner {
    sender: Sender,
    config: Config,
    delivery_ids: OnceLock<DeliveryIds>,
    room: Room,
}

impl App {
    fn new(sender: Sender, config: Config) -> Self {
        let room = Room::new(EVENTS_BYTES_MAX);
        Self(Arc::new(Inner { sender, config, delivery_ids: OnceLock::new(), room }))
    }

    fn sender(&self) -> &Sender {
        &self.0.sender
    }

    fn config(&self) -> &Config {
        &self.0.config
    }

    fn room(&self) -> &Room {
        &self.0.room
    }

    async fn delivery_ids(&self) -> Result<DeliveryIds, StoreError> {
        if let Some(ids) = self.0.delivery_ids.get() {
            return Ok(*ids);
        }
        let glance = self.sender().read(|reader| reader.glance()).await??;
        Ok(*self.0.delivery_ids.get_or_init(|| DeliveryIds::new(glance.identity)))
    }
}
