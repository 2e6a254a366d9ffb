//! A scenario as a run and the simulator both play it: functions of the scenario and a seed. In reading order:

pub mod traffic;

pub mod endpoint;

pub mod fault;

/// The scenario's subscribers as settings of a sender.
pub mod settings;

/// The bodies of requests: decoded, and compared with the offered events.
pub mod payload;
