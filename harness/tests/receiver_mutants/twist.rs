//! The bugs that a profile can have or not, by its own data.

use crate::receiver_mutants::flaw::flaws;
use crate::receiver_mutants::shipped::{Facts, Kind, Stamp};

flaws! { Twist:
    NeverVerifies, "sig.wrong-secret", "takes any signature in the right form";
    KeyFromUrl, "sig.wrong-secret", "fetches the key from any host";
    EmptyKey, "sig.wrong-secret", "tries an old secret too, out of a variable that is empty";
    ZeroKey, "sig.wrong-secret", "tries a public key of zeros too";
    ZeroSignature, "sig.wrong-secret", "takes a signature of two zeros";
    MissingIsFine, "sig.missing", "verifies only where there is a signature";
    EmptyIsFine, "sig.empty", "finds nothing wrong in an empty signature";
    ThrowsOnEmpty, "sig.empty", "lets the exception of an empty signature through";
    TrimsAlso, "sig.body-bit", "verifies the trimmed body where the whole one does not fit";
    DropsMark, "sig.body-bit", "drops a byte order mark before verifying";
    NormalizesText, "sig.body-bit", "verifies the text after composing its accents";
    IgnoresDigest, "sig.body-bit", "does not compare the body with its digest";
    TakesFlag, "sig.body-bit", "takes a flag for true, whatever it is";
    FirstItemOnly, "sig.body-bit", "verifies the first of several items";
    FoldsId, "sig.id-swap", "writes the id in lower case before verifying";
    DecodesId, "sig.id-swap", "decodes %xx in the id before verifying";
    GuessesTimestamp, "sig.timestamp-swap", "tries the seconds around the timestamp, against clock drift";
    RewritesTimestamp, "sig.timestamp-swap", "verifies over the number that it parsed the timestamp to";
    ComparesHalf, "sig.tag-bit", "compares the first half of a signature";
    SkipsByte, "sig.tag-bit", "compares all bytes of a signature but the sixth";
    MasksBit, "sig.tag-bit", "compares seven bits of each byte of a signature";
    XorsDifferences, "sig.tag-bit", "joins the differences of a signature's bytes by xor, so that two cancel out";
    ComparesPrefix, "sig.truncated", "compares as many characters as were given";
    BodyOnly, "sig.parts", "still takes the old scheme, over the body alone";
    ForgetsId, "sig.parts", "also takes a signature without the id";
    ForgetsTimestamp, "sig.parts", "also takes a signature without the time";
    ForgetsBody, "sig.parts", "also takes a signature without the body";
    ForgetsUrl, "sig.parts", "also takes a signature without the URL";
    ForgetsMethod, "sig.parts", "also takes a signature without the method";
    ForgetsAudience, "sig.parts", "also takes a signature that names no receiver";
    AnyAudience, "sig.parts", "also takes a signature for another receiver";
    ForgetsMember, "sig.parts", "also takes a signature without the last member";
    JoinsWithoutDots, "sig.parts", "also takes a signature over the parts without the text between them";
    ReadsBorder, "sig.dot-shift", "takes a part with the text in it that ends it";
    AnyVersion, "sig.unknown-version", "cuts the version off without reading it";
    GuessesAlgorithm, "sig.algorithm", "chooses the hash by the length of the signature";
    ForgetsKey, "sig.algorithm", "takes the hash without a key as well";
    HmacByKey, "sig.algorithm", "takes an HMAC by the bytes of its public key as well";
    HmacByText, "sig.algorithm", "takes an HMAC by the text of its public key as well";
    HmacByPem, "sig.algorithm", "takes an HMAC by the PEM of its public key as well";
    NoAlgorithm, "sig.algorithm", "verifies nothing where the algorithm is none";
    AnyAlgorithm, "sig.algorithm", "does not read the name of the algorithm";
    KeyFromHead, "sig.algorithm", "takes the key that a token brings along";
    TakesHex, "sig.encoding", "takes hexadecimal as well";
    TakesBase64, "sig.encoding", "takes base64 as well";
    LenientBase64, "sig.base64-junk", "decodes base64 as leniently as Node";
    LenientHex, "sig.base64-junk", "decodes hexadecimal as leniently as Node";
    LenientDer, "sig.base64-junk", "reads lengths and numbers in more than one form";
    TakesDer, "sig.base64-junk", "takes DER as well";
    DropsBlanks, "sig.base64-junk", "drops spaces in the signature";
    DecodesPercent, "sig.base64-junk", "decodes %xx in the signature";
    FoldsSignature, "sig.case", "compares base64 without regard to case";
    VerifiesJsonOnly, "sig.content-type", "verifies bodies that are declared as JSON, and takes text/plain";
    TrustsProxy, "sig.trust", "verifies nothing that X-Forwarded-For says to be from 127.0.0.1";
    TrustsDebug, "sig.trust", "verifies nothing that has a header X-Debug";
    LastSignatureOnly, "rotation.first-valid", "looks at the last signature only";
    StopsAtForeign, "rotation.first-valid", "rejects at any signature of another version";
    FirstSignatureOnly, "rotation.second-valid", "looks at the first signature only";
    StopsAtGarbage, "rotation.malformed-first", "rejects at the first signature that it cannot parse";
    RetiredKey, "rotation.retired-key", "never removes old keys";
    WritesJsonAgain, "raw.whitespace", "verifies over parsed JSON, written again";
    TrimsBody, "raw.newline", "trims the body before verifying";
    VerifiesText, "raw.replacement", "verifies the decoded text";
    ParsesFirst, "raw.verify-first", "parses the JSON before it verifies";
    NoAgeCheck, "time.old", "never looks at the age";
    IgnoresExpires, "time.old", "does not look at the end of a signature";
    NoFutureCheck, "time.future", "looks at the age alone";
    NarrowTolerance, "time.inside", "allows a fifth of the tolerance";
    NoTimestampIsFine, "time.missing", "checks the time only where there is one";
    EmptyTimestampIsFine, "time.empty", "takes an empty timestamp for now";
    LenientTimestamp, "time.noncanonical", "parses timestamps like parseInt";
    AgeOfFirst, "time.twice", "takes the age from the first timestamp, and verifies the last";
    AgeOfLast, "time.twice", "takes the age from the last timestamp, and verifies the first";
    NotANumber, "time.extreme", "compares with NaN";
    AgeOfDate, "time.unsigned", "takes the age from Date, if a request has it";
    AgeOfUnsigned, "time.unsigned", "takes the age from X-Timestamp, if a request has it";
    RefusesRetries, "time.resigned", "answers 409 to an id that comes with another timestamp";
    CaseMatters, "header.case", "looks headers up in lower case";
    FirstOfTwo, "header.twice", "takes the first of two ids or times";
    LastOfTwo, "header.twice", "takes the last of two ids or times";
    NoIdIsFine, "header.missing-id", "takes a missing id for an empty one";
    NotAsciiBreaks, "header.not-ascii", "compares text that has to be ASCII, with an exception";
    FoldsWidth, "header.not-ascii", "takes full-width characters for ASCII";
    CachesBySignature, "replay.cached", "verifies each signature once";
    CachesByBody, "replay.cached", "verifies each body once";
}

impl Twist {
    /// The error says why no receiver of the profile can have it.
    pub(crate) fn applies(self, of: &Facts) -> Result<(), &'static str> {
        let when = |is_so: bool, why: &'static str| if is_so { Ok(()) } else { Err(why) };
        match self {
            Self::TrimsAlso
            | Self::DropsMark
            | Self::NormalizesText
            | Self::BodyOnly
            | Self::ForgetsBody
            | Self::WritesJsonAgain
            | Self::TrimsBody
            | Self::VerifiesText
            | Self::ParsesFirst
                if of.texts.member.is_some() =>
            {
                Err("members of the body are signed, not its bytes")
            }
            Self::TakesFlag | Self::FirstItemOnly | Self::ForgetsMember => {
                when(of.texts.member.is_some(), "no member of the body is signed")
            }
            Self::KeyFromUrl => when(of.texts.key_url.is_some(), "no URL of a key is sent"),
            Self::ForgetsAudience | Self::AnyAudience => {
                when(of.texts.audience.is_some(), "the receiver is not named")
            }
            Self::CaseMatters => when(of.texts.signature_field.is_none(), "its signature is in the body"),
            Self::EmptyKey
            | Self::ComparesHalf
            | Self::SkipsByte
            | Self::MasksBit
            | Self::XorsDifferences
            | Self::ComparesPrefix
            | Self::ForgetsKey => when(of.is_shared, "a public key verifies, and compares nothing"),
            Self::ZeroKey => when(of.is_ed25519, "it has no key of Ed25519"),
            Self::ZeroSignature => when(of.is_p256(), "it has no key of P-256"),
            Self::IgnoresDigest => when(of.has_digest, "the signature covers the body itself"),
            Self::FoldsId | Self::DecodesId | Self::NoIdIsFine => {
                when(of.signs("{id}"), "no id is signed beside the body")
            }
            Self::ForgetsId => {
                when(of.signs("{id}") && of.kind == Kind::Template, "no signature has to cover an id")
            }
            Self::GuessesAlgorithm => {
                when(of.is_shared && of.kind == Kind::Template, "the key decides the algorithm")
            }
            Self::HmacByKey | Self::HmacByText => when(!of.is_shared, "its key is a secret"),
            Self::HmacByPem => when(of.has_named_keys() && !of.is_shared, "no key of it is in PEM"),
            Self::AnyVersion => when(of.has_version, "no version is before the signature"),
            Self::AnyAlgorithm => when(of.has_named_keys(), "no algorithm is named"),
            Self::NoAlgorithm | Self::KeyFromHead => {
                when(of.kind == Kind::Token, "its signature is no token")
            }
            Self::TakesDer => {
                when(of.has_named_keys() && of.is_p256(), "its signature has no two numbers side by side")
            }
            Self::LenientDer => when(of.is_der, "its signature is not in DER"),
            Self::TakesHex | Self::LenientBase64 => when(of.is_base64, "its signature is in hexadecimal"),
            Self::FoldsSignature => {
                when(of.is_base64 && of.is_shared, "its signature is in hexadecimal, or is not compared")
            }
            Self::TakesBase64 | Self::LenientHex => when(!of.is_base64, "its signature is in base64"),
            Self::FirstOfTwo | Self::LastOfTwo => {
                when(of.has_own_headers, "neither an id nor a time has a header of its own")
            }
            _ => self.applies_to_parts(of),
        }
    }

    fn applies_to_parts(self, of: &Facts) -> Result<(), &'static str> {
        let when = |is_so: bool, why: &'static str| if is_so { Ok(()) } else { Err(why) };
        let is_dated = || when(of.stamp != Stamp::None, "no signed time is judged");
        match self {
            Self::StopsAtGarbage if of.kind == Kind::Message => {
                Err("a header with one broken label is broken as a whole")
            }
            Self::LastSignatureOnly
            | Self::StopsAtForeign
            | Self::FirstSignatureOnly
            | Self::StopsAtGarbage => when(of.has_several, "a request has one signature"),
            Self::BodyOnly | Self::JoinsWithoutDots if of.kind != Kind::Template => {
                Err("claims and components have names")
            }
            Self::BodyOnly => when(of.template != "{body}", "the body alone is signed"),
            Self::JoinsWithoutDots => when(of.has_text(), "no text is between the parts"),
            Self::ReadsBorder => when(of.border().is_some(), "nothing ends the signed time"),
            Self::ForgetsBody => when(
                of.signs("{crc32}") || (of.signs("{body}") && of.template != "{body}"),
                "the body alone is signed, or a digest in the URL",
            ),
            Self::ForgetsUrl => when(of.signs("{url}"), "no URL is signed"),
            Self::ForgetsMethod => when(of.signs("{method}"), "no method is signed"),
            Self::ForgetsTimestamp => {
                is_dated()?;
                when(of.signs("{timestamp}"), "the time is a part of the body")
            }
            Self::GuessesTimestamp | Self::RewritesTimestamp => {
                is_dated()?;
                when(of.stamp != Stamp::Json, "the signed text has the time, as it was written")
            }
            Self::LenientTimestamp | Self::NotANumber | Self::AgeOfFirst | Self::AgeOfLast => {
                is_dated()?;
                when(of.stamp != Stamp::Json, "JSON has rules of its own for numbers")
            }
            Self::EmptyTimestampIsFine => {
                is_dated()?;
                when(
                    matches!(of.stamp, Stamp::Header | Stamp::Beside),
                    "no empty text can stand for the time",
                )
            }
            Self::IgnoresExpires => when(of.kind == Kind::Message, "no signature says when it ends"),
            Self::NoAgeCheck
            | Self::NoFutureCheck
            | Self::NarrowTolerance
            | Self::NoTimestampIsFine
            | Self::AgeOfDate
            | Self::AgeOfUnsigned
            | Self::RefusesRetries => is_dated(),
            _ => Ok(()),
        }
    }
}
