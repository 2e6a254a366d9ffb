use std::path::PathBuf;

use hookproof_judge::exit::{HARNESS, UNREACHABLE, USAGE};
use hookproof_play::traffic::ScheduleError;
use rustix::io::Errno;

use crate::database::DatabaseError;
use crate::driver::{ApiError, CallError, FileError, StartError};
use crate::endpoint::{ListenError, ReachError, TlsError};

/// The trace is missing or incomplete.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Driver(#[from] FileError),
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(
        "a fault targets the {target}, which the driver {driver} cannot find; expected [start.owner] in the \
         driver, or worker = NUMBER in the fault"
    )]
    Owner { target: hookproof_judge::scenario::FaultTarget, driver: String },
    #[error(
        "the fault clock-skew needs libfaketime, which is not installed; install it (Debian: apt-get install \
         faketime), or put the path of libfaketimeMT.so.1 into HOOKPROOF_FAKETIME"
    )]
    Faketime,
    #[error(
        "the fault clock-skew needs a sender that the harness starts, and the driver {driver} has no [start]; \
         expected a driver with [start]"
    )]
    NoProcess { driver: String },
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error(
        "the scenario has store = \"postgres\", and the [start] of the driver {driver} does not use {{{{ \
         database }}}}; expected it there, or store = \"sqlite\""
    )]
    Store { driver: String },
    #[error(
        "subscriber.sign: {subscriber} has {profile}, which our sender lacks; choose another profile, or the \
         driver of a sender with this one"
    )]
    Sign { subscriber: String, profile: String },
    #[error(
        "the scenario shows wrong certificates, so its endpoints use TLS, and the driver {driver} has no start.trust; \
         expected it, or --tls if the sender trusts {{{{ ca }}}} already"
    )]
    Trust { driver: String },
    #[error("the secret of subscriber {name}, as the driver saves it, cannot be used: {error}")]
    Secret { name: String, error: hookproof_judge::signature::KeyError },
    #[error("{path} cannot be written: {error}", path = path.display())]
    File { path: PathBuf, error: std::io::Error },
    #[error(
        "{path} is not the folder of a run (it has files, and no {marker}), so it is not emptied; expected \
         another --out, or an empty folder",
        path = path.display(), marker = super::folder::MARKER
    )]
    Foreign { path: PathBuf },
    #[error("another run uses {path}; expected another --out, or wait for its end", path = path.display())]
    Occupied { path: PathBuf },
    #[error(transparent)]
    Reach(#[from] ReachError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the endpoints cannot be opened: {0}{more}", more = more_files(.0))]
    Endpoints(std::io::Error),
    #[error("no thread can be started for the endpoints: {0}")]
    Thread(std::io::Error),
    #[error("the ceiling of the machine cannot be measured: {0}{more}", more = more_files(.0))]
    Ceiling(std::io::Error),
    #[error("no port is free for the sender: {0}")]
    Port(std::io::Error),
    #[error(
        "{subscribers} subscribers need about {needed} open files, and the limit is {limit}; expected fewer subscribers, or a \
         higher limit (ulimit -Hn)"
    )]
    Files { subscribers: usize, needed: u64, limit: u64 },
    #[error("the harness cannot supervise the sender's processes: {0}")]
    Process(std::io::Error),
    #[error("interrupted before the sender was ready")]
    Interrupted,
    #[error("the load generator could not be started, or failed")]
    Generator,
}

impl RunError {
    #[must_use]
    pub fn code(&self) -> u8 {
        if self.is_senders() {
            UNREACHABLE
        } else if self.is_askers() {
            USAGE
        } else {
            HARNESS
        }
    }

    #[must_use]
    pub const fn is_senders(&self) -> bool {
        match self {
            Self::Api(ApiError::Silent(CallError { ours: true, .. })) => false,
            Self::Start(StartError::Command(error)) | Self::Api(error) => !is_unmade(error),
            Self::Start(_) => true,
            _ => false,
        }
    }

    #[must_use]
    pub fn is_askers(&self) -> bool {
        match self {
            Self::Driver(_)
            | Self::Schedule(_)
            | Self::Files { .. }
            | Self::Foreign { .. }
            | Self::Occupied { .. }
            | Self::Owner { .. }
            | Self::Faketime
            | Self::NoProcess { .. }
            | Self::Store { .. }
            | Self::Sign { .. }
            | Self::Database(DatabaseError::Missing | DatabaseError::Given(_))
            | Self::Reach(_)
            | Self::Tls(TlsError::Given { .. }) => true,
            Self::Start(StartError::Command(error)) | Self::Api(error) => is_unmade(error),
            Self::Endpoints(error) => {
                let listening = error.get_ref().and_then(|error| error.downcast_ref::<ListenError>());
                listening.is_some_and(ListenError::is_askers)
            }
            _ => false,
        }
    }
}

/// Whether a call failed before it was sent, because of the driver file or its variables.
const fn is_unmade(error: &ApiError) -> bool {
    matches!(error, ApiError::Template { .. } | ApiError::Request { .. } | ApiError::Certificate(_))
}

/// Empty while descriptors are left.
fn more_files(error: &std::io::Error) -> &'static str {
    let first: &(dyn std::error::Error + 'static) = error;
    let mut causes = std::iter::successors(Some(first), |error| error.source());
    let is_it = |error: &(dyn std::error::Error + 'static)| {
        let errno = error.downcast_ref::<std::io::Error>().and_then(Errno::from_io_error);
        matches!(errno, Some(Errno::MFILE | Errno::NFILE))
    };
    if causes.any(is_it) { "; with thousands of them, the limit on open files must allow it" } else { "" }
}

#[cfg(test)]
mod tests {
    use std::io;

    use hookproof_judge::trace::Recorder;
    use hookproof_play::traffic::Tokens;

    use super::*;
    use crate::clock::Clock;
    use crate::driver::DriverFile;
    use crate::endpoint::{Endpoints, Reach, Stage};

    async fn opened_at(bind: &str) -> RunError {
        let (recorder, _records) = Recorder::new(10);
        let stage = Stage { clock: Clock::begun(), recorder, tokens: Tokens::new(0), seed: 1, offered: None };
        let public = Some("http://hooks.example/{endpoint}".parse().unwrap());
        let reach = Reach { bind: Some(bind.parse().unwrap()), public, ..Reach::default() };
        RunError::Endpoints(Endpoints::open_at(Vec::new(), &stage, &reach, None).await.unwrap_err())
    }

    #[tokio::test]
    async fn an_address_that_cannot_be_had_is_named_and_was_asked_for_in_vain() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = listener.local_addr().unwrap().to_string();
        let rows = [
            (taken, "with a free port"),
            // An address for documentation (RFC 5737).
            ("192.0.2.1:8080".to_owned(), "with an address of this machine"),
        ];
        for (bind, expected) in rows {
            let error = opened_at(&bind).await;
            let said = error.to_string();
            assert!(error.is_askers() && !error.is_senders(), "{said}");
            assert!(said.contains(&format!("cannot listen on {bind}: ")), "{said}");
            assert!(said.ends_with(&format!("; expected --bind {expected}")), "{said}");
        }
    }

    #[test]
    fn an_exhausted_file_limit_is_reported() {
        let error = |errno: Errno| RunError::Endpoints(io::Error::from_raw_os_error(errno.raw_os_error()));
        let (few, none) = (error(Errno::MFILE), error(Errno::NOBUFS));
        assert!(few.to_string().ends_with("the limit on open files must allow it") && !few.is_askers());
        assert!(!none.to_string().contains("open files"), "{none}");
    }

    #[test]
    fn an_error_before_the_first_request_is_not_the_senders() {
        let text = "name = \"x\"\nsubscribe = { request = \"POST {{ env.HOOKPROOF_NO_SUCH_VARIABLE }}/\" }\n\
                    emit = { request = \"POST {{ base }}/\", body = \"\" }\n";
        let file = DriverFile::parse(text, "x.toml").unwrap();
        let unset = || {
            let request = &file.subscribe[0].request;
            let error = request.fill(&crate::driver::Variables::new()).unwrap_err();
            ApiError::Template { what: "subscribe", error }
        };
        let no_request = ApiError::Request { what: "setup", request: "/".to_owned() };
        let unmade: [RunError; 3] = [unset().into(), no_request.into(), StartError::from(unset()).into()];
        for error in unmade {
            assert!(error.is_askers() && !error.is_senders(), "{error}");
        }
        let refused = || ApiError::Unreadable { what: "setup", why: "it is no JSON".to_owned() };
        for error in [RunError::from(refused()), StartError::from(refused()).into()] {
            assert!(error.is_senders() && !error.is_askers(), "{error}");
        }
        let silent = |ours: bool| {
            let (method, url, why) = ("POST".to_owned(), "http://127.0.0.1/".to_owned(), String::new());
            RunError::from(ApiError::Silent(CallError { method, url, why, unknown: false, ours }))
        };
        assert_eq!([silent(false), silent(true)].map(|error| error.code()), [UNREACHABLE, HARNESS]);
    }
}
