//! The small receiver refuses a `Content-Encoding`, unless its flaw does otherwise.

use std::io::{self, Read};

use crate::receiver_mutants::flaw::Flaw;
use crate::receiver_mutants::server::Server;

/// The container's limit.
const MEMORY_BYTES: u64 = 64 * 1024 * 1024;

pub(crate) fn answer(server: &Server, coding: &str, body: &[u8]) -> u16 {
    if server.has(Flaw::EncodingBreaks) {
        return 500;
    }
    let into_memory = match (server.flaw, coding) {
        (Some(Flaw::Unpacks), "gzip")
        | (Some(Flaw::UnpacksDeflate), "deflate")
        | (Some(Flaw::UnpacksZstd), "zstd") => true,
        (Some(Flaw::Inflates | Flaw::ClaimBreaks), "gzip") | (Some(Flaw::InflatesZstd), "zstd") => false,
        _ => return 415,
    };
    let unpacked = match unpacked(coding, body) {
        Ok(unpacked) => unpacked,
        Err(_) => return 400,
    };
    if server.has(Flaw::ClaimBreaks) {
        return if io::copy(&mut unpacked.take(1024), &mut io::sink()).is_ok() { 413 } else { 500 };
    }
    let most = if into_memory { MEMORY_BYTES + 1 } else { u64::MAX };
    let count = io::copy(&mut unpacked.take(most), &mut io::sink());
    // The container's limit kills it here; the front answers instead.
    if into_memory && count.is_ok_and(|count| count > MEMORY_BYTES) { 502 } else { 400 }
}

fn unpacked<'a>(coding: &str, body: &'a [u8]) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match coding {
        "zstd" => Box::new(zstd::stream::read::Decoder::new(body)?),
        "deflate" => Box::new(flate2::read::ZlibDecoder::new(body)),
        _ => Box::new(flate2::read::GzDecoder::new(body)),
    })
}
