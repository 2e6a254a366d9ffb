//! The bytes that every attempt of a delivery sends.

use std::fmt::Write as _;

use super::event_type::EventType;
use super::json::Json;
use super::public_id::PublicId;
use super::timestamp::Timestamp;
use crate::engine::time::StoreTime;

/// `{"id":…,"type":…,"timestamp":…,"data":…}`, built once per event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Body(String);

impl Body {
    /// Copies the data byte for byte. Id and type need no escaping.
    #[must_use]
    pub fn build(id: &PublicId, event_type: &EventType, at: StoreTime, data: Json<'_>) -> Self {
        const FRAME_BYTES: usize = 66;

        let bytes = FRAME_BYTES + id.as_str().len() + event_type.as_str().len() + data.text().len();
        let mut text = String::with_capacity(bytes);
        for part in ["{\"id\":\"", id.as_str(), "\",\"type\":\"", event_type.as_str(), "\",\"timestamp\":\""]
        {
            text.push_str(part);
        }
        write!(text, "{}", Timestamp(at)).expect("writing to a String does not fail");
        for part in ["\",\"data\":", data.text(), "}"] {
            text.push_str(part);
        }
        Self(text)
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The bytes, owned.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Depth;

    #[test]
    fn a_body_is_the_four_fields_in_their_order_with_the_data_untouched() {
        let data = "{\"b\" : 1.0,\n\"a\":\"\\u00e9\",\"a\":12345678901234567890123}";
        let json = Json::parse(data.as_bytes(), Depth::DEFAULT).unwrap();
        let at = StoreTime(1_674_087_231_007_999_999);
        let body = Body::build(&"evt_1".parse().unwrap(), &"video.trending".parse().unwrap(), at, json);
        let expected = format!(
            "{{\"id\":\"evt_1\",\"type\":\"video.trending\",\"timestamp\":\"2023-01-19T00:13:51.007Z\",\"data\":{data}}}"
        );
        assert_eq!(body.as_bytes(), expected.as_bytes());
        assert_eq!(body.0.len(), body.0.capacity(), "one allocation, exactly as long as it must be");
    }
}
