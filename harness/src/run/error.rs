//! Why a run left no trace, or not a whole one, and whose fault that is.

use std::path::PathBuf;

use crate::database::DatabaseError;
use crate::driver::{ApiError, FileError, StartError};
use crate::endpoint::{ReachError, TlsError};
use crate::traffic::ScheduleError;

/// A run that left no trace, or not a whole one.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The driver file cannot be used.
    #[error(transparent)]
    Driver(#[from] FileError),
    /// The traffic cannot be scheduled.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The sender cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The sender did not do as the driver asked before the run began.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The scenario forgives our own sender something.
    #[error(
        "subscriber {name} has burst_slack or window_slack, which our own sender needs none of; expected neither, or another \
         sender's --driver"
    )]
    Slack {
        /// Whose contract it is.
        name: String,
    },
    /// A fault goes by what the driver can't tell.
    #[error(
        "a fault is done to the {target}, which the driver {driver} cannot tell; expected its [start.owner], or worker = a number"
    )]
    Owner {
        /// The process that is meant.
        target: crate::scenario::FaultTarget,
        /// The driver.
        driver: String,
    },
    /// A fault sets the clock of a process, and there is nothing to do that with.
    #[error(
        "the scenario sets the clock of one process (clock-skew), which libfaketime does, and it is not installed; expected Debian's \
         package faketime (apt-get install faketime), or the path of libfaketimeMT.so.1 in HOOKPROOF_FAKETIME"
    )]
    Faketime,
    /// A fault sets the clock of a process, and the harness starts none.
    #[error(
        "the scenario sets the clock of one process (clock-skew), and the driver {driver} has no [start]; expected a driver by which \
         the harness starts the sender"
    )]
    NoProcess {
        /// The driver.
        driver: String,
    },
    /// The database cannot be had.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The driver can't hand a database to the sender.
    #[error(
        "the scenario has store = \"postgres\", and the [start] of the driver {driver} names no {{{{ database }}}} that it could be \
         handed to; expected that, or store = \"sqlite\""
    )]
    Store {
        /// The driver.
        driver: String,
    },
    /// The scenario's signing profile is not the harness's.
    #[error("the harness cannot verify: {0}")]
    Profile(String),
    /// The sender's secret is of no use.
    #[error("the secret of subscriber {name}, as the driver saves it, cannot be used: {error}")]
    Secret {
        /// Whose.
        name: String,
        /// Why not.
        error: crate::wire::KeyError,
    },
    /// The harness's files cannot be written.
    #[error("{path} cannot be written: {error}", path = path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// There are files where the sender's would go.
    #[error(
        "{path} is not a run's folder (it has files, and no {marker}), so it is not emptied; expected another --out, or a \
         folder that is empty",
        path = path.display(), marker = super::folder::MARKER
    )]
    Foreign {
        /// Where.
        path: PathBuf,
    },
    /// A run is under way where this one would go.
    #[error("another run is under way in {path}; expected another --out, or to wait for its end", path = path.display())]
    Occupied {
        /// Where.
        path: PathBuf,
    },
    /// Nobody could reach the endpoints so.
    #[error(transparent)]
    Reach(#[from] ReachError),
    /// The endpoints have no certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The endpoints cannot be opened.
    #[error(
        "the endpoints cannot be opened: {0}; with thousands of them, the limit on open files must allow it"
    )]
    Endpoints(std::io::Error),
    /// There are more endpoints than open files allow.
    #[error(
        "{subscribers} subscribers need about {needed} open files, and the limit is {limit}; expected fewer subscribers, or a \
         higher limit (ulimit -Hn)"
    )]
    Files {
        /// How many endpoints there are.
        subscribers: usize,
        /// What they need.
        needed: u64,
        /// What there is.
        limit: u64,
    },
    /// The processes of the sender can't be looked after.
    #[error("the sender's processes cannot be looked after: {0}")]
    Process(std::io::Error),
    /// Somebody wanted the run to end before it began.
    #[error("interrupted before the sender was ready")]
    Interrupted,
    /// The generator's thread is gone.
    #[error("the generator could not be started, or broke down")]
    Generator,
}

impl RunError {
    /// Whether it is the sender under test that could not be started or reached.
    #[must_use]
    pub const fn is_senders(&self) -> bool {
        match self {
            Self::Start(_) => true,
            Self::Api(error) => !matches!(error, ApiError::Certificate(_)),
            _ => false,
        }
    }

    /// Whether it is what was asked for that cannot be done.
    #[must_use]
    pub const fn is_askers(&self) -> bool {
        let folder = matches!(self, Self::Foreign { .. } | Self::Occupied { .. });
        folder
            || matches!(
                self,
                Self::Driver(_)
                    | Self::Schedule(_)
                    | Self::Files { .. }
                    | Self::Slack { .. }
                    | Self::Owner { .. }
                    | Self::Faketime
                    | Self::NoProcess { .. }
                    | Self::Store { .. }
                    | Self::Database(DatabaseError::Missing | DatabaseError::Given(_))
                    | Self::Reach(_)
                    | Self::Tls(TlsError::Given { .. })
                    | Self::Api(ApiError::Certificate(_))
            )
    }
}
