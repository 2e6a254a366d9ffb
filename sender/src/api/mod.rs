//! The sender over HTTP: events in, everything that an operator asks and changes, figures for machines.
//!
//! ```text
//!   socket ──► server ──► gate ──► routes ──► a handler ──► Sender
//!              headers,   token,               one file for each noun
//!              time       time
//! ```
//!
//! - [`server`]: where to listen, and under which limits; `connection`: what is known of each; [`token`]: who may ask.
//! - `gate`: what every request passes; `routes`: all there is, in one table; `openapi.json`: the same for machines.
//! - `problem`: what every refusal looks like; `input`: reading paths, queries and bodies.
//! - `events`, `subscribers`, `plan`, `shed`, `deliveries`, `dead`, `status`, `nodes`, `audit`, `metrics`, `health`: the nouns; `console`: a page that
//!   shows them to people.
//!
//! Every refusal that a handler or the router gives is `{"error": {"code", "message", "field"}}`. Only what is no HTTP
//! at all is answered by the HTTP library itself, with a bare 400 or 431. No answer but that to a creation or a rotation
//! holds a secret.

mod audit;
mod connection;
mod console;
mod dead;
mod deliveries;
mod events;
mod exposition;
mod form;
mod gate;
mod health;
mod input;
mod metrics;
mod moment;
mod nodes;
mod plan;
mod problem;
mod routes;
pub mod server;
mod shed;
mod status;
mod subscribers;
pub mod token;

pub use server::{BindError, bind, serve};
pub use token::{Token, TokenError};

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;

use self::input::Room;
use crate::delivery_ids::DeliveryIds;
use crate::guard::Guard;
use crate::runtime::Sender;
use crate::store::StoreError;
use crate::subscriber::RegionSecrets;

/// What the API needs to know beside the sender.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which addresses a subscriber's URL may name.
    pub guard: Guard,
    /// The secrets of regions, against which settings are checked.
    pub regions: RegionSecrets,
    /// What a request must show, if anything.
    pub token: Option<Token>,
    /// How long one request may take, its body included.
    pub request_time_max: Duration,
}

impl Config {
    /// Half a minute: longer than a commit that waits for a locked database is worth waiting for.
    pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
}

/// The API, for a server or a test to call.
pub fn router(sender: Sender, config: Config) -> Router {
    routes::router(App(Arc::new(Inner {
        sender,
        config,
        delivery_ids: OnceLock::new(),
        room: Room::new(EVENTS_BYTES_MAX),
    })))
}

/// Events that are read or recorded at once take no more than this: sixteen of the largest batches.
const EVENTS_BYTES_MAX: usize = 256 << 20;

/// What every handler works with.
#[derive(Clone)]
struct App(Arc<Inner>);

struct Inner {
    sender: Sender,
    config: Config,
    delivery_ids: OnceLock<DeliveryIds>,
    room: Room,
}

impl App {
    fn sender(&self) -> &Sender {
        &self.0.sender
    }

    fn config(&self) -> &Config {
        &self.0.config
    }

    /// The memory for events.
    fn room(&self) -> &Room {
        &self.0.room
    }

    /// What the store's deliveries are called.
    async fn delivery_ids(&self) -> Result<DeliveryIds, StoreError> {
        if let Some(ids) = self.0.delivery_ids.get() {
            return Ok(*ids);
        }
        let glance = self.sender().read(|reader| reader.glance()).await??;
        Ok(*self.0.delivery_ids.get_or_init(|| DeliveryIds::new(glance.identity)))
    }
}
