//! The shipped verification with at most one bug around it. It knows the private key, to see which signature would be right.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hookproof::wire::clock::unix_seconds;
use hookproof_judge::signature::{IN_BODY, Profile, Secret, encode_bare, folded};
use hookproof_receiver::verify::{Keys, UnixSeconds, Verified, verify};

use crate::receiver_mutants::server::Request;
use crate::receiver_mutants::twist::Twist;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Template,
    Token,
    Message,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    None,
    Header,
    Beside,
    /// Of the body, or of a token.
    Json,
    Parameter,
}

/// As the profile writes them.
pub(crate) struct Texts {
    pub(crate) separator: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) signature_field: Option<String>,
    pub(crate) audience: Option<String>,
    pub(crate) key_url: Option<String>,
    /// The last one that is signed.
    pub(crate) member: Option<String>,
}

pub(crate) struct Facts {
    pub(crate) texts: Texts,
    pub(crate) kind: Kind,
    pub(crate) stamp: Stamp,
    pub(crate) template: String,
    pub(crate) is_shared: bool,
    pub(crate) is_ed25519: bool,
    pub(crate) is_base64: bool,
    pub(crate) is_der: bool,
    pub(crate) has_digest: bool,
    pub(crate) has_version: bool,
    pub(crate) has_several: bool,
    pub(crate) has_own_headers: bool,
    pub(crate) stamp_name: String,
}

impl Facts {
    pub(crate) fn of(profile: Profile, secret: &Secret, public: &str) -> Self {
        let path =
            format!("{}/judge/src/signature/profiles/{}.toml", env!("CARGO_MANIFEST_DIR"), profile.name());
        let table: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
        let text = |key: &str| table.get(key).and_then(toml::Value::as_str).map(str::to_owned);
        let kind = match text("algorithm").unwrap().as_str() {
            "jwt-es256" => Kind::Token,
            "rfc9421" => Kind::Message,
            _ => Kind::Template,
        };
        let signed = table.get("signed").and_then(toml::Value::as_array);
        let template = match kind {
            Kind::Template => signed.unwrap().iter().map(|part| part.as_str().unwrap()).collect(),
            Kind::Token => "{timestamp}{body}".to_owned(),
            Kind::Message => "{method}{url}{body}{id}{timestamp}".to_owned(),
        };
        let stamps = [
            (Stamp::Header, "timestamp"),
            (Stamp::Beside, "timestamp_prefix"),
            (Stamp::Json, "timestamp_field"),
        ];
        let stamp = stamps.into_iter().find_map(|(stamp, key)| Some((stamp, text(key)?)));
        let (stamp, stamp_name) = match kind {
            Kind::Message => (Stamp::Parameter, ";created=".to_owned()),
            _ => stamp.unwrap_or((Stamp::None, String::new())),
        };
        let member =
            template.rfind("{body/").map(|at| template[at..].split_inclusive('}').next().unwrap().to_owned());
        let encoding = text("encoding").unwrap_or_default();
        let prefix = text("prefix").unwrap_or_default();
        let texts = Texts {
            separator: text("separator").or_else(|| (kind == Kind::Message).then(|| ", ".to_owned())),
            id: text("id"),
            signature_field: text("signature_field"),
            audience: text("audience"),
            key_url: text("key_url"),
            member,
        };
        Self {
            texts,
            kind,
            stamp,
            template,
            is_shared: !secret.is_private(),
            is_ed25519: text("algorithm").unwrap() == "ed25519" || public.contains("Ed25519"),
            is_base64: encoding == "base64" || kind != Kind::Template,
            is_der: text("algorithm").unwrap() == "ecdsa-p256-der",
            has_digest: text("body_digest").is_some() || kind == Kind::Message,
            has_version: prefix.bytes().any(|byte| byte.is_ascii_digit()),
            has_several: kind == Kind::Message
                || table.contains_key("separator") && !table.contains_key("several"),
            has_own_headers: stamp == Stamp::Header || table.contains_key("id"),
            stamp_name,
        }
    }

    pub(crate) fn signs(&self, part: &str) -> bool {
        self.template.contains(part)
    }

    pub(crate) fn is_p256(&self) -> bool {
        !self.is_shared && !self.is_ed25519 && !self.is_rsa()
    }

    pub(crate) const fn is_rsa(&self) -> bool {
        self.texts.key_url.is_some()
    }

    pub(crate) fn has_named_keys(&self) -> bool {
        self.kind != Kind::Template
    }

    /// The text behind the signed time.
    pub(crate) fn border(&self) -> Option<&str> {
        let (_, behind) = self.template.split_once("{timestamp}").filter(|_| self.kind == Kind::Template)?;
        behind.split('{').next().filter(|text| !text.is_empty())
    }

    pub(crate) fn has_text(&self) -> bool {
        !without_text(&self.template).eq(&self.template)
    }
}

fn without_text(template: &str) -> String {
    let (front, rest) = template.split_at(template.find('{').unwrap_or_default());
    let parts = rest.split_inclusive('}').filter_map(|part| part.find('{').map(|at| &part[at..]));
    front.to_owned() + &parts.collect::<String>()
}

pub(crate) struct Shipped {
    pub(crate) twist: Option<Twist>,
    pub(crate) profile: Profile,
    pub(crate) facts: Facts,
    pub(crate) secret: Secret,
    pub(crate) retired: Secret,
    pub(crate) public: String,
    pub(crate) keys: Keys,
    pub(crate) seen: Mutex<BTreeSet<String>>,
    pub(crate) times: Mutex<BTreeMap<String, Option<UnixSeconds>>>,
}

pub(crate) fn first(request: &Request, name: &str) -> String {
    request.header(name).unwrap_or_default()
}

pub(crate) fn with(request: &Request, name: &str, value: impl AsRef<[u8]>) -> Request {
    let mut request = request.clone();
    request.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    request.headers.push((name.to_owned(), value.as_ref().to_vec()));
    request
}

pub(crate) fn bearing(request: &Request, body: impl AsRef<[u8]>) -> Request {
    Request { body: body.as_ref().to_vec(), ..request.clone() }
}

impl Shipped {
    pub(crate) fn verified(&self, request: &Request, keys: &Keys) -> Option<Verified<'static>> {
        let sent = folded(&request.headers, &request.body);
        let (headers, body) = sent.unwrap_or_else(|| (request.headers.clone(), request.body.clone()));
        let Verified { id, signed_at, key } =
            verify(UnixSeconds(unix_seconds()), headers.as_slice(), &body, keys).ok()?;
        Some(Verified { id: id.into_owned().into(), signed_at, key })
    }

    /// With a signature that is in the body as a header.
    pub(crate) fn unfolded(&self, request: &Request) -> Request {
        let Some(name) =
            self.facts.texts.signature_field.as_deref().and_then(|pointer| pointer.rsplit('/').next())
        else {
            return request.clone();
        };
        let find =
            |bytes: &[u8], text: &str| bytes.windows(text.len()).position(|part| part == text.as_bytes());
        let (member, mut request) = (format!("\"{name}\":\""), request.clone());
        let Some(start) = find(&request.body, &member).map(|at| at + member.len()) else { return request };
        let end = start + find(&request.body[start..], "\"").unwrap_or_default();
        let value: Vec<u8> = request.body.splice(start..end, IN_BODY.bytes()).collect();
        request.headers.push((IN_BODY.to_owned(), value));
        request
    }

    pub(crate) fn is_genuine(&self, request: &Request) -> bool {
        self.verified(request, &self.keys).is_some()
    }

    fn whole(&self, request: &Request) -> String {
        first(request, self.profile.signature_header())
    }

    /// The values of the signature's header, without times.
    pub(crate) fn items(&self, request: &Request) -> (Vec<String>, Vec<String>) {
        let whole = self.whole(request);
        let values: Vec<String> = match &self.facts.texts.separator {
            Some(separator) => whole.split(separator.as_str()).map(str::to_owned).collect(),
            None => vec![whole],
        };
        let is_time = |value: &String| {
            self.facts.stamp == Stamp::Beside && value.starts_with(self.facts.stamp_name.as_str())
        };
        values.into_iter().partition(is_time)
    }

    pub(crate) fn given(&self, request: &Request) -> Vec<String> {
        let whole = self.whole(request);
        match self.facts.kind {
            Kind::Token => whole.rsplit_once('.').map(|(_, text)| text.to_owned()).into_iter().collect(),
            Kind::Message => {
                let (_, items) = self.items(request);
                let texts = items.iter().filter_map(|item| item.split_once("=:"));
                texts.map(|(_, text)| text.strip_suffix(':').unwrap_or(text).to_owned()).collect()
            }
            Kind::Template => {
                let (_, items) = self.items(request);
                let prefix = self.profile.signature_prefix();
                items.iter().filter_map(|item| item.strip_prefix(prefix)).map(str::to_owned).collect()
            }
        }
    }

    pub(crate) fn with_items(&self, request: &Request, items: &[String]) -> Request {
        let (times, _) = self.items(request);
        let separator = self.facts.texts.separator.as_deref().unwrap_or_default();
        let joined = with(request, self.profile.signature_header(), [&times, items].concat().join(separator));
        let input = first(request, "signature-input");
        let label = |text: &str| text.split('=').next().unwrap_or_default().to_owned();
        let labels: Vec<String> = items.iter().map(|item| label(item)).collect();
        let inputs: Vec<&str> = input.split(", ").filter(|input| labels.contains(&label(input))).collect();
        match self.facts.kind {
            Kind::Message => with(&joined, "signature-input", inputs.join(", ")),
            _ => joined,
        }
    }

    pub(crate) fn with_signature(&self, request: &Request, text: &str) -> Request {
        let name = self.profile.signature_header();
        match self.facts.kind {
            Kind::Token => {
                with(request, name, format!("{}.{text}", String::from_utf8(self.message(request)).unwrap()))
            }
            Kind::Message => {
                let whole = self.whole(request);
                let label = whole.split_once("=:").map_or("sig1", |(label, _)| label);
                with(request, name, format!("{label}=:{text}:"))
            }
            Kind::Template => {
                self.with_items(request, &[format!("{}{text}", self.profile.signature_prefix())])
            }
        }
    }

    pub(crate) fn stamps(&self, request: &Request) -> Vec<String> {
        let name = self.facts.stamp_name.as_str();
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let member = |json: &[u8]| -> Vec<String> {
            let object = serde_json::from_slice::<serde_json::Value>(json).unwrap_or_default();
            object.get(name).map(ToString::to_string).into_iter().collect()
        };
        match self.facts.stamp {
            Stamp::None => Vec::new(),
            Stamp::Header => request.values(name).into_iter().map(lossy).collect(),
            Stamp::Beside => self.items(request).0.iter().map(|time| time[name.len()..].to_owned()).collect(),
            Stamp::Json if self.facts.kind == Kind::Token => {
                let message = self.message(request);
                let claims = message.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
                member(&URL_SAFE_NO_PAD.decode(claims).unwrap_or_default())
            }
            Stamp::Json => member(&request.body),
            Stamp::Parameter => {
                let input = first(request, "signature-input");
                let behind = input.split(name).skip(1);
                behind.map(|text| text.split(';').next().unwrap_or_default().to_owned()).collect()
            }
        }
    }

    pub(crate) fn with_stamp(&self, request: &Request, text: &str) -> Request {
        let name = self.facts.stamp_name.as_str();
        match self.facts.stamp {
            Stamp::Header => with(request, name, text),
            Stamp::Beside => {
                let (_, items) = self.items(request);
                let all = [vec![format!("{name}{text}")], items].concat();
                with(
                    request,
                    self.profile.signature_header(),
                    all.join(self.facts.texts.separator.as_deref().unwrap()),
                )
            }
            Stamp::Parameter => {
                let input = first(request, "signature-input");
                let Some(old) = self.stamps(request).first().cloned() else { return request.clone() };
                with(
                    request,
                    "signature-input",
                    input.replacen(&format!("{name}{old}"), &format!("{name}{text}"), 1),
                )
            }
            Stamp::None | Stamp::Json => request.clone(),
        }
    }

    pub(crate) fn is_fresh(&self, stamp: &str) -> bool {
        let unit = self.profile.in_unit(1);
        let distance = |count: i64| unix_seconds().abs_diff(count / unit);
        stamp.parse().is_ok_and(|count| distance(count) <= u64::from(self.keys.tolerance()))
    }

    /// The signed text, as the request has it.
    pub(crate) fn message(&self, request: &Request) -> Vec<u8> {
        match self.facts.kind {
            Kind::Template => self.rendered(&self.facts.template, request),
            Kind::Token => {
                let whole = self.whole(request);
                whole.rsplit_once('.').map_or(whole.as_str(), |(signed, _)| signed).as_bytes().to_vec()
            }
            Kind::Message => {
                let input = first(request, "signature-input");
                let (_, text) = input.split_once('=').unwrap_or_default();
                let mut base = String::new();
                for name in self.components(request) {
                    let value = match name.as_str() {
                        "@method" => request.method.clone(),
                        "@target-uri" => url(request),
                        "@authority" => first(request, "host"),
                        field => first(request, field),
                    };
                    base.extend(["\"", &name, "\": ", &value, "\n"]);
                }
                format!("{base}\"@signature-params\": {text}").into_bytes()
            }
        }
    }

    pub(crate) fn components(&self, request: &Request) -> Vec<String> {
        let input = first(request, "signature-input");
        let inside = input.split_once('(').and_then(|(_, rest)| rest.split_once(')')).unwrap_or_default().0;
        inside
            .split(' ')
            .map(|name| name.trim_matches('"').to_owned())
            .filter(|name| !name.is_empty())
            .collect()
    }

    pub(crate) fn rendered(&self, template: &str, request: &Request) -> Vec<u8> {
        let mut text = Vec::new();
        for piece in template.split_inclusive('}') {
            let (before, name) = piece.split_at(piece.find('{').unwrap_or(piece.len()));
            text.extend_from_slice(before.as_bytes());
            match name {
                "{id}" => {
                    text.extend(first(request, self.facts.texts.id.as_deref().unwrap_or_default()).bytes());
                }
                "{timestamp}" => {
                    text.extend(self.stamps(request).first().into_iter().flat_map(|one| one.bytes()));
                }
                "{body}" => text.extend_from_slice(&request.body),
                "{url}" => text.extend(url(request).bytes()),
                "{method}" => text.extend(request.method.bytes()),
                "{audience}" => {
                    text.extend(self.facts.texts.audience.iter().flat_map(|audience| audience.bytes()));
                }
                "{crc32}" => text.extend(crc32(&request.body).to_string().bytes()),
                name if name.starts_with("{header.") => {
                    text.extend(first(request, &name["{header.".len()..name.len() - 1]).bytes());
                }
                name if name.starts_with("{body/") => {
                    let json = serde_json::from_slice::<serde_json::Value>(&request.body).unwrap_or_default();
                    let value = json.pointer(&name["{body".len()..name.len() - 1]);
                    let written = |value: &serde_json::Value| {
                        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
                    };
                    text.extend(value.map(written).unwrap_or_default().bytes());
                }
                _ => {}
            }
        }
        text
    }

    pub(crate) fn text_of(&self, tag: &[u8]) -> String {
        encode_bare(&self.profile, tag)
    }

    pub(crate) fn right(&self, request: &Request) -> String {
        self.text_of(&self.secret.tag(&self.message(request)))
    }

    pub(crate) fn decoded(&self, text: &str) -> Option<Vec<u8>> {
        match (self.facts.kind, self.facts.is_base64) {
            (Kind::Token, _) => URL_SAFE_NO_PAD.decode(text).ok(),
            (_, true) => STANDARD.decode(text).ok(),
            (_, false) => {
                let digits = text.as_bytes().as_chunks::<2>().0.iter();
                let pairs = digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
                pairs.collect::<Option<_>>().filter(|_| text.len().is_multiple_of(2))
            }
        }
    }

    /// Whether the bug takes one of the signatures, and all but the signature is right.
    pub(crate) fn fits(&self, request: &Request, takes: impl Fn(&str, &str) -> bool) -> bool {
        let right = self.right(request);
        self.given(request).iter().any(|given| takes(given, &right))
            && self.is_genuine(&self.with_signature(request, &right))
    }

    pub(crate) fn fits_bytes(&self, request: &Request, takes: impl Fn(&[u8], &[u8]) -> bool) -> bool {
        self.fits(request, |given, right| {
            let Some((given, right)) = self.decoded(given).zip(self.decoded(right)) else { return false };
            given.len() == right.len() && takes(&given, &right)
        })
    }

    pub(crate) fn fits_tag(&self, request: &Request, tag: &[u8]) -> bool {
        let text = self.text_of(tag);
        self.fits(request, |given, _| given == text)
    }

    /// Whether the signature holds for the request as it is, by whatever rules it breaks.
    pub(crate) fn holds(&self, request: &Request) -> bool {
        self.given(request).contains(&self.right(request))
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |rest: u32, _: u32| if rest & 1 == 1 { rest >> 1 ^ 0xedb8_8320 } else { rest >> 1 };
    !bytes.iter().fold(u32::MAX, |rest, byte| (0..8).fold(rest ^ u32::from(*byte), step))
}

pub(crate) fn url(request: &Request) -> String {
    format!("http://{}{}", first(request, "host"), request.path)
}

pub(crate) fn without(template: &str, part: &str) -> [String; 2] {
    let (before, after) = template.split_once(part).unwrap_or((template, ""));
    let next = after.find('{').map_or("", |at| &after[at..]);
    [format!("{before}{after}"), format!("{before}{next}")]
}

pub(crate) fn joined(template: &str) -> String {
    without_text(template)
}
