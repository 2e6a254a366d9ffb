//! `sig.*`: validity of signatures. `rotation.*`: several signatures, and retired keys.

use std::time::Duration;

use hookproof_judge::catalogue::Verdict;
use hookproof_judge::signature::{Definition, ForeignHash, Secret, base64, hex};

use super::{Case, Finding, Running, Shots};
use crate::suite::bench::{Bench, Delivery, Shot};
use crate::suite::foreign_key;
use crate::suite::want::Want::{Accept, NoFailure, Reject, Report};
use crate::suite::want::words;
use crate::wire::clock::unix_seconds;
use crate::wire::request::Request;

pub(super) const CASES: [Case; 18] = [
    Case::shots("sig.valid", valid),
    Case::shots("sig.wrong-secret", wrong_secret),
    Case::shots("sig.missing", missing),
    Case::shots("sig.empty", empty),
    Case::shots("sig.body-bit", body_bit),
    Case::shots("sig.id-swap", id_swap),
    Case::shots("sig.timestamp-swap", timestamp_swap),
    Case::shots("sig.tag-bit", tag_bit),
    Case::shots("sig.truncated", truncated),
    Case::shots("sig.parts", parts),
    Case::shots("sig.dot-shift", dot_shift),
    Case::shots("sig.unknown-version", unknown_version),
    Case::shots("sig.algorithm", algorithm),
    Case::shots("sig.encoding", encoding),
    Case::shots("sig.base64-junk", junk),
    Case::shots("sig.case", folded),
    Case::shots("sig.content-type", content_type),
    Case::shots("sig.trust", trust),
];

fn valid(bench: &Bench<'_>) -> Shots {
    let form = bench.form().map(|form| Shot::new("a correct form", bench.signed(&form), Accept));
    let correct = Shot::new("a correct delivery", bench.signed(&bench.delivery()), Accept);
    Ok(std::iter::once(correct).chain(form).collect())
}

fn wrong_secret(bench: &Bench<'_>) -> Shots {
    let nothing = bench.settings.secret.sibling(&[0; 32]);
    let shot = |what: &str, secret: &Secret| {
        let delivery = bench.delivery();
        let signature = bench.forged(&delivery, secret);
        Shot::new(what, bench.request(&delivery, &[signature]), Reject)
    };
    let foreign = shot("signed with another secret", &bench.foreign_secret()?);
    // An unset variable gives these keys.
    let empty = nothing.map(|nothing| shot("signed with an empty secret", &nothing));
    let zeros = bench.signed_by_zeros().map(|request| {
        let what = if empty.is_some() { "signed for a public key of zeros" } else { "a signature of zeros" };
        Shot::new(what, request, Reject)
    });
    Ok(std::iter::once(foreign).chain(empty).chain(zeros).chain(elsewhere(bench)?).collect())
}

/// The key of these signatures is at the URL of the request, as that of the right ones is. The host is another.
fn elsewhere(bench: &Bench<'_>) -> Result<Vec<Shot>, String> {
    let Some((header, own)) = bench.settings.profile.key_url() else { return Ok(Vec::new()) };
    let (stranger, foreign) = (bench.foreign_secret()?, foreign_key::address());
    let (host, path) = own.trim_start_matches("https://").split_once('/').unwrap_or((own, ""));
    let urls = [
        format!("http://{foreign}/{path}"),
        format!("http://{foreign}/?{own}"),
        format!("http://{host}@{foreign}/{path}"),
        format!("https://{host}.hookproof.example/{path}"),
        format!("https://hookproof-{}/{path}", host.split_once('.').map_or(host, |(_, domain)| domain)),
    ];
    let shot = |url: String| {
        let delivery = bench.delivery();
        let request = bench.request(&delivery, &[bench.forged(&delivery, &stranger)]);
        Shot::new(format!("signed by the key at {url}"), request.with(header, url), Reject)
    };
    Ok(urls.map(shot).into())
}

fn missing(bench: &Bench<'_>) -> Shots {
    let request = bench.signed(&bench.delivery());
    let profile = bench.settings.profile;
    let request = request.without(profile.signature_header());
    Ok(vec![Shot::new(format!("no {}", profile.signature_place()), request, Reject)])
}

fn empty(bench: &Bench<'_>) -> Shots {
    let profile = bench.settings.profile;
    let delivery = bench.delivery();
    let request = bench.signed(&delivery).with(profile.signature_header(), "");
    let what = if profile.signs_body() { "an empty header" } else { "an empty text" };
    let mut shots = vec![Shot::new(what, request, Reject)];
    let delivery = bench.delivery();
    let bare = bench.prefix(&delivery);
    if !bare.is_empty() {
        let own = profile.signature_prefix();
        let what = if profile.is_token() { "only the claims".to_owned() } else { format!("only {own:?}") };
        shots.push(Shot::new(what, bench.request(&delivery, &[bare]), Reject));
    }
    Ok(shots)
}

fn body_bit(bench: &Bench<'_>) -> Shots {
    if !bench.settings.profile.signs_body() {
        return Ok(other_members(bench));
    }
    let shots = [("first", 0), ("middle", 1), ("last", 2)].map(|(what, part)| {
        let delivery = bench.delivery();
        let mut body = delivery.body.clone();
        let at = (body.len() - 1) * part / 2;
        body[at] ^= 1;
        let request = bench.signed(&delivery).carrying(body);
        Shot::new(format!("one bit flipped in the {what} byte"), request, Reject)
    });
    let form = bench.form().map(|delivery| {
        let body = String::from_utf8_lossy(&delivery.body).replace("=a+", "=b+").into_bytes();
        Shot::new("another value in a form", bench.signed(&delivery).carrying(body), Reject)
    });
    Ok(shots.into_iter().chain(form).chain(other_spellings(bench)).collect())
}

/// The rest of the body is not signed.
fn other_members(bench: &Bench<'_>) -> Vec<Shot> {
    let profile = bench.settings.profile;
    let changed = |body: &[u8]| {
        let others = profile.with_other_members(body).into_iter();
        let others = others.map(|(pointer, body)| (format!("another value at {pointer}"), body));
        let items = profile.with_another_item(body).into_iter();
        others
            .chain(items.map(|(place, body)| (format!("an unsigned item {place}"), body)))
            .collect::<Vec<_>>()
    };
    let count = changed(&bench.delivery().body).len();
    let shots = (0..count).filter_map(|at| {
        let delivery = bench.delivery();
        let (what, body) = changed(&delivery.body).into_iter().nth(at)?;
        Some(Shot::new(what, bench.signed(&delivery).carrying(body), Reject))
    });
    shots.collect()
}

/// Normalisation turns them into the signed body: trimming, a dropped byte order mark, composed accents.
fn other_spellings(bench: &Bench<'_>) -> Vec<Shot> {
    let composed = bench.delivery().with_data("\"caf\u{e9}\"");
    let decomposed = String::from_utf8_lossy(&composed.body).replace('\u{e9}', "e\u{301}");
    let around = |before: &str, after: &str| {
        let delivery = bench.delivery();
        let body = [before.as_bytes(), &delivery.body, after.as_bytes()].concat();
        (delivery, body)
    };
    let rows = [
        ("a line break added at the end", around("", "\n")),
        ("a space added in front", around(" ", "")),
        ("a NUL added at the end", around("", "\0")),
        ("a byte order mark added in front", around("\u{feff}", "")),
        ("an accent taken apart", (composed, decomposed.into_bytes())),
    ];
    let shot = |(what, (delivery, body)): (&str, (Delivery, Vec<u8>))| {
        Shot::new(what, bench.signed(&delivery).carrying(body), Reject)
    };
    // A form has no accents to take apart: they are escaped.
    let changed = rows.into_iter().filter(|(_, (delivery, body))| delivery.body != *body);
    changed.map(shot).collect()
}

fn id_swap(bench: &Bench<'_>) -> Shots {
    let profile = bench.settings.profile;
    let Some(header) = profile.id_header().filter(|_| profile.signs_id()) else {
        let unsigned = profile.unsigned_headers().join(" and ");
        return Err(match unsigned.as_str() {
            "" if !profile.signs_body() => {
                format!("{profile} signs members of the body; sig.body-bit changes them")
            }
            "" => format!("{profile} does not sign an id"),
            _ => format!(
                "{profile} does not sign {unsigned}: a captured delivery passes again with another value there; \
                 keep a unique index on a hash of the body beside the one on the id"
            ),
        });
    };
    let shot = |what: &str, change: &dyn Fn(&str) -> String| {
        let signed = bench.delivery();
        let sent = change(&signed.id);
        Shot::new(what, bench.signed(&signed).with(header, sent), Reject)
    };
    Ok(vec![
        shot("signed with another id", &|_| bench.delivery().id),
        shot("the id in upper case", &str::to_uppercase),
        shot("the id with a character as %xx", &|id| id.replacen('_', "%5F", 1)),
    ])
}

fn timestamp_swap(bench: &Bench<'_>) -> Shots {
    let profile = bench.settings.profile;
    if !profile.signs_timestamp() {
        return Err(format!("{profile} does not sign a timestamp"));
    }
    let shot = |what: &str, signed: Delivery, sent: String| {
        let tag = bench.tag(&signed);
        let sent = signed.at(sent);
        Shot::new(what, bench.request(&sent, &[bench.encoded(&sent, &tag)]), Reject)
    };
    let now = bench.stamp(unix_seconds());
    // One number in several notations: the signature covers the text. Of a message it covers the number, which may have a zero
    // in front (RFC 8941, section 4.2.4).
    let spellings = [("a plus sign", format!("+{now}")), ("a zero", format!("0{now}"))];
    let count = if profile.is_message() { 1 } else { 2 };
    let spellings = spellings
        .into_iter()
        .take(count)
        .map(|(what, text)| (format!("{what} added in front"), text))
        .chain([("a fraction added".to_owned(), format!("{now}.0"))]);
    let mut shots =
        vec![shot("signed with the second before", bench.delivery().at(now), (now + 1).to_string())];
    shots.extend(spellings.map(|(what, text)| shot(&what, bench.delivery().at(now), text)));
    Ok(shots)
}

fn tag_bit(bench: &Bench<'_>) -> Shots {
    let shot = |what: String, change: &dyn Fn(&mut [u8])| {
        let delivery = bench.delivery();
        let mut tag = bench.tag(&delivery);
        change(&mut tag);
        let text = bench.encoded(&delivery, &tag);
        Shot::new(what, bench.request(&delivery, &[text]), Reject)
    };
    let is_der = bench.settings.profile.is_der();
    let bytes = places(is_der, &bench.tag(&bench.delivery())).len();
    let flip = |tag: &mut [u8], at: usize| {
        let places = places(is_der, tag);
        tag[places[at % places.len()]] ^= 1 << (at % 8);
    };
    let mut shots: Vec<Shot> = (0..bytes)
        .map(|at| shot(format!("one bit of byte {} of {bytes}", at + 1), &|tag| flip(tag, at)))
        .collect();
    shots.extend([
        shot("the same bit of two bytes".to_owned(), &|tag| (tag[9], tag[19]) = (tag[9] ^ 4, tag[19] ^ 4)),
        shot("the halves exchanged".to_owned(), &|tag| tag.rotate_left(tag.len() / 2)),
    ]);
    Ok(shots)
}

/// Of DER those of its two numbers, whose lengths vary: the rest has several spellings, as `sig.base64-junk` tries.
fn places(is_der: bool, tag: &[u8]) -> Vec<usize> {
    const FRONT: usize = 4;
    if !is_der {
        return (0..tag.len()).collect();
    }
    let second = FRONT + usize::from(tag[FRONT - 1]);
    (FRONT..second).chain(second + 2..tag.len()).collect()
}

fn truncated(bench: &Bench<'_>) -> Shots {
    let shot = |what: &str, change: &dyn Fn(&Delivery, &[u8]) -> String| {
        let delivery = bench.delivery();
        let text = change(&delivery, &bench.tag(&delivery));
        Shot::new(what, bench.request(&delivery, &[text]), Reject)
    };
    Ok(vec![
        shot("the first 8 characters", &|delivery, _| {
            bench.signature(delivery)[..bench.prefix(delivery).len() + 8].to_owned()
        }),
        shot("one byte short", &|delivery, tag| bench.encoded(delivery, &tag[..tag.len() - 1])),
        // Without the padding alone, the bytes would be whole.
        shot("one character short", &|delivery, _| {
            let text = bench.signature(delivery);
            let text = text.trim_end_matches('=');
            text[..text.len() - 1].to_owned()
        }),
        shot("one byte long", &|delivery, tag| bench.encoded(delivery, &[tag, &[0]].concat())),
    ])
}

fn parts(bench: &Bench<'_>) -> Shots {
    let profile = bench.settings.profile;
    let count = bench.other_signatures(&bench.delivery()).len();
    if count == 0 {
        return Err(format!("{profile} signs only the body"));
    }
    let shots = (0..count).filter_map(|at| {
        let delivery = bench.delivery();
        let (template, signature) = bench.other_signatures(&delivery).into_iter().nth(at)?;
        let request = bench.request(&delivery, &[signature]);
        Some(Shot::new(format!("signed over {template:?}"), request, Reject))
    });
    let headers = if profile.is_message() { Vec::new() } else { profile.signed_headers().collect() };
    let others = headers.into_iter().map(|name| {
        let request = bench.signed(&bench.delivery());
        let value = String::from_utf8_lossy(request.header(name).unwrap_or_default()).into_owned();
        let last = |digit: char| if digit == '1' { "2" } else { "1" };
        let at = value.rfind(|digit: char| digit.is_ascii_digit());
        let other = at.map_or_else(
            || format!("{value}1"),
            |at| format!("{}{}{}", &value[..at], last(char::from(value.as_bytes()[at])), &value[at + 1..]),
        );
        Shot::new(format!("another {name}"), request.with(name, other), Reject)
    });
    Ok(shots.chain(others).collect())
}

fn dot_shift(bench: &Bench<'_>) -> Shots {
    let profile = bench.settings.profile;
    let Some(border) = profile.border() else {
        return Err(format!("{profile} signs no timestamp with a border"));
    };
    let mut delivery = bench.delivery();
    if profile.signs_id() {
        // Ambiguous: the signed text also fits the shorter id, with a number in front of the body.
        delivery.id = format!("{}{border}{}", delivery.id, delivery.timestamp);
        return Ok(vec![Shot::new(format!("an id with {border:?} in it"), bench.signed(&delivery), Reject)]);
    }
    delivery.timestamp = format!("{}{border}{}", delivery.timestamp, delivery.timestamp);
    Ok(vec![Shot::new(format!("a timestamp with {border:?} in it"), bench.signed(&delivery), Reject)])
}

fn unknown_version(bench: &Bench<'_>) -> Shots {
    let profile = bench.settings.profile;
    let other = other_version(&profile).ok_or_else(|| format!("{profile} has no versions"))?;
    let delivery = bench.delivery();
    let text = bench.signature(&delivery).replacen(profile.signature_prefix(), &other, 1);
    Ok(vec![Shot::new(
        format!("the right signature as {other:?}"),
        bench.request(&delivery, &[text]),
        Reject,
    )])
}

/// The prefix of another version or algorithm: `v2,` for `v1,`, `sha512=` for `sha256=`.
fn other_version(profile: &Definition) -> Option<String> {
    let prefix = profile.signature_prefix();
    let at = prefix.find(|c: char| c.is_ascii_digit())?;
    let end = prefix[at..].find(|c: char| !c.is_ascii_digit()).map_or(prefix.len(), |length| at + length);
    let next = match &prefix[at..end] {
        "256" => "512".to_owned(),
        number => (number.parse::<u32>().ok()? + 1).to_string(),
    };
    Some(format!("{}{next}{}", &prefix[..at], &prefix[end..]))
}

/// The character between a version and a signature.
fn joint(profile: &Definition) -> char {
    profile.signature_prefix().chars().last().unwrap_or('=')
}

/// By each hash, under its own name and under the profile's; and the right hash under a foreign name.
fn algorithm(bench: &Bench<'_>) -> Shots {
    let profile = bench.settings.profile;
    if profile.is_token() || profile.is_message() {
        let stranger = bench.foreign_secret()?;
        let forged = |at: usize| {
            let delivery = bench.delivery();
            let (what, token) = bench.forged_tokens(&delivery, &stranger).into_iter().nth(at)?;
            Some(Shot::new(what, bench.request(&delivery, &[token]), Reject))
        };
        return Ok((0..).map_while(forged).collect());
    }
    let own = profile.signature_prefix();
    let join = joint(&profile);
    let text = if profile.is_base64() { base64 as fn(&[u8]) -> String } else { hex };
    let shot = |what: String, name: &str, hash: ForeignHash| {
        let delivery = bench.delivery();
        let signature = format!("{name}{}", text(&bench.foreign_tag(&delivery, hash)));
        Shot::new(what, bench.request(&delivery, &[signature]), Reject)
    };
    let hashes = [
        ("md5", ForeignHash::Md5),
        ("sha1", ForeignHash::Sha1),
        ("sha256", ForeignHash::Sha256),
        ("sha512", ForeignHash::Sha512),
    ];
    let mut shots = vec![shot("SHA-256 without the key".to_owned(), own, ForeignHash::Keyless)];
    let delivery = bench.delivery();
    let is_own = |hash| bench.foreign_tag(&delivery, hash) == bench.tag(&delivery);
    for (name, hash) in hashes.into_iter().filter(|(_, hash)| !is_own(*hash)) {
        shots.push(shot(format!("HMAC-{name} as {name}"), &format!("{name}{join}"), hash));
        shots.push(shot(format!("HMAC-{name} as {own:?}"), own, hash));
    }
    if profile.is_public() {
        shots.push(shot("HMAC-sha256 by the public key's text".to_owned(), own, ForeignHash::Sha256ByText));
    }
    // `v1a` names a signature by a public key.
    let foreign = if join == ',' { "v1a," } else { "sha1=" };
    let renamed = format!("{foreign}{}", text(&bench.tag(&delivery)));
    let label = format!("{foreign:?} made with the profile's hash");
    shots.push(Shot::new(label, bench.request(&delivery, &[renamed]), Reject));
    Ok(shots)
}

fn encoding(bench: &Bench<'_>) -> Shots {
    let profile = bench.settings.profile;
    if !profile.is_base64() {
        let prefix = profile.signature_prefix();
        let delivery = bench.delivery();
        let tag = bench.tag(&delivery);
        let foreign = bench.request(&delivery, &[format!("{prefix}{}", base64(&tag))]);
        let upper = bench.request(&delivery, &[format!("{prefix}{}", hex(&tag).to_uppercase())]);
        return Ok(vec![
            Shot::new("base64 where hexadecimal is due", foreign, Reject),
            Shot::new("upper-case hexadecimal", upper, Report),
        ]);
    }
    // URL-safe base64 differs in two characters of 64, so nearly every signature has one.
    let (due, other, what) = match profile.is_url_safe() {
        false => (['+', '/'], ['-', '_'], "URL-safe base64"),
        true => (['-', '_'], ['+', '/'], "standard base64"),
    };
    let delivery = bench.delivery_signed(|text| text.contains(due));
    let (prefix, tag) = (bench.prefix(&delivery), bench.tag(&delivery));
    let foreign = bench.request(&delivery, &[format!("{prefix}{}", hex(&tag))]);
    let text = bench.signature(&delivery)[prefix.len()..].to_owned();
    let text =
        due.into_iter().zip(other).fold(text, |text, (due, other)| text.replace(due, &other.to_string()));
    let other = bench.request(&delivery, &[prefix + &text]);
    Ok(vec![Shot::new("hexadecimal where base64 is due", foreign, Reject), Shot::new(what, other, Report)])
}

fn junk(bench: &Bench<'_>) -> Shots {
    let profile = bench.settings.profile;
    let inside = |good: &str, junk: &str| {
        let middle = good.len() / 2;
        format!("{}{junk}{}", &good[..middle], &good[middle..])
    };
    // The signature alone is changed, without its prefix.
    let shot = |what: &str, change: &dyn Fn(&str) -> String| {
        let delivery = bench.delivery_signed(|text| text.contains('=') || !profile.is_der());
        let prefix = bench.prefix(&delivery);
        let text = change(&bench.signature(&delivery)[prefix.len()..]);
        Shot::new(what, bench.request(&delivery, &[prefix + &text]), Reject)
    };
    if profile.is_token() {
        let written = [
            shot("a junk character inside", &|good| inside(good, "*")),
            shot("a space inside", &|good| inside(good, " ")),
            shot("padding added", &|good| format!("{good}==")),
            shot("characters after the signature", &|good| format!("{good}AAAA")),
            shot("an empty part after the signature", &|good| format!("{good}.")),
            shot("other bits in the last character", &other_last_bits),
            shot("a character as %xx", &|good| format!("%{:02X}{}", good.as_bytes()[0], &good[1..])),
        ];
        return Ok(written.into_iter().chain(other_forms(bench)).collect());
    }
    if profile.is_base64() {
        // RFC 8941, section 4.2.7, tells a reader of structured fields to take these two.
        let lenient = (!profile.is_message()).then(|| {
            [
                shot("padding missing", &|good| good.trim_end_matches('=').to_owned()),
                shot("other bits under the padding", &other_last_bits),
            ]
        });
        let written = [
            shot("a junk character inside", &|good| inside(good, "*")),
            shot("padding doubled", &|good| format!("{good}=")),
            shot("characters after the padding", &|good| format!("{good}AAAA")),
            // HTTP strips a space in front of a header's value, where a signature without a prefix begins.
            match profile.signature_prefix() {
                "" => shot("a space inside", &|good| inside(good, " ")),
                _ => shot("a space in front", &|good| format!(" {good}")),
            },
            shot("the padding as %3D", &|good| good.replace('=', "%3D")),
        ];
        return Ok(written
            .into_iter()
            .chain(lenient.into_iter().flatten())
            .chain(other_forms(bench))
            .collect());
    }
    Ok(vec![
        shot("a junk character inside", &|good| inside(good, "_")),
        shot("a space inside", &|good| inside(good, " ")),
        shot("junk at the end", &|good| format!("{good}zz")),
        shot("0x in front", &|good| format!("0x{good}")),
        shot("a digit as %xx", &|good| format!("%{:02X}{}", good.as_bytes()[0], &good[1..])),
    ])
}

/// The two numbers of a signature in another form than that of the profile.
fn other_forms(bench: &Bench<'_>) -> Vec<Shot> {
    let shot = |what: &str, change: &dyn Fn(&[u8]) -> Vec<u8>| {
        let delivery = bench.delivery();
        let text = bench.encoded(&delivery, &change(&bench.tag(&delivery)));
        Shot::new(what, bench.request(&delivery, &[text]), Reject)
    };
    if bench.settings.profile.is_der() {
        return vec![
            shot("a length in two bytes", &|tag| [&[0x30, 0x81], &tag[1..]].concat()),
            shot("a zero more in front of a number", &|tag| {
                [&[0x30, tag[1] + 1, 2, tag[3] + 1, 0], &tag[4..]].concat()
            }),
        ];
    }
    let secret = &bench.settings.secret;
    let is_of_numbers = secret.in_der(&bench.tag(&bench.delivery())).is_some();
    let in_der = || shot("the signature in DER", &|tag| secret.in_der(tag).unwrap_or_default());
    is_of_numbers.then(in_der).into_iter().collect()
}

/// In base64 the case of a letter matters, so a case-insensitive comparison accepts many signatures.
fn folded(bench: &Bench<'_>) -> Shots {
    let profile = bench.settings.profile;
    if !profile.is_base64() {
        return Err(format!(
            "{profile} writes signatures in hexadecimal, where case is tested by sig.encoding"
        ));
    }
    let shot = |what: &str, change: &dyn Fn(&str) -> String| {
        let delivery = bench.delivery();
        let (prefix, good) = (bench.prefix(&delivery), bench.signature(&delivery));
        let text = format!("{prefix}{}", change(&good[prefix.len()..]));
        Shot::new(what, bench.request(&delivery, &[text]), Reject)
    };
    let other_case =
        |c: char| if c.is_ascii_uppercase() { c.to_ascii_lowercase() } else { c.to_ascii_uppercase() };
    Ok(vec![
        shot("in lower case", &str::to_ascii_lowercase),
        shot("in upper case", &str::to_ascii_uppercase),
        shot("one letter in the other case", &|good| {
            let at = good.find(|c: char| c.is_ascii_alphabetic()).unwrap_or_default();
            let letter = good[at..].chars().map(other_case).take(1);
            good[..at].chars().chain(letter).chain(good[at..].chars().skip(1)).collect()
        }),
    ])
}

const CONTENT_TYPES: [&str; 7] = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/octet-stream",
    "application/cloudevents+json",
    "application/json; charset=utf-16",
    "APPLICATION/JSON",
];

/// Frameworks parse some types before a handler runs, and hooks may be tied to one type.
fn content_type(bench: &Bench<'_>) -> Shots {
    let header = bench.settings.profile.signature_header();
    let mut shots = Vec::new();
    for given in CONTENT_TYPES.into_iter().map(Some).chain([None]) {
        let typed = |request: Request| match given {
            Some(given) => request.with("Content-Type", given),
            None => request.without("Content-Type"),
        };
        let what = given.unwrap_or("no Content-Type");
        let unsigned = bench.signed(&bench.delivery()).without(header);
        shots.push(Shot::new(format!("{what}, unsigned"), typed(unsigned), Reject));
        let forged = wrongly_signed(bench, 0);
        shots.push(Shot::new(format!("{what}, wrongly signed"), typed(forged), Reject));
    }
    Ok(shots)
}

/// Any client can send these. `Host` is not among them, since a proxy decides by it.
const TRUSTED: [(&str, &str); 16] = [
    ("X-Forwarded-For", "127.0.0.1"),
    ("X-Forwarded-For", "::1"),
    ("X-Forwarded-For", "10.0.0.1"),
    ("X-Forwarded-For", "203.0.113.9, 127.0.0.1"),
    ("X-Real-IP", "10.0.0.1"),
    ("X-Real-IP", "127.0.0.1"),
    ("X-Client-IP", "127.0.0.1"),
    ("True-Client-IP", "127.0.0.1"),
    ("CF-Connecting-IP", "127.0.0.1"),
    ("Forwarded", "for=127.0.0.1;host=localhost"),
    ("X-Forwarded-Host", "localhost"),
    ("X-Debug", "1"),
    ("X-Test", "1"),
    ("X-Internal", "1"),
    ("X-Verified", "true"),
    ("X-Environment", "development"),
];

fn trust(bench: &Bench<'_>) -> Shots {
    let header = bench.settings.profile.signature_header();
    let shots = TRUSTED.into_iter().flat_map(|(name, value)| {
        let forged = wrongly_signed(bench, 0);
        let unsigned = bench.signed(&bench.delivery()).without(header);
        [("wrongly signed", forged), ("unsigned", unsigned)].map(|(how, request)| {
            Shot::new(format!("{name}: {value}, {how}"), request.with(name, value), Reject)
        })
    });
    Ok(shots.collect())
}

/// A lenient decoder reads equal bytes: 32 or 64 bytes leave unused bits in the last character.
fn other_last_bits(good: &str) -> String {
    const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let body = good.trim_end_matches('=');
    let place = ALPHABET.iter().position(|byte| body.as_bytes().last() == Some(byte)).unwrap_or_default();
    // Without unused bits it may be one of the last two, in which the alphabets differ.
    let other = char::from(ALPHABET[place ^ 1]);
    format!("{}{other}{}", &body[..body.len() - 1], &good[body.len()..])
}

/// A right signature of another text, in a token under the claims of this delivery.
pub(super) fn wrong(bench: &Bench<'_>, delivery: &Delivery, place: u8) -> String {
    bench.encoded(delivery, &bench.settings.secret.tag(&[b"wrong".as_slice(), &[place]].concat()))
}

pub(super) fn wrongly_signed(bench: &Bench<'_>, place: u8) -> Request {
    let delivery = bench.delivery();
    bench.request(&delivery, &[wrong(bench, &delivery, place)])
}

pub(super) const ROTATION: [Case; 5] = [
    Case::shots("rotation.first-valid", first_valid),
    Case::shots("rotation.second-valid", second_valid),
    Case::shots("rotation.malformed-first", malformed_first),
    Case::shots("rotation.retired-key", retired_key),
    Case::course("rotation.many", |bench| -> Running<'_> { Box::pin(many(bench)) }),
];

const MANY: usize = 500;
const PROMPT: Duration = Duration::from_secs(2);

fn several(bench: &Bench<'_>) -> Result<(), String> {
    let profile = bench.settings.profile;
    // Proxies sign messages too, under labels of their own (RFC 9421, section 4.3).
    let has_several = profile.has_several_signatures() || profile.is_message();
    has_several.then_some(()).ok_or_else(|| format!("{profile} has one signature"))
}

fn first_valid(bench: &Bench<'_>) -> Shots {
    several(bench)?;
    let foreign = bench.foreign_secret()?;
    // Stripe signs test events with `v0` too; a `v1a` has 64 bytes.
    let other = match joint(&bench.settings.profile) {
        ',' => format!("v1a,{}", base64(&[0x5a; 64])),
        join => format!("v0{join}{}", hex(&[0x5a; 32])),
    };
    let shot = |what: &str, signatures: &dyn Fn(String, String) -> Vec<String>| {
        let delivery = bench.delivery();
        let (good, foreign) = (bench.signature(&delivery), bench.signature_by(&delivery, &foreign));
        Shot::new(what, bench.request(&delivery, &signatures(good, foreign)), Accept)
    };
    let versioned = (!bench.settings.profile.is_message())
        .then(|| shot("the right one, then one of another version", &|good, _| vec![good, other.clone()]));
    let foreign = [
        shot("the right signature, then a foreign one", &|good, foreign| vec![good, foreign]),
        shot("the right one between two others", &|good, foreign| vec![foreign.clone(), good, foreign]),
    ];
    Ok(foreign.into_iter().chain(versioned).collect())
}

fn second_valid(bench: &Bench<'_>) -> Shots {
    several(bench)?;
    let delivery = bench.delivery();
    let foreign = bench.signature_by(&delivery, &bench.foreign_secret()?);
    let request = bench.request(&delivery, &[foreign, bench.signature(&delivery)]);
    Ok(vec![Shot::new("a foreign signature, then the right one", request, Accept)])
}

fn malformed_first(bench: &Bench<'_>) -> Shots {
    if bench.settings.profile.is_message() {
        return Err("a header with one broken label is broken as a whole".to_owned());
    }
    several(bench)?;
    let broken = format!("{}!!!", bench.settings.profile.signature_prefix());
    let rows = [("garbage", "garbage".to_owned()), ("a broken signature", broken)];
    let shots = rows.map(|(what, first)| {
        // A new delivery each time: a repeat has difficulties of its own.
        let delivery = bench.delivery();
        let request = bench.request(&delivery, &[first, bench.signature(&delivery)]);
        Shot::new(format!("{what}, then the right signature"), request, Accept)
    });
    Ok(shots.into())
}

fn retired_key(bench: &Bench<'_>) -> Shots {
    let retired = bench.settings.retired.as_ref().ok_or("needs --retired-secret-env")?;
    let delivery = bench.delivery();
    let alone = bench.signature_by(&delivery, retired);
    Ok(vec![Shot::new("signed with the retired key", bench.request(&delivery, &[alone]), Reject)])
}

async fn many(bench: &Bench<'_>) -> Finding {
    if let Err(why) = several(bench) {
        return Finding::new(Verdict::NotApplicable, why);
    }
    let delivery = bench.delivery();
    let mut signatures: Vec<String> =
        (0..MANY - 1).map(|at| wrong(bench, &delivery, u8::try_from(at % 256).unwrap_or(0))).collect();
    signatures.push(bench.signature(&delivery));
    let exchange = bench
        .send("500 signatures, the last one right", &bench.request(&delivery, &signatures), NoFailure)
        .await;
    let came = format!("{} after {:?}", words(&exchange.outcome), exchange.took);
    if NoFailure.is_met(&exchange.outcome) && exchange.took > PROMPT {
        let control = bench.send("one signature", &bench.signed(&bench.delivery()), NoFailure).await;
        if control.took > PROMPT {
            return Finding::unclear(format!("{came}; with one signature after {:?}", control.took));
        }
    }
    if NoFailure.is_met(&exchange.outcome) && exchange.took <= PROMPT {
        Finding::pass(words(&exchange.outcome))
    } else {
        Finding::fail(came)
    }
}
