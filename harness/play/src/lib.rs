//! A scenario as a run and the simulator both play it: functions of the scenario and a seed. In reading order:

/// The schedule of a run, computed before it begins.
pub mod traffic;

/// The behaviour of an endpoint: which answer a request gets, and its bytes.
pub mod endpoint;

/// The scenario's faults as steps in time.
pub mod fault;

/// The scenario's subscribers as settings of a sender.
pub mod settings;

/// The bodies of requests: decoded, and compared with the offered events.
pub mod payload;
