use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use super::failure::Failure;
use super::print::wants_colour;

/// A second call changes nothing.
pub(super) fn start(directives: &str, json: bool) -> Result<(), Failure> {
    let filter = EnvFilter::builder().parse(directives).map_err(|error| {
        Failure::usage(format_args!(
            "can't read the log level {directives:?}: {error}; expected error, warn, info, debug, trace, or off, \
             such as --log info"
        ))
    })?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // An earlier setup wins.
    let _ = if json {
        logs.json().try_init()
    } else {
        logs.with_ansi(io::stderr().is_terminal() && wants_colour()).with_target(false).try_init()
    };
    Ok(())
}
