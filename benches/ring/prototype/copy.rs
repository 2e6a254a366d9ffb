//! Rows as `COPY … FROM STDIN BINARY` takes them.

use bytes::{BufMut as _, Bytes, BytesMut};

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// Rows of so many columns.
pub(super) struct Copy {
    bytes: BytesMut,
    columns: i16,
}

impl Copy {
    pub(super) fn new(columns: i16) -> Self {
        let mut bytes = BytesMut::from(SIGNATURE);
        // Neither flags nor an extension of the header.
        bytes.put_i32(0);
        bytes.put_i32(0);
        Self { bytes, columns }
    }

    /// Begins a row: its columns follow, all of them.
    pub(super) fn row(&mut self) -> &mut Self {
        self.bytes.put_i16(self.columns);
        self
    }

    pub(super) fn int8(&mut self, value: i64) -> &mut Self {
        self.bytes.put_i32(8);
        self.bytes.put_i64(value);
        self
    }

    pub(super) fn int4(&mut self, value: i32) -> &mut Self {
        self.bytes.put_i32(4);
        self.bytes.put_i32(value);
        self
    }

    pub(super) fn int2(&mut self, value: i16) -> &mut Self {
        self.bytes.put_i32(2);
        self.bytes.put_i16(value);
        self
    }

    pub(super) fn text(&mut self, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.bytes(value.as_bytes()),
            None => {
                self.bytes.put_i32(-1);
                self
            }
        }
    }

    pub(super) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.bytes.put_i32(i32::try_from(value.len()).expect("a column is small"));
        self.bytes.put_slice(value);
        self
    }

    pub(super) fn end(mut self) -> Bytes {
        self.bytes.put_i16(-1);
        self.bytes.freeze()
    }
}
