//! `handshake.*`: the request with which a provider tests an endpoint.

use hookproof_judge::catalogue::Verdict;
use hookproof_judge::signature::{Handshake, sha256_hex};

use super::{Case, Finding, Running, Shots, THROTTLED, fire, limited};
use crate::suite::bench::{Bench, Delivery, Greeting, Shot};
use crate::suite::want::Want::{self, Accept, Reject, Report, Unanswered, Unauthorized};
use crate::suite::want::{plain, words};
use crate::wire::exchange::Outcome;
use crate::wire::request::Request;

pub(super) const CASES: [Case; 4] = [
    Case::course("handshake.answered", |bench| -> Running<'_> { Box::pin(answered(bench)) }),
    Case::course("handshake.forged", |bench| -> Running<'_> { Box::pin(forged(bench)) }),
    Case::course("handshake.event", |bench| -> Running<'_> { Box::pin(event(bench)) }),
    Case::course("handshake.permission", |bench| -> Running<'_> { Box::pin(permission(bench)) }),
];

const OTHER_DATA: &str = r#"{"hookproof":"an event"}"#;

struct Hello {
    greeting: Greeting,
    request: Request,
}

impl Hello {
    fn new(bench: &Bench<'_>) -> Result<Self, Finding> {
        let profile = bench.settings.profile;
        let handshake = profile.definition().handshake().ok_or_else(|| {
            Finding::new(Verdict::NotApplicable, format!("{profile} has no handshake by POST or GET"))
        })?;
        let token = bench.settings.verify_token.as_deref();
        if handshake.has_token() && token.is_none() {
            return Err(Finding::unclear("needs --verify-token-env"));
        }
        let greeting = bench.greeting(handshake);
        let request = match handshake.query(&greeting.challenge, token.unwrap_or_default()) {
            Some(query) => bench.query(&query),
            None => bench.signed(&delivery(bench, &greeting)),
        };
        Ok(Self { greeting, request })
    }
}

fn delivery(bench: &Bench<'_>, Greeting { handshake, challenge, .. }: &Greeting) -> Delivery {
    bench.delivery().with_body(handshake.body(challenge).unwrap_or_default())
}

async fn answered(bench: &Bench<'_>) -> Finding {
    let hello = match Hello::new(bench) {
        Ok(hello) => hello,
        Err(finding) => return finding,
    };
    let exchange = bench.send("a handshake", &hello.request, Want::Greeting).await;
    let came = words(&exchange.outcome);
    match &exchange.outcome {
        outcome if limited(outcome) => Finding::unclear(format!("a handshake: {came}: {THROTTLED}")),
        Outcome::Answer(answer) if answer.status == 200 => {
            let Greeting { handshake, challenge, hmac } = &hello.greeting;
            let given = answer.header("content-type").unwrap_or_default();
            let (given, due) = if !hello.greeting.is_in(&answer.body) {
                let body = plain(&String::from_utf8_lossy(&answer.body));
                (format!("'{body}'"), handshake.answer(challenge, hmac))
            } else if let Some(due) = handshake.due_type(&given, &answer.body, challenge, hmac) {
                (format!("Content-Type '{}'", plain(&given)), due.to_owned())
            } else {
                return Finding::pass(came);
            };
            bench.refute_last();
            Finding::fail(format!("a handshake: 200 with {given} where '{due}' is due"))
        }
        _ => Finding::fail(format!("a handshake: {came}")),
    }
}

async fn forged(bench: &Bench<'_>) -> Finding {
    let handshake = match Hello::new(bench) {
        Ok(hello) => hello.greeting.handshake,
        Err(finding) => return finding,
    };
    let shots =
        if handshake.has_token() { with_other_tokens(bench, handshake) } else { unsigned(bench, handshake) };
    match shots {
        Ok(shots) => fire(bench, &shots).await,
        Err(why) => Finding::new(Verdict::NotApplicable, why),
    }
}

/// The provider's documents ask for a status of their own only where a signature is wrong.
fn unsigned(bench: &Bench<'_>, handshake: &'static Handshake) -> Shots {
    let profile = bench.settings.profile;
    if handshake.body("").is_none() {
        return Err(format!("neither a signature nor a token proves a handshake of {profile}"));
    }
    let new = |label: &str, refused, request: &dyn Fn(&Delivery) -> Request| {
        let greeting = bench.greeting(handshake);
        Shot::new(label, request(&delivery(bench, &greeting)), refused).withholding(greeting)
    };
    let stranger = bench.foreign_secret()?;
    let refused = if handshake.is_refused_with_401() { Unauthorized } else { Reject };
    Ok(vec![
        new("a handshake signed with another secret", refused, &|forged| {
            bench.request(forged, &[bench.forged(forged, &stranger)])
        }),
        new("a handshake without a signature", Reject, &|forged| {
            bench.signed(forged).without(profile.signature_header())
        }),
    ])
}

/// An unset token is often empty. Meta's samples refuse by 4xx, or by silence; its documents name no refusal.
fn with_other_tokens(bench: &Bench<'_>, handshake: &'static Handshake) -> Shots {
    let foreign = sha256_hex(bench.greeting(handshake).challenge.as_bytes());
    let longer = format!("{}x", bench.settings.verify_token.as_deref().unwrap_or_default());
    let mut rows = vec![
        ("a handshake with another token", foreign[..32].to_owned()),
        ("a handshake with an empty token", String::new()),
        ("a handshake with a longer token", longer),
    ];
    rows.extend(bench.settings.token_cut_short().map(|token| ("a handshake with a token cut short", token)));
    let shot = |what, query: &dyn Fn(&str) -> Option<String>| {
        let greeting = bench.greeting(handshake);
        let request = bench.query(&query(&greeting.challenge).unwrap_or_default());
        Shot::new(what, request, Unanswered).withholding(greeting)
    };
    let wrong = rows.iter().map(|(what, token)| shot(*what, &|challenge| handshake.query(challenge, token)));
    let without = shot("a handshake without a token", &|challenge| handshake.query_without_token(challenge));
    Ok(wrong.chain([without]).collect())
}

async fn event(bench: &Bench<'_>) -> Finding {
    let hello = match Hello::new(bench) {
        Ok(hello) => hello,
        Err(finding) => return finding,
    };
    // Another case judges its answer.
    bench.send("a handshake", &hello.request, Report).await;
    let what = "an event that mentions a handshake";
    let event = bench.delivery().with_data(&mention(&hello));
    let exchange = bench.send(what, &bench.signed(&event), Accept).await;
    let came = words(&exchange.outcome);
    if limited(&exchange.outcome) {
        return Finding::unclear(format!("{what}: {came}: {THROTTLED}"));
    }
    let mut broken = (!Accept.is_met(&exchange.outcome)).then(|| came.clone());
    if let Outcome::Answer(answer) = &exchange.outcome
        && hello.greeting.is_in(&answer.body)
    {
        bench.refute_last();
        broken = Some(format!("{came} with the answer to a handshake"));
    }
    if broken.is_none() && bench.settings.hooks.effects.is_some() {
        match bench.effects_of(&event.id).await {
            Ok(0) => broken = Some(format!("{came}, and never processed")),
            Ok(_) => {}
            Err(why) => return Finding::unclear(why),
        }
    }
    let Some(broken) = broken else { return Finding::pass(came) };
    match other_event(bench).await {
        Ok(()) => Finding::fail(format!("{what}: {broken}")),
        Err(other) => Finding::unclear(format!("{what}: {broken}; without that: {other}")),
    }
}

async fn permission(bench: &Bench<'_>) -> Finding {
    let profile = bench.settings.profile;
    let Some(permission) = profile.definition().permission() else {
        return Finding::new(Verdict::NotApplicable, format!("{profile} asks for no permission"));
    };
    let what = "a request for permission";
    let exchange = bench.send(what, &bench.options(permission), Report).await;
    let came = words(&exchange.outcome);
    let Outcome::Answer(answer) = &exchange.outcome else {
        return Finding::fail(format!("{what}: {came}"));
    };
    let Some((name, due)) = permission.lacks(|name| answer.header(name)) else {
        return Finding::pass(came);
    };
    if limited(&exchange.outcome) {
        return Finding::unclear(format!("{what}: {came}: {THROTTLED}"));
    }
    bench.refute_last();
    let given = answer
        .header(name)
        .map_or_else(|| format!("no {name}"), |value| format!("{name} '{}'", plain(&value)));
    Finding::fail(format!("{what}: {came} with {given} where {due} is due"))
}

/// The control.
async fn other_event(bench: &Bench<'_>) -> Result<(), String> {
    let event = bench.delivery().with_data(OTHER_DATA);
    let exchange = bench.send("the control: another event", &bench.signed(&event), Accept).await;
    if !Accept.is_met(&exchange.outcome) {
        return Err(words(&exchange.outcome));
    }
    if bench.settings.hooks.effects.is_some() && bench.effects_of(&event.id).await? == 0 {
        return Err("never processed".to_owned());
    }
    Ok(())
}

/// Without the token, which is a secret.
fn mention(hello: &Hello) -> String {
    let Greeting { handshake, challenge, .. } = &hello.greeting;
    let words = handshake.body(challenge).or_else(|| handshake.query(challenge, "token")).unwrap_or_default();
    match serde_json::from_str::<serde_json::Value>(&words) {
        Ok(serde_json::Value::Object(_)) => words,
        _ => serde_json::json!({ "query": words }).to_string(),
    }
}
