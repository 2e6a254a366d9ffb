//! The client side of the suite: signs and sends deliveries, and records the exchanges.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use hookproof_judge::scenario::quantity::rfc3339;
use hookproof_judge::signature::{
    ForeignHash, Handshake, Permission, Profile, Received, Secret, Signing, base64, encode_bare, hex,
    sha256_hex,
};

use super::record::{Recorded, Repeat};
use super::settings::{Bodies, Settings};
use super::want::{Want, Wrong};
use crate::wire::answer::{Answer, has_trace};
use crate::wire::clock::{pass, unix_nanos, unix_seconds};
use crate::wire::exchange::{Exchange, Feed, Outcome, exchange, expectant, succession};
use crate::wire::request::{Framing, Request};

const RECORDED_MAX: usize = 40;
pub(super) const DATA: &str = r#"{"video":"v1","views":1200000,"title":"Hookproof"}"#;
/// Repeats after a 429 or 503 with `Retry-After`, and the longest wait in seconds.
const PATIENCE: (u32, u64) = (3, 30);
/// The longest total of these waits: a receiver that always delays still ends the run.
const PATIENCE_MAX: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct Bench<'a> {
    pub(super) settings: &'a Settings,
    pub(super) addresses: Vec<SocketAddr>,
    run: String,
    made: Cell<u64>,
    waited: Cell<Duration>,
    recorded: RefCell<Vec<Recorded>>,
    wrong: RefCell<BTreeSet<Wrong>>,
    leaks: RefCell<Vec<String>>,
    leaked: RefCell<Option<Recorded>>,
    /// Whether the list of effects works, or the reason why not.
    pub(super) effects: RefCell<Result<(), String>>,
    pub(super) first_listed: RefCell<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) id: String,
    pub(super) timestamp: String,
    pub(super) event_type: String,
    pub(super) url: String,
    /// The member of the body that holds the timestamp too.
    pub(super) field: Option<String>,
    pub(super) body: Vec<u8>,
    /// Else JSON, or whatever is declared as JSON.
    pub(super) is_form: bool,
    pub(super) profile: Profile,
    pub(super) date: String,
}

#[derive(Clone, Debug)]
pub(super) struct Shot {
    pub(super) label: String,
    pub(super) request: Request,
    pub(super) want: Want,
    /// Lacks the tested property alone: if it fails as well, the property is not the cause.
    pub(super) control: Option<Request>,
    /// The answer must not give it, whatever its status.
    pub(super) withheld: Option<Greeting>,
}

#[derive(Clone, Debug)]
pub(super) struct Greeting {
    pub(super) handshake: &'static Handshake,
    pub(super) challenge: String,
    pub(super) hmac: String,
}

impl Shot {
    pub(super) fn new(label: impl Into<String>, request: Request, want: Want) -> Self {
        Self { label: label.into(), request, want, control: None, withheld: None }
    }

    pub(super) fn controlled(self, control: Request) -> Self {
        Self { control: Some(control), ..self }
    }

    pub(super) fn withholding(self, greeting: Greeting) -> Self {
        Self { withheld: Some(greeting), ..self }
    }
}

impl Greeting {
    pub(super) fn is_in(&self, body: &[u8]) -> bool {
        self.handshake.is_answered(body, &self.challenge, &self.hmac)
    }

    /// An answer without the challenge proves nothing. An HMAC may sign an event, wherever it stands.
    pub(super) fn is_given_by(&self, outcome: &Outcome) -> bool {
        let Outcome::Answer(Answer { body, .. }) = outcome else { return false };
        let is_constant = self.handshake.is_answered(body, "", "");
        let holds_hmac = body.windows(self.hmac.len()).any(|part| part == self.hmac.as_bytes());
        holds_hmac || (self.is_in(body) && !is_constant)
    }
}

impl Delivery {
    fn signing(&self) -> Signing<'_> {
        let Self { id, timestamp, event_type, date, url, body, is_form, .. } = self;
        Signing { id, timestamp, event_type, date, method: "POST", url, body, is_form: *is_form }
    }

    pub(super) fn with_data(self, data: &str) -> Self {
        self.of_moment(unix_seconds(), data)
    }

    pub(super) fn of_moment(self, happened: i64, data: &str) -> Self {
        if self.is_form {
            return self.into_form(data);
        }
        let happened = rfc3339(u64::try_from(happened).unwrap_or_default());
        let own = self.profile.filled(&self.id, &self.event_type, &happened, data);
        let body = own.unwrap_or_else(|| {
            format!(
                r#"{{"id":"{}","type":"{}",{}"timestamp":"{happened}","data":{data}}}"#,
                self.id,
                self.event_type,
                self.member()
            )
        });
        Self { body: body.into_bytes(), ..self }
    }

    pub(super) fn of_length(self, bytes: usize) -> Self {
        let titled = |title: &str| DATA.replace("Hookproof", title);
        let short = self.with_data(&titled(""));
        let filler = "x".repeat(bytes.saturating_sub(short.body.len()));
        short.with_data(&titled(&filler))
    }

    /// Of another order than that of its signature.
    fn into_form(self, data: &str) -> Self {
        let data: String = url::form_urlencoded::byte_serialize(data.as_bytes()).collect();
        let body = format!("type={}&Data={data}&id={}", self.event_type, self.id).into_bytes();
        Self { body, is_form: true, ..self }
    }

    pub(super) fn with_body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    pub(super) fn at(self, timestamp: impl ToString) -> Self {
        let later = Self { timestamp: timestamp.to_string(), ..self.clone() };
        let (was, is) = (self.member(), later.member());
        let body = match String::from_utf8(self.body) {
            Ok(text) if !was.is_empty() => text.replacen(&was, &is, 1).into_bytes(),
            Ok(text) => text.into_bytes(),
            Err(error) => error.into_bytes(),
        };
        Self { body, ..later }
    }

    /// The timestamp as a member of the body; empty if the profile has none there, or without a timestamp.
    fn member(&self) -> String {
        let named = self.field.as_ref().filter(|_| !self.timestamp.is_empty());
        named.map_or(String::new(), |name| format!("\"{name}\":{},", self.timestamp))
    }
}

impl<'a> Bench<'a> {
    pub(super) fn new(settings: &'a Settings, addresses: Vec<SocketAddr>) -> Self {
        // It needs to be unique, not secret.
        let run = sha256_hex(format!("{} {}", unix_nanos(), std::process::id()).as_bytes());
        let (made, recorded, leaks) = (Cell::new(0), RefCell::default(), RefCell::default());
        let (wrong, leaked) = (RefCell::default(), RefCell::default());
        let waited = Cell::default();
        let effects = RefCell::new(Err("needs --effects-url".to_owned()));
        let first_listed = RefCell::default();
        let run = run[..12].to_owned();
        Self { settings, addresses, run, made, waited, recorded, wrong, leaks, leaked, effects, first_listed }
    }

    pub(super) fn delivery(&self) -> Delivery {
        self.made.set(self.made.get() + 1);
        let delivery = Delivery {
            id: format!("hookproof_{}_{}", self.run, self.made.get()),
            timestamp: self.stamp(unix_seconds()).to_string(),
            event_type: "video.trending".to_owned(),
            url: self.settings.target.signed_url(),
            field: self.settings.profile.timestamp_field().map(str::to_owned),
            body: Vec::new(),
            is_form: self.settings.bodies == Bodies::Forms,
            profile: self.settings.profile,
            date: rfc3339(unix_seconds().unsigned_abs()),
        };
        delivery.with_data(DATA)
    }

    /// The id of a delivery of this run, wherever it is in a body.
    pub(super) fn id_in_body(&self, body: &[u8]) -> Option<String> {
        let text = String::from_utf8_lossy(body);
        let (_, rest) = text.split_once(&format!("hookproof_{}_", self.run))?;
        let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some(format!("hookproof_{}_{number}", self.run)).filter(|_| !number.is_empty())
    }

    /// None if the profile signs no forms, or the receiver takes none.
    pub(super) fn form(&self) -> Option<Delivery> {
        let Settings { profile, bodies, .. } = self.settings;
        let takes_forms = profile.signs_forms() && *bodies != Bodies::Json;
        takes_forms.then(|| self.delivery().into_form("a &+"))
    }

    /// The error says why a case that is about JSON does not apply.
    pub(super) fn json(&self) -> Result<Delivery, String> {
        match self.settings.bodies {
            Bodies::Forms => Err("it is about JSON, and each delivery is a form".to_owned()),
            Bodies::All | Bodies::Json => Ok(self.delivery()),
        }
    }

    /// One whose signature, without its prefix, has this property, if it is not rare.
    pub(super) fn delivery_signed(&self, is_wanted: impl Fn(&str) -> bool) -> Delivery {
        const TRIES: usize = 64;
        let mut all = std::iter::repeat_with(|| self.delivery()).take(TRIES);
        let bare = |delivery: &Delivery| self.signature(delivery).split_off(self.prefix(delivery).len());
        all.find(|delivery| is_wanted(&bare(delivery))).unwrap_or_else(|| self.delivery())
    }

    /// A number of 31 bits, since Meta sends one.
    fn challenge(&self) -> String {
        self.made.set(self.made.get() + 1);
        let hash = sha256_hex(format!("challenge {} {}", self.run, self.made.get()).as_bytes());
        let drawn = u64::from_str_radix(&hash[..8], 16).unwrap_or_default();
        (1_000_000_000 + drawn % 1_000_000_000).to_string()
    }

    pub(super) fn greeting(&self, handshake: &'static Handshake) -> Greeting {
        let challenge = self.challenge();
        let hmac = encode_bare(&self.settings.profile, &self.settings.secret.tag(challenge.as_bytes()));
        Greeting { handshake, challenge, hmac }
    }

    pub(super) fn query(&self, query: &str) -> Request {
        let path = &self.settings.target.path;
        let joint = if path.contains('?') { '&' } else { '?' };
        self.unsigned("GET", format!("{path}{joint}{query}"), [])
    }

    pub(super) fn options(&self, permission: &Permission) -> Request {
        self.unsigned("OPTIONS", self.settings.target.path.clone(), permission.headers())
    }

    fn unsigned<const N: usize>(
        &self,
        method: &'static str,
        path: String,
        more: [(&str, String); N],
    ) -> Request {
        let common =
            [("Host", self.settings.target.host_header.clone()), ("User-Agent", "hookproof".to_owned())];
        let headers = common.into_iter().chain(more);
        let headers = headers.map(|(name, value)| (name.to_owned(), value.into_bytes())).collect();
        Request { method, path, headers, body: Vec::new(), framing: Framing::Length }
    }

    pub(super) fn refute_last(&self) {
        self.recorded.borrow_mut().last_mut().into_iter().for_each(|last| last.met = false);
    }

    pub(super) fn stamp(&self, seconds: i64) -> i64 {
        self.settings.profile.in_unit(seconds)
    }

    pub(super) fn signature(&self, delivery: &Delivery) -> String {
        delivery.signing().signature(self.settings.profile, &self.settings.secret)
    }

    pub(super) fn tag(&self, delivery: &Delivery) -> Vec<u8> {
        delivery.signing().tag(self.settings.profile, &self.settings.secret)
    }

    pub(super) fn other_signatures(&self, delivery: &Delivery) -> Vec<(String, String)> {
        delivery.signing().other_signatures(self.settings.profile, &self.settings.secret)
    }

    pub(super) fn prefix(&self, delivery: &Delivery) -> String {
        delivery.signing().prefix(&self.settings.profile, &self.settings.secret)
    }

    pub(super) fn encoded(&self, delivery: &Delivery, tag: &[u8]) -> String {
        delivery.signing().encoded(&self.settings.profile, &self.settings.secret, tag)
    }

    pub(super) fn forged_tokens(&self, delivery: &Delivery, stranger: &Secret) -> Vec<(String, String)> {
        delivery.signing().forged_tokens(self.settings.profile, &self.settings.secret, stranger)
    }

    pub(super) fn foreign_tag(&self, delivery: &Delivery, hash: ForeignHash) -> Vec<u8> {
        delivery.signing().foreign_tag(self.settings.profile, &self.settings.secret, hash)
    }

    pub(super) fn signature_by(&self, delivery: &Delivery, secret: &Secret) -> String {
        delivery.signing().signature(self.settings.profile, secret)
    }

    /// By a stranger, as if by the receiver's key.
    pub(super) fn forged(&self, delivery: &Delivery, stranger: &Secret) -> String {
        delivery.signing().forged(self.settings.profile, &self.settings.secret, stranger)
    }

    /// None if the receiver's key is no public one.
    pub(super) fn signed_by_zeros(&self) -> Option<Request> {
        const TRIES: usize = 64;
        let profile = self.settings.profile;
        let signed = |delivery: Delivery| {
            let signature = delivery.signing().signature_of_zeros(profile, &self.settings.secret)?;
            Some(self.request(&delivery, &[signature]))
        };
        let tries = if self.settings.secret.is_private() { TRIES } else { 0 };
        (0..tries).find_map(|_| signed(self.delivery()))
    }

    pub(super) fn foreign_secret(&self) -> Result<Secret, String> {
        let seed = sha256_hex(format!("foreign {}", self.run).as_bytes());
        // Digits in ASCII: a number below the order of P-256.
        let bytes = seed.as_bytes().first_chunk::<32>();
        bytes
            .and_then(|bytes| self.settings.secret.sibling(bytes))
            .ok_or_else(|| "no other key was made".to_owned())
    }

    pub(super) fn request(&self, delivery: &Delivery, signatures: &[String]) -> Request {
        let is_form = delivery.is_form;
        let kind: &[u8] = if is_form { b"application/x-www-form-urlencoded" } else { b"application/json" };
        let mut headers = vec![
            ("Host".to_owned(), self.settings.target.host_header.clone().into_bytes()),
            ("User-Agent".to_owned(), b"hookproof".to_vec()),
            ("Content-Type".to_owned(), kind.to_vec()),
        ];
        let signed = delivery.signing().headers(self.settings.profile, signatures);
        headers.extend(signed.into_iter().map(|(name, value)| (name, value.into_bytes())));
        let Settings { profile, target, .. } = &self.settings;
        let path = profile.addressed(&target.path, &delivery.body, is_form).into_owned();
        Request { method: "POST", path, headers, body: delivery.body.clone(), framing: Framing::Length }
    }

    pub(super) fn signed(&self, delivery: &Delivery) -> Request {
        self.request(delivery, &[self.signature(delivery)])
    }

    /// Sends a request and records the exchange. Obeys `Retry-After`, within bounds.
    pub(super) async fn send(&self, label: &str, request: &Request, want: Want) -> Exchange {
        let feed = Feed::Whole(request.bytes());
        let (mut tries, most_seconds) = PATIENCE;
        loop {
            let exchange = self.exchange(&feed, self.settings.timeout).await;
            let patience = match &exchange.outcome {
                Outcome::Answer(answer) if [429, 503].contains(&answer.status) => {
                    answer.retry_after_seconds()
                }
                _ => None,
            };
            let patience = patience.filter(|seconds| *seconds <= most_seconds && tries > 0);
            match patience.filter(|_| self.waited.get() < PATIENCE_MAX).map(Duration::from_secs) {
                Some(wait) => {
                    tries -= 1;
                    self.waited.set(self.waited.get() + wait);
                    pass(wait).await;
                }
                None => {
                    self.record_exchange(label, request, want, &exchange);
                    return exchange;
                }
            }
        }
    }

    pub(super) async fn exchange(&self, feed: &Feed, limit: Duration) -> Exchange {
        exchange(&self.settings.target, &self.addresses, feed, limit).await
    }

    pub(super) async fn succession(&self, requests: &[Vec<u8>]) -> Vec<Exchange> {
        succession(&self.settings.target, &self.addresses, requests, self.settings.timeout).await
    }

    /// Sends the body only after `100 Continue`; the second value says whether that came.
    pub(super) async fn expectant(&self, request: &Request) -> (Exchange, bool) {
        let request = request.sent();
        let head = [request.head().as_slice(), b"\r\n"].concat();
        let limit = self.settings.timeout;
        expectant(&self.settings.target, &self.addresses, &head, &request.body, limit).await
    }

    pub(super) fn record_exchange(&self, label: &str, request: &Request, want: Want, exchange: &Exchange) {
        self.record_as(Repeat::Curl, label, request, want, exchange);
    }

    pub(super) fn record_as(
        &self,
        repeat: Repeat<'_>,
        label: &str,
        request: &Request,
        want: Want,
        exchange: &Exchange,
    ) {
        if self.look_for_leaks(label, exchange, request) {
            let record =
                || Recorded::new(label, "no details", false, request, exchange, repeat, self.settings);
            self.leaked.borrow_mut().get_or_insert_with(record);
        }
        let is_signed = request.header(self.settings.profile.signature_header()).is_some();
        self.wrong.borrow_mut().extend(want.wrong(&exchange.outcome, is_signed));
        let mut recorded = self.recorded.borrow_mut();
        if recorded.len() >= RECORDED_MAX {
            return;
        }
        let met = want.is_met(&exchange.outcome);
        recorded.push(Recorded::new(label, want.words(), met, request, exchange, repeat, self.settings));
    }

    pub(super) fn take_wrong(&self) -> BTreeSet<Wrong> {
        self.wrong.take()
    }

    pub(super) fn take_recorded(&self) -> Vec<Recorded> {
        self.recorded.take()
    }

    /// Records the first leaking exchange in this case too.
    pub(super) fn leaks(&self) -> Vec<String> {
        self.recorded.borrow_mut().extend(self.leaked.take());
        self.leaks.borrow().clone()
    }

    /// Sends a correct delivery after an attack; the error is another outcome than its acceptance.
    pub(super) async fn still_serves(&self) -> Result<(), Outcome> {
        let request = self.signed(&self.delivery());
        let exchange = self.send("sig.valid again", &request, Want::Accept).await;
        if Want::Accept.is_met(&exchange.outcome) { Ok(()) } else { Err(exchange.outcome) }
    }

    fn look_for_leaks(&self, label: &str, exchange: &Exchange, request: &Request) -> bool {
        let Outcome::Answer(answer) = &exchange.outcome else { return false };
        if (200..300).contains(&answer.status) {
            return false;
        }
        let headers =
            answer.headers.iter().flat_map(|(_, value)| [value.as_slice(), b"\n"]).collect::<Vec<_>>();
        let told = [headers.concat(), answer.body.clone()].concat();
        let found = self.leaks_in(&told, request);
        for what in &found {
            let mut leaks = self.leaks.borrow_mut();
            if leaks.len() < RECORDED_MAX {
                leaks.push(format!("the {} answer to \"{label}\" contains {what}", answer.status));
            }
        }
        !found.is_empty()
    }

    fn leaks_in(&self, told: &[u8], request: &Request) -> Vec<&'static str> {
        // In JSON a line break is two characters.
        let plain =
            String::from_utf8_lossy(told).replace("\\r", "\r").replace("\\n", "\n").replace("\\t", "\t");
        let told = [told, b"\n", plain.replace("\\/", "/").as_bytes()].concat();
        let holds = |text: &str| {
            let text = text.as_bytes();
            !text.is_empty() && told.windows(text.len()).any(|window| window == text)
        };
        let sent = |text: &str| {
            let value = request.header(self.settings.profile.signature_header()).unwrap_or_default();
            value.windows(text.len()).any(|window| window == text.as_bytes())
        };
        let tag = self.expected_tag(request);
        let spelled = [hex(&tag), base64(&tag), base64(&tag).replace('+', "-").replace('/', "_")];
        let mut found = Vec::new();
        // An echo of the request reveals nothing.
        if spelled.iter().any(|text| holds(text.trim_end_matches('=')) && !sent(text.trim_end_matches('='))) {
            found.push("the expected signature");
        }
        if self.settings.secrets().any(|secret| secret.is_in(&told)) {
            found.push("the secret");
        }
        if has_trace(&String::from_utf8_lossy(&told)) {
            found.push("a stack trace");
        }
        found
    }

    fn expected_tag(&self, request: &Request) -> Vec<u8> {
        let headers: Vec<(&str, &[u8])> =
            request.headers.iter().map(|(name, value)| (&**name, value.as_slice())).collect();
        let url = self.settings.target.signed_url();
        let Request { method, body, .. } = request;
        let received = Received { method, url: &url, headers: &headers, body, ..Received::default() };
        self.settings.profile.expected_tag(&self.settings.secret, &received)
    }
}
