//! Each flaw is a published bug, with the case that detects it.

macro_rules! flaws {
    ($of:ident: $($name:ident, $case:literal, $what:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum $of {
            $(#[doc = $what] $name,)*
        }

        impl $of {
            pub(crate) const ALL: &[Self] = &[$(Self::$name),*];

            pub(crate) const fn case(self) -> &'static str {
                match self { $(Self::$name => $case,)* }
            }

            pub(crate) const fn what(self) -> &'static str {
                match self { $(Self::$name => $what,)* }
            }
        }
    };
}

pub(crate) use flaws;

flaws! { Flaw:
    NeverVerifies, "sig.wrong-secret", "takes any signature in the right form";
    MissingIsFine, "sig.missing", "verifies only where there is a signature";
    FailsAfterwards, "sig.missing", "processes what has no signature, and answers 500";
    EmptyIsFine, "sig.empty", "finds nothing wrong in an empty list of signatures";
    ThrowsOnEmpty, "sig.empty", "lets the exception of an empty signature through";
    DropsMark, "sig.body-bit", "drops a byte order mark before verifying";
    IdFromBody, "sig.id-swap", "signs over the id in the body, and dedupes by the one in the header";
    XorsDifferences, "sig.tag-bit", "joins the differences of a signature's bytes by xor, so that two cancel out";
    DotInId, "sig.dot-shift", "takes an id with a dot in it";
    AnyAlgorithm, "sig.algorithm", "verifies v1a like v1";
    ReadsAlgorithm, "sig.algorithm", "computes the HMAC that the header names";
    TrimsSignature, "sig.base64-junk", "trims spaces around a signature";
    TrustsProxy, "sig.trust", "verifies nothing that X-Forwarded-For says to be from 127.0.0.1";
    WritesJsonAgain, "raw.whitespace", "verifies over parsed JSON, written again";
    DuplicateKeys, "raw.duplicate-keys", "refuses a key that is there twice";
    NotUtf8Breaks, "raw.not-utf8", "decodes the body with an exception";
    VerifiesText, "raw.replacement", "verifies the decoded text";
    EmptyBreaks, "raw.empty", "reads the first byte of every body";
    NotJsonBreaks, "raw.not-json", "lets the parser's exception through";
    ObjectsOnly, "raw.not-json", "takes any JSON for an object";
    ParsesFirst, "raw.verify-first", "parses the JSON before it verifies";
    NeedsLength, "raw.chunked", "reads as much as Content-Length says";
    DecimalChunks, "raw.chunked", "reads the size of a chunk as a decimal number";
    SmallChunks, "raw.chunked", "reads one digit of the size of a chunk";
    LowerCaseChunks, "raw.chunked", "reads the size of a chunk in lower case only";
    BareChunks, "raw.chunk-extensions", "knows no extensions of chunks";
    NoTrailers, "raw.chunk-extensions", "knows no trailers";
    LeavesBody, "raw.unread", "answers 401 before it reads the body, and reads on from there";
    LeavesBodyOfPut, "raw.unread", "answers 405 before it reads the body, and reads on from there";
    LeavesLongBody, "raw.unread", "answers 413 before it reads a long body, and reads on from there";
    LeavesRest, "raw.unread", "reads 64 KiB of the body of a refused request, and reads on from there";
    NoAgeCheck, "time.old", "never looks at the age";
    NoFutureCheck, "time.future", "looks at the age alone";
    AgeOfDate, "time.unsigned", "takes the age from Date, if a request has it";
    RefusesRetries, "time.resigned", "answers 409 to an id that comes with another timestamp";
    NeverContinues, "header.expect", "waits for the body, and never answers Expect: 100-continue";
    SendsHints, "header.expect", "waits for the body, and answers Expect: 100-continue with 103";
    NotAsciiBreaks, "header.not-ascii", "compares text that has to be ASCII, with an exception";
    EndlessHeaders, "header.32kb", "reads headers of any length";
    NoDedupe, "replay.exact", "processes every request";
    DuplicatesBreak, "replay.exact", "answers 500 to an id that it knows";
    Races, "replay.at-once", "looks an id up, then works, then writes it down";
    DedupesBySignature, "replay.resigned", "dedupes by the signature";
    DedupesByIdAndBody, "replay.same-id-new-body", "dedupes by id and body";
    DedupesBeforeVerifying, "replay.poison", "writes the id down before it verifies";
    ForgetsAtRestart, "replay.after-restart", "keeps the ids in memory";
    AcksFirst, "replay.after-restart", "answers before it has written anything down";
    MarksBeforeStoring, "replay.after-restart", "writes the id down, and the delivery a moment later";
    MarksInMemory, "replay.after-failure", "takes copies while the first one is not stored yet";
    DedupesBeforeSuccess, "replay.after-failure", "writes the id down before the work is done";
    CachesById, "replay.cached", "verifies each id once";
    CachesBySignature, "replay.cached", "verifies each signature once";
    CachesByBody, "replay.cached", "verifies each body once";
    CachesByTimestamp, "replay.cached", "verifies each timestamp once";
    TrustsConnection, "replay.cached", "verifies the first delivery of a connection";
    FoldsKeptIds, "replay.distinct", "keeps ids in a column that knows no case";
    CutsKeptIds, "replay.distinct", "keeps ids in a column of 64 characters";
    RemembersOne, "replay.later", "remembers the id of the last delivery";
    RemembersSixteen, "replay.later", "remembers the ids of the last 16 deliveries";
    InOrderOnly, "order.swapped", "refuses events older than the newest";
    SlowAck, "ack.fast", "does the work before it answers";
    KnownTypesOnly, "ack.unknown-type", "answers 400 to types that it does not know";
    BreaksUnderLoad, "ack.overload", "has 40 database connections, and an exception for the next";
    DropsWhenBusy, "ack.overload", "accepts requests that it has no room for, and drops them";
    Redirects, "ack.no-redirect", "redirects clients that accept HTML";
    TakesGet, "method.get", "takes GET as well";
    TakesPut, "method.put", "takes PUT as well";
    TakesDelete, "method.delete", "takes DELETE as well";
    StoresHandshake, "handshake.answered", "takes a handshake for an event";
    AnswersUnsigned, "handshake.answered", "answers a handshake with its challenge alone, and not the HMAC";
    GreetsInHtml, "handshake.answered", "answers a handshake as text/html";
    GreetsStrangers, "handshake.forged", "answers a handshake before it verifies";
    GreetsWhileRefusing, "handshake.forged", "answers a forged handshake too, with 401";
    FindsHandshake, "handshake.event", "finds a handshake's words anywhere in the text";
    PermitsByStatus, "handshake.permission", "answers OPTIONS with 200, and allows no origin";
    PermitsAnother, "handshake.permission", "allows the one origin that it was built with";
    PermitsNoRate, "handshake.permission", "allows the origin, and no rate";
    PermitsZero, "handshake.permission", "allows a rate of 0";
    SmallBodies, "limit.20kb", "takes bodies of 16 kB";
    MediumBodies, "limit.1mb", "takes bodies of 512 kB";
    EndlessBody, "limit.endless", "buffers bodies of any length";
    OneAtATime, "limit.slow", "serves one connection after another";
    Patient, "limit.slow", "waits for ever";
    PatientWithHeads, "limit.slow", "has a deadline for bodies, and none for heads";
    Unpacks, "limit.gzip", "unpacks every body, in 64 MB of memory";
    UnpacksDeflate, "limit.gzip", "unpacks deflate, in 64 MB of memory";
    UnpacksZstd, "limit.gzip", "unpacks zstd, in 64 MB of memory";
    ClaimBreaks, "limit.gzip", "lets the exception of a body with a false encoding through";
    EncodingBreaks, "limit.inflate", "lets the exception of an encoding that it does not know through";
    Recurses, "limit.deep", "parses JSON of any depth on its stack";
    Inflates, "limit.inflate", "unpacks gzip piece by piece, however long it is";
    InflatesZstd, "limit.inflate", "unpacks zstd piece by piece, however long it is";
    TellsExpected, "leak.error-body", "says which signature it expected";
    TellsTrace, "leak.error-body", "answers errors with a stack trace";
    TellsTraceInJson, "leak.error-body", "answers errors with JSON that holds a stack trace";
    TellsKey, "leak.error-body", "answers errors with its key in hexadecimal";
}
