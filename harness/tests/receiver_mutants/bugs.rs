//! Each bug of a profile, around the shipped verification.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hookproof::wire::clock::unix_seconds;
use hookproof_judge::signature::STRANGERS_CERTIFICATE;
use hookproof_play::endpoint::http_date;
use ring::signature::{ECDSA_P256_SHA256_FIXED, ED25519, UnparsedPublicKey};
use ring::{digest, hmac};

use crate::receiver_mutants::server::Request;
use crate::receiver_mutants::shipped::{Kind, Shipped, bearing, first, joined, with, without};
use crate::receiver_mutants::twist::Twist;

impl Shipped {
    pub(crate) fn status(&self, request: &Request) -> u16 {
        let request = &self.unfolded(request);
        let Some(twist) = self.twist else { return answer(self.is_genuine(request)) };
        let signature = request.values(self.profile.signature_header());
        match twist {
            Twist::ThrowsOnEmpty if signature.iter().any(|value| value.is_empty()) => 500,
            Twist::NotAsciiBreaks if signature.iter().any(|value| !value.is_ascii()) => 500,
            Twist::ParsesFirst if serde_json::from_slice::<serde_json::Value>(&request.body).is_err() => 400,
            _ => answer(self.accepts(twist, request)),
        }
    }

    fn accepts(&self, twist: Twist, request: &Request) -> bool {
        if let Some(seen) = self.seen_as(twist, request) {
            return self.is_genuine(&seen);
        }
        let is_genuine = self.is_genuine(request);
        let (_, items) = self.items(request);
        let prefix = self.profile.signature_prefix();
        match twist {
            Twist::NarrowTolerance => {
                let keys = self.keys.clone();
                let tolerance = keys.tolerance() / 5;
                self.verified(request, &keys.with_tolerance(tolerance)).is_some()
            }
            Twist::StopsAtForeign if self.facts.kind == Kind::Message => is_genuine && items.len() == 1,
            Twist::StopsAtForeign => {
                let joint = prefix.chars().last().unwrap();
                is_genuine && items.iter().all(|item| !item.contains(joint) || item.starts_with(prefix))
            }
            Twist::StopsAtGarbage => {
                let is_read = |item: &String| {
                    item.strip_prefix(prefix).is_some_and(|text| self.decoded(text).is_some())
                };
                is_genuine && items.iter().all(is_read)
            }
            Twist::RefusesRetries => {
                let Some(verified) = self.verified(request, &self.keys) else { return false };
                let mut times = self.times.lock().unwrap();
                *times.entry(verified.id.into_owned()).or_insert(verified.signed_at) == verified.signed_at
            }
            Twist::CachesBySignature | Twist::CachesByBody => {
                let key = match twist {
                    Twist::CachesByBody => String::from_utf8_lossy(&request.body).into_owned(),
                    _ => first(request, self.profile.signature_header()),
                };
                let mut seen = self.seen.lock().unwrap();
                let is_known = seen.contains(&key);
                if is_genuine {
                    seen.insert(key);
                }
                is_genuine || is_known
            }
            _ => is_genuine || self.also_takes(twist, request) || self.also_takes_time(twist, request),
        }
    }

    fn seen_as(&self, twist: Twist, request: &Request) -> Option<Request> {
        let (_, items) = self.items(request);
        let text = || String::from_utf8_lossy(&request.body).into_owned();
        Some(match twist {
            Twist::TrimsBody => bearing(request, request.body.trim_ascii()),
            Twist::WritesJsonAgain => bearing(request, minified(&request.body)),
            Twist::VerifiesText => bearing(request, text()),
            Twist::FirstSignatureOnly => self.with_items(request, items.get(..1)?),
            Twist::LastSignatureOnly => self.with_items(request, items.last_chunk::<1>()?),
            Twist::CaseMatters => {
                let name = self.profile.signature_header();
                let mut request = request.clone();
                request.headers.retain(|(known, _)| known == name || !known.eq_ignore_ascii_case(name));
                request
            }
            Twist::FoldsWidth => {
                let value = first(request, self.profile.signature_header());
                with(request, self.profile.signature_header(), value.chars().map(narrow).collect::<String>())
            }
            Twist::FirstOfTwo | Twist::LastOfTwo => {
                let names = [self.profile.id_header(), self.profile.timestamp_header()];
                names.into_iter().flatten().fold(request.clone(), |request, name| {
                    let values = request.values(name);
                    let value = if twist == Twist::FirstOfTwo { values.first() } else { values.last() };
                    value.map_or(request.clone(), |value| with(&request, name, value))
                })
            }
            _ => return None,
        })
    }

    fn also_takes(&self, twist: Twist, request: &Request) -> bool {
        let has =
            |name: &str, start: &str| request.header(name).is_some_and(|value| value.starts_with(start));
        let header = self.profile.signature_header();
        match twist {
            Twist::MissingIsFine => request.values(header).is_empty(),
            Twist::EmptyIsFine => request.values(header) == [b""],
            Twist::VerifiesJsonOnly => has("content-type", "text/plain"),
            Twist::TrustsProxy => has("x-forwarded-for", "127.0.0.1"),
            Twist::TrustsDebug => has("x-debug", ""),
            Twist::TrimsAlso => self.is_genuine(&bearing(request, request.body.trim_ascii())),
            Twist::DropsMark => {
                let rest = request.body.strip_prefix("\u{feff}".as_bytes());
                rest.is_some_and(|rest| self.is_genuine(&bearing(request, rest)))
            }
            Twist::NormalizesText => str::from_utf8(&request.body)
                .is_ok_and(|text| self.is_genuine(&bearing(request, text.replace("e\u{301}", "é")))),
            Twist::TakesFlag => {
                let body = String::from_utf8_lossy(&request.body).replace(r#":"false""#, r#":"true""#);
                self.is_genuine(&bearing(request, body))
            }
            Twist::IgnoresDigest => self.holds(request) && self.is_dated_now(request),
            Twist::FoldsId | Twist::DecodesId => {
                let name = self.facts.texts.id.as_deref().unwrap();
                let id = first(request, name);
                let id = if twist == Twist::FoldsId { id.to_lowercase() } else { percent_decoded(&id) };
                self.is_genuine(&with(request, name, id))
            }
            Twist::NoIdIsFine => {
                request.values(self.facts.texts.id.as_deref().unwrap()).is_empty() && self.holds(request)
            }
            Twist::RetiredKey => {
                self.given(request).contains(&self.text_of(&self.retired.tag(&self.message(request))))
            }
            _ => self.also_takes_text(twist, request) || self.also_takes_tag(twist, request),
        }
    }

    fn also_takes_text(&self, twist: Twist, request: &Request) -> bool {
        let is = |takes: &dyn Fn(&str, &str) -> bool| self.fits(request, takes);
        let bytes = |takes: &dyn Fn(&[u8], &[u8]) -> bool| self.fits_bytes(request, takes);
        let tag = || self.secret.tag(&self.message(request));
        match twist {
            Twist::NeverVerifies => is(&|given, _| self.decoded(given).is_some()),
            Twist::ComparesHalf => {
                bytes(&|given, right| given[..right.len() / 2] == right[..right.len() / 2])
            }
            Twist::SkipsByte => bytes(&|given, right| given[..5] == right[..5] && given[6..] == right[6..]),
            Twist::MasksBit => {
                bytes(&|given, right| given.iter().zip(right).all(|(one, other)| (one ^ other) & 0xf7 == 0))
            }
            Twist::XorsDifferences => bytes(&|given, right| {
                given.iter().zip(right).fold(0, |sum, (one, other)| sum ^ one ^ other) == 0
            }),
            Twist::ComparesPrefix => is(&|given, right| given.len() >= 8 && right.starts_with(given)),
            Twist::FoldsSignature => is(&str::eq_ignore_ascii_case),
            Twist::DropsBlanks => {
                let name = self.profile.signature_header();
                let joint = self.profile.signature_prefix().chars().last().unwrap_or(' ');
                let blank = if self.facts.texts.separator.as_deref() == Some(" ") {
                    format!("{joint} ")
                } else {
                    " ".to_owned()
                };
                let seen = first(request, name).replace(&blank, blank.trim_end());
                self.is_genuine(&with(request, name, seen))
            }
            Twist::DecodesPercent => is(&|given, right| percent_decoded(given) == right),
            Twist::TakesHex => {
                let hex: String = tag().iter().map(|byte| format!("{byte:02x}")).collect();
                is(&|given, _| given == hex)
            }
            Twist::TakesBase64 => is(&|given, _| given == STANDARD.encode(tag())),
            Twist::LenientBase64 => is(&|given, _| lenient_base64(given) == Some(tag())),
            Twist::LenientHex => is(&|given, _| {
                let digits = given.bytes().take_while(u8::is_ascii_hexdigit).count();
                self.decoded(&given[..digits / 2 * 2]) == Some(tag())
            }),
            Twist::LenientDer => is(&|given, right| {
                let numbers = |text: &str| self.decoded(text).and_then(|der| numbers(&der));
                numbers(given).is_some() && numbers(given) == numbers(right)
            }),
            Twist::TakesDer => is(&|given, _| self.decoded(given) == self.secret.in_der(&tag())),
            Twist::AnyVersion => {
                let joint = self.profile.signature_prefix().chars().last().unwrap();
                let (_, items) = self.items(request);
                let mut texts = items.iter().filter_map(|item| item.split_once(joint));
                texts.any(|(_, text)| self.is_genuine(&self.with_signature(request, text)))
            }
            _ => false,
        }
    }

    fn also_takes_tag(&self, twist: Twist, request: &Request) -> bool {
        let message = self.message(request);
        let is_by = |key: &[u8]| {
            let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), &message);
            self.given(request).contains(&self.text_of(tag.as_ref()))
        };
        let given = || self.given(request).into_iter().filter_map(|text| self.decoded(&text));
        match twist {
            Twist::EmptyKey => {
                let hash = if self.profile.name() == "twilio" {
                    hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY
                } else {
                    hmac::HMAC_SHA256
                };
                let tag = hmac::sign(&hmac::Key::new(hash, b""), &message);
                self.fits_tag(request, tag.as_ref())
            }
            Twist::ZeroKey => {
                let key = UnparsedPublicKey::new(&ED25519, [0; 32]);
                given().any(|signature| key.verify(&message, &signature).is_ok())
            }
            Twist::ZeroSignature => given().any(|tag| tag == [0; 64] || tag == [0x30, 6, 2, 1, 0, 2, 1, 0]),
            Twist::ForgetsKey => self.fits_tag(request, digest::digest(&digest::SHA256, &message).as_ref()),
            Twist::GuessesAlgorithm => {
                let key = self.key_bytes();
                let hashes = [hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, hmac::HMAC_SHA256, hmac::HMAC_SHA512];
                hashes.into_iter().any(|hash| {
                    self.fits_tag(request, hmac::sign(&hmac::Key::new(hash, &key), &message).as_ref())
                })
            }
            Twist::HmacByKey => is_by(&self.public_bytes()),
            Twist::HmacByText => is_by(self.public_text().as_bytes()),
            Twist::KeyFromUrl => {
                let url = first(request, self.facts.texts.key_url.as_deref().unwrap());
                let stranger = self.secret.sibling(&[1; 32]).unwrap();
                let is_given = self.given(request).contains(&self.text_of(&stranger.tag(&message)));
                is_given && fetched(&url).is_some_and(|text| text.ends_with(STRANGERS_CERTIFICATE))
            }
            Twist::HmacByPem => is_by(self.pem().as_bytes()),
            Twist::NoAlgorithm => {
                let alg = self.head(request)["alg"].as_str().unwrap_or_default().to_lowercase();
                alg == "none" && self.given(request) == [""]
            }
            Twist::AnyAlgorithm => self.holds(request) && self.is_dated_now(request),
            Twist::KeyFromHead => {
                let jwk = &self.head(request)["jwk"];
                let number =
                    |name: &str| URL_SAFE_NO_PAD.decode(jwk[name].as_str().unwrap_or_default()).unwrap();
                let key = UnparsedPublicKey::new(
                    &ECDSA_P256_SHA256_FIXED,
                    [&[4][..], &number("x"), &number("y")].concat(),
                );
                given().any(|signature| key.verify(&message, &signature).is_ok())
            }
            _ => self.also_takes_parts(twist, request),
        }
    }

    fn also_takes_parts(&self, twist: Twist, request: &Request) -> bool {
        let over =
            |template: &str| self.fits_tag(request, &self.secret.tag(&self.rendered(template, request)));
        let part = match twist {
            Twist::BodyOnly => return over("{body}"),
            Twist::FirstItemOnly => return self.holds(request),
            Twist::JoinsWithoutDots => return over(&joined(&self.facts.template)),
            Twist::ReadsBorder => return self.holds(request) && self.is_dated_now(request),
            Twist::ForgetsId => "{id}",
            Twist::ForgetsTimestamp => "{timestamp}",
            Twist::ForgetsBody if self.facts.signs("{crc32}") => "{crc32}",
            Twist::ForgetsBody => "{body}",
            Twist::ForgetsAudience => "{audience}",
            Twist::AnyAudience => {
                let other = format!("{}2", self.facts.texts.audience.as_deref().unwrap());
                return over(&self.facts.template.replace("{audience}", &other));
            }
            Twist::ForgetsUrl => "{url}",
            Twist::ForgetsMethod => "{method}",
            Twist::ForgetsMember => self.facts.texts.member.as_deref().unwrap(),
            _ => return false,
        };
        match self.facts.kind {
            Kind::Template => without(&self.facts.template, part).iter().any(|template| over(template)),
            Kind::Token if part == "{timestamp}" => self.stamps(request).is_empty() && self.holds(request),
            Kind::Token => self.holds(request),
            Kind::Message => {
                let components = self.components(request);
                let lacks = |name: &str| !components.iter().any(|known| known == name);
                let is_without = match part {
                    "{method}" => lacks("@method"),
                    "{url}" => lacks("@target-uri"),
                    "{body}" => lacks("content-digest"),
                    _ => self.stamps(request).is_empty(),
                };
                is_without && self.holds(request)
            }
        }
    }

    fn also_takes_time(&self, twist: Twist, request: &Request) -> bool {
        let stamps = self.stamps(request);
        let stamp = stamps.first().cloned().unwrap_or_default();
        let plain = stamp.trim_start_matches('+');
        let digits = &plain[..plain.bytes().take_while(u8::is_ascii_digit).count()];
        let ahead_or_old = || {
            let tolerance = i64::from(self.keys.tolerance());
            let verified = self.verified(request, &self.keys.clone().with_tolerance(u32::MAX))?;
            Some((unix_seconds() - verified.signed_at?.0, tolerance))
        };
        match twist {
            Twist::NoAgeCheck => ahead_or_old().is_some_and(|(age, tolerance)| age >= -tolerance),
            Twist::NoFutureCheck => ahead_or_old().is_some_and(|(age, tolerance)| age <= tolerance),
            Twist::IgnoresExpires => {
                let input = first(request, "signature-input");
                let digest = STANDARD.encode(digest::digest(&digest::SHA256, &request.body));
                let is_whole = first(request, "content-digest") == format!("sha-256=:{digest}:");
                is_whole && input.contains(";expires=") && self.is_fresh(&stamp) && self.holds(request)
            }
            Twist::GuessesTimestamp => {
                let Ok(count) = stamp.parse::<i64>() else { return false };
                [count - 1, count + 1]
                    .into_iter()
                    .any(|at| self.is_genuine(&self.with_stamp(request, &at.to_string())))
            }
            Twist::RewritesTimestamp => {
                let number = digits.parse::<i64>().unwrap_or_default().to_string();
                self.is_genuine(&self.with_stamp(request, &number))
            }
            Twist::NoTimestampIsFine => stamp.is_empty() && self.holds(request),
            Twist::EmptyTimestampIsFine => stamps == [""] && self.holds(request),
            Twist::LenientTimestamp => self.is_fresh(digits) && self.holds(request),
            Twist::NotANumber => stamp == "NaN" && self.holds(request),
            Twist::AgeOfFirst | Twist::AgeOfLast => {
                let [early, late] = stamps.as_slice() else { return false };
                let (aged, signed) = if twist == Twist::AgeOfFirst { (early, late) } else { (late, early) };
                let holds = self.holds(request) || self.holds(&self.with_stamp(request, signed));
                self.is_fresh(aged) && holds
            }
            Twist::AgeOfDate => {
                let now = unix_seconds().unsigned_abs();
                let date = first(request, "date");
                (now - 300..=now).any(|second| http_date(second) == date) && self.holds(request)
            }
            Twist::AgeOfUnsigned => self.is_fresh(&first(request, "x-timestamp")) && self.holds(request),
            _ => false,
        }
    }

    fn is_dated_now(&self, request: &Request) -> bool {
        let stamps = self.stamps(request);
        let digits = |text: &String| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        stamps.first().is_none_or(|stamp| self.is_fresh(&digits(stamp)))
    }

    fn head(&self, request: &Request) -> serde_json::Value {
        let message = self.message(request);
        let head = message.split(|byte| *byte == b'.').next().unwrap_or_default();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(head).unwrap_or_default()).unwrap_or_default()
    }

    /// Without the name of a webhook.
    fn public_text(&self) -> &str {
        self.public.split_once(':').filter(|_| self.facts.is_rsa()).map_or(&self.public, |(_, text)| text)
    }

    fn key_bytes(&self) -> Vec<u8> {
        match self.public.strip_prefix("whsec_").filter(|_| self.profile.name() == "standard-webhooks") {
            Some(encoded) => STANDARD.decode(encoded).unwrap(),
            None if self.facts.texts.signature_field.is_some() => {
                let pairs = self.public.as_bytes().as_chunks::<2>().0.iter();
                pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
            }
            None => self.public.as_bytes().to_vec(),
        }
    }

    /// Those of Ed25519 as they are, those of P-256 in DER.
    fn public_bytes(&self) -> Vec<u8> {
        if !self.public.starts_with('{') {
            return match self.facts.is_ed25519 {
                true => self.decoded(&self.public).unwrap(),
                false => STANDARD.decode(self.public_text()).unwrap(),
            };
        }
        let jwk: serde_json::Value = serde_json::from_str(&self.public).unwrap();
        let number = |name: &str| URL_SAFE_NO_PAD.decode(jwk[name].as_str().unwrap()).unwrap();
        match self.facts.is_ed25519 {
            true => number("x"),
            false => [&P256_FRONT[..], &number("x"), &number("y")].concat(),
        }
    }

    fn pem(&self) -> String {
        let der = match self.facts.is_ed25519 {
            true => [&ED25519_FRONT[..], &self.public_bytes()].concat(),
            false => self.public_bytes(),
        };
        let text = STANDARD.encode(der);
        let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n"))
    }
}

/// A `SubjectPublicKeyInfo` up to the key's bytes.
const ED25519_FRONT: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
const P256_FRONT: [u8; 27] = [
    0x30, 0x59, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3,
    1, 7, 3, 0x42, 0, 4,
];

fn fetched(url: &str) -> Option<String> {
    let (address, path) = url.strip_prefix("http://")?.split_once('/')?;
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

fn answer(is_accepted: bool) -> u16 {
    if is_accepted { 204 } else { 401 }
}

fn minified(json: &[u8]) -> Vec<u8> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    let keeps = |byte: &&u8| {
        let is_kept = is_quoted || !byte.is_ascii_whitespace();
        is_quoted ^= **byte == b'"' && !is_escaped;
        is_escaped = **byte == b'\\' && !is_escaped;
        is_kept
    };
    json.iter().filter(keeps).copied().collect()
}

fn lenient_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.split('=').next().unwrap_or_default().replace('-', "+").replace('_', "/");
    let known = |byte: &char| byte.is_ascii_alphanumeric() || matches!(byte, '+' | '/');
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let lenient = GeneralPurpose::new(&alphabet::STANDARD, config);
    lenient.decode(text.chars().filter(known).collect::<String>()).ok()
}

/// Of DER, with lengths and zeros in any form.
fn numbers(der: &[u8]) -> Option<[Vec<u8>; 2]> {
    let inside = der.get(if *der.get(1)? == 0x81 { 3 } else { 2 }..)?;
    let number = |at: &[u8]| -> Option<(Vec<u8>, Vec<u8>)> {
        let length = usize::from(*at.get(1)?);
        let bytes = at.get(2..2 + length)?;
        let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(length);
        Some((bytes[start..].to_vec(), at[2 + length..].to_vec()))
    };
    let (one, rest) = number(inside)?;
    let (other, _) = number(&rest)?;
    Some([one, other])
}

fn narrow(c: char) -> char {
    match u32::from(c) {
        wide @ 0xff01..=0xff5e => char::from_u32(wide - 0xfee0).unwrap_or(c),
        _ => c,
    }
}

fn percent_decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..2).and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                decoded.push(char::from(byte));
                decoded.push_str(&part[2..]);
            }
            None => {
                decoded.push('%');
                decoded.push_str(part);
            }
        }
    }
    decoded
}
