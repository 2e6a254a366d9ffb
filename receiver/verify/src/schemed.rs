use super::headers::{Headers, id, only};
use super::keys::Keys;
use super::scheme::{Algorithm, METHOD, PARTS_MAX, Part, Scheme, Stamp};
use super::signature::{
    BASE64, DER_BASE64, Ed25519, HEX, LONG_HEX, Tag, decode_der, decode_hex, fitting_key, fitting_point,
    fitting_public,
};
use super::timestamp::{self, UnixSeconds};
use super::{Rejection, Verified, body_id};

impl Scheme {
    pub(super) fn verify<'a, H: Headers + ?Sized>(
        &self,
        now: UnixSeconds,
        headers: &'a H,
        body: &'a [u8],
        keys: &Keys,
    ) -> Result<Verified<'a>, Rejection> {
        let named = self.id.map(|name| id(headers, name)).transpose()?;
        let apart = match self.timestamp {
            Some(Stamp::Header(name)) => only(headers, name)?,
            _ => "",
        };
        let values = only(headers, self.signature)?;
        let (written, name, separator) = match self.timestamp {
            Some(Stamp::Header(name)) => (apart, name, None),
            Some(Stamp::Beside(prefix, separator)) => {
                (self.beside(values, prefix, separator)?, self.signature, Some(separator))
            }
            _ => ("", "", None),
        };
        let mut signed_at = None;
        if !matches!(self.timestamp, None | Some(Stamp::Member(_))) {
            signed_at = Some(self.fresh(timestamp::parse(written, name)?, now, keys)?);
        }
        let key = self.key(written, values, separator, body, keys)?;
        if let Some(Stamp::Member(name)) = self.timestamp {
            let count = body_id::number(body, name).ok_or(Rejection::Timestamp { name })?;
            signed_at = Some(self.fresh(UnixSeconds(count), now, keys)?);
        }
        let id = named.map_or_else(|| body_id::of(body), Into::into);
        Ok(Verified { id, signed_at, key })
    }

    fn beside<'v>(&self, values: &'v str, prefix: &str, separator: char) -> Result<&'v str, Rejection> {
        let mut found = values.split(separator).filter_map(|item| item.strip_prefix(prefix));
        match (found.next(), found.next()) {
            (Some(timestamp), None) => Ok(timestamp),
            _ => Err(Rejection::Timestamp { name: self.signature }),
        }
    }

    fn fresh(
        &self,
        UnixSeconds(count): UnixSeconds,
        now: UnixSeconds,
        keys: &Keys,
    ) -> Result<UnixSeconds, Rejection> {
        let signed_at = UnixSeconds(if self.is_in_ms { count.div_euclid(1_000) } else { count });
        timestamp::check_fresh(now, signed_at, keys.tolerance())?;
        Ok(signed_at)
    }

    /// Skips values with another prefix, such as Stripe's `v0`.
    fn key(
        &self,
        timestamp: &str,
        values: &str,
        separator: Option<char>,
        body: &[u8],
        keys: &Keys,
    ) -> Result<usize, Rejection> {
        let own = values
            .split(move |character| Some(character) == separator)
            .filter_map(|value| value.strip_prefix(self.prefix));
        let mut parts: [&[u8]; PARTS_MAX] = [&[]; PARTS_MAX];
        for (place, part) in parts.iter_mut().zip(self.signed) {
            *place = match part {
                Part::Text(text) => text.as_bytes(),
                Part::Timestamp => timestamp.as_bytes(),
                Part::Body => body,
                Part::Url => keys.url().as_bytes(),
                Part::Method => METHOD.as_bytes(),
            };
        }
        let found = match self.algorithm {
            Algorithm::HmacSha256 => {
                let (read, expected): (fn(&str) -> _, _) =
                    if self.is_base64 { (Tag::from_base64, BASE64) } else { (Tag::from_hex, HEX) };
                let tags = own.clone().filter_map(read);
                tags.clone().next().ok_or_else(|| self.unread(own, expected))?;
                fitting_key(keys.macs(), &parts, tags)
            }
            Algorithm::Ed25519 => {
                let signatures = own.clone().filter_map(|text| -> Option<Ed25519> { decode_hex(text) });
                signatures.clone().next().ok_or_else(|| self.unread(own, LONG_HEX))?;
                fitting_public(keys.publics(), &parts, signatures)
            }
            Algorithm::P256 => {
                let signatures = own.clone().filter_map(decode_der);
                signatures.clone().next().ok_or_else(|| self.unread(own, DER_BASE64))?;
                fitting_point(keys.points(), &parts, signatures)
            }
        };
        found.ok_or(Rejection::Signature)
    }

    fn unread<'v>(&self, mut own: impl Iterator<Item = &'v str>, expected: &'static str) -> Rejection {
        let name = self.signature;
        match own.next() {
            Some(_) => Rejection::Encoding { name, expected },
            None => Rejection::NoSignature { name },
        }
    }
}
