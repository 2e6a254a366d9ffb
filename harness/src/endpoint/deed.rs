//! The action of an endpoint for a request that it has read, shared by HTTP/1.1 and HTTP/2.

use std::borrow::Cow;

use super::Endpoint;
use hookproof_judge::scenario::{Answer as Script, Behaviour, Duration, Reply, RetryAfter, Size};
use hookproof_play::endpoint::choice::Enforced;

#[derive(Debug)]
pub(super) enum Deed<'a> {
    Answer(Cow<'a, Reply>),
    /// An answer, one byte at a time.
    Drip(Duration),
    HalfAnswer,
    /// An orderly end without an answer.
    Close,
    /// A reset without an answer.
    Reset,
}

impl Endpoint {
    /// The action for a request that met this behaviour; none means that the endpoint behaves.
    pub(super) fn deed<'a>(&self, chosen: Option<(usize, &'a Behaviour)>) -> Deed<'a> {
        let Some((place, behaviour)) = chosen else { return Deed::Answer(Cow::Owned(no_content())) };
        match &behaviour.answer {
            Script::Status(reply) => Deed::Answer(Cow::Borrowed(reply)),
            Script::Enforce { limit, burst } => {
                let now = self.stage.clock.now();
                Deed::Answer(Cow::Owned(match self.choices.enforce(place, *limit, *burst, now) {
                    Enforced::Inside => no_content(),
                    Enforced::Past { retry_after_s } => too_many(retry_after_s),
                }))
            }
            Script::HugeAnswer { body } => Deed::Answer(Cow::Owned(Reply { body: *body, ..ok() })),
            Script::Drip { pace } => Deed::Drip(*pace),
            Script::HalfAnswer => Deed::HalfAnswer,
            Script::Close => Deed::Close,
            // These belong before the read, which was not possible here.
            Script::Reset | Script::Refuse | Script::NoAccept | Script::ResetAfterRead => Deed::Reset,
            Script::Stall | Script::Blackhole => Deed::Answer(Cow::Owned(no_content())),
        }
    }
}

pub(super) fn is_blackhole(chosen: Option<(usize, &Behaviour)>) -> bool {
    chosen.is_some_and(|(_, behaviour)| matches!(behaviour.answer, Script::Blackhole))
}

const fn no_content() -> Reply {
    Reply { status: 204, retry_after: None, body: Size(0), location: None }
}

pub(super) const fn ok() -> Reply {
    Reply { status: 200, retry_after: None, body: Size(0), location: None }
}

fn too_many(retry_after_s: u64) -> Reply {
    Reply { status: 429, retry_after: Some(RetryAfter::Seconds(retry_after_s)), ..no_content() }
}
