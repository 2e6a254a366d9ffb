//! Each flaw is a published bug, with the case that detects it.

macro_rules! flaws {
    ($($name:ident, $case:literal, $what:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Flaw {
            $(#[doc = $what] $name,)*
        }

        impl Flaw {
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

flaws! {
    NeverVerifies, "sig.wrong-secret", "takes any signature in the right form";
    EmptyKey, "sig.wrong-secret", "tries an old secret too, out of a variable that is empty";
    MissingIsFine, "sig.missing", "verifies only where there is a signature";
    FailsAfterwards, "sig.missing", "processes what has no signature, and answers 500";
    EmptyIsFine, "sig.empty", "finds nothing wrong in an empty list of signatures";
    ThrowsOnEmpty, "sig.empty", "lets the exception of an empty signature through";
    TrimsAlso, "sig.body-bit", "verifies the trimmed body where the whole one does not fit";
    DropsMark, "sig.body-bit", "drops a byte order mark before verifying";
    NormalizesText, "sig.body-bit", "verifies the text after composing its accents";
    IdFromBody, "sig.id-swap", "signs over the id in the body, and dedupes by the one in the header";
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
    ForgetsTimestamp, "sig.parts", "also takes a signature without the timestamp";
    ForgetsBody, "sig.parts", "also takes a signature with an empty body";
    JoinsWithoutDots, "sig.parts", "also takes a signature over the parts without dots";
    DotInId, "sig.dot-shift", "takes an id with a dot in it";
    AnyVersion, "sig.unknown-version", "cuts the version off without reading it";
    AnyAlgorithm, "sig.algorithm", "verifies v1a like v1";
    ReadsAlgorithm, "sig.algorithm", "computes the HMAC that the header names";
    GuessesAlgorithm, "sig.algorithm", "chooses the hash by the length of the signature";
    ForgetsKey, "sig.algorithm", "takes the hash without a key as well";
    TakesHex, "sig.encoding", "takes hexadecimal as well";
    LenientBase64, "sig.base64-junk", "decodes base64 as leniently as Node";
    TrimsSignature, "sig.base64-junk", "trims spaces around a signature";
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
    DuplicateKeys, "raw.duplicate-keys", "refuses a key that is there twice";
    TrimsBody, "raw.newline", "trims the body before verifying";
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
    NarrowTolerance, "time.inside", "allows a minute";
    NoTimestampIsFine, "time.missing", "checks the timestamp only where there is one";
    EmptyTimestampIsFine, "time.empty", "takes an empty timestamp for now";
    LenientTimestamp, "time.noncanonical", "parses timestamps like parseInt";
    AgeOfFirst, "time.twice", "takes the age from the first timestamp, and verifies the last";
    AgeOfLast, "time.twice", "takes the age from the last timestamp, and verifies the first";
    NotANumber, "time.extreme", "compares with NaN";
    AgeOfDate, "time.unsigned", "takes the age from Date, if a request has it";
    AgeOfUnsigned, "time.unsigned", "takes the age from X-Timestamp, if a request has it";
    RefusesRetries, "time.resigned", "answers 409 to an id that comes with another timestamp";
    CaseMatters, "header.case", "looks headers up in lower case";
    FirstOfTwo, "header.twice", "takes the first of two ids";
    LastOfTwo, "header.twice", "takes the last of two ids";
    NoIdIsFine, "header.missing-id", "takes a missing id for an empty one";
    NeverContinues, "header.expect", "waits for the body, and never answers Expect: 100-continue";
    SendsHints, "header.expect", "waits for the body, and answers Expect: 100-continue with 103";
    NotAsciiBreaks, "header.not-ascii", "compares text that has to be ASCII, with an exception";
    FoldsWidth, "header.not-ascii", "takes full-width characters for ASCII";
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
